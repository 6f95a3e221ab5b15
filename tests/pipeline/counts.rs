//! What it counts is what an independent reader counts.
#![forbid(unsafe_code)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use zip::ZipArchive;

use crate::run::{Run, on, pipeline, words};

/// A count that shares nothing with the example but the rules of CSV: columns by their names, by the crate `csv`.
#[derive(Default)]
struct Counted {
    rows: u64,
    cancelled: u64,
    without_tailnum: u64,
    carriers: BTreeMap<String, (u64, i64)>,
    routes: BTreeMap<String, u64>,
    aircraft: BTreeSet<String>,
}

fn count(text: &[u8]) -> Counted {
    let mut reader = csv::Reader::from_reader(text);
    let names = reader.headers().expect("a header").clone();
    let column = |name: &str| names.iter().position(|it| it == name).expect("the data has this column");
    let [time, delay, carrier, tailnum, origin, dest] =
        ["dep_time", "dep_delay", "carrier", "tailnum", "origin", "dest"].map(column);
    let mut counted = Counted::default();
    for row in reader.records() {
        let row = row.expect("the data is well-formed");
        counted.rows += 1;
        *counted.routes.entry(format!("{} → {}", &row[origin], &row[dest])).or_default() += 1;
        if &row[tailnum] == "NA" {
            counted.without_tailnum += 1;
        } else {
            counted.aircraft.insert(row[tailnum].to_owned());
        }
        if &row[time] == "NA" {
            counted.cancelled += 1;
            continue;
        }
        let (flights, minutes) = counted.carriers.entry(row[carrier].to_owned()).or_default();
        *flights += 1;
        *minutes += row[delay].parse::<i64>().expect("a flight that left has a delay");
    }
    counted
}

fn unzip(bytes: &[u8]) -> Vec<u8> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).expect("a zip archive");
    let mut text = Vec::new();
    archive.by_index(0).expect("one file in it").read_to_end(&mut text).expect("it unpacks");
    text
}

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/flights-2013-01.csv.zip")
}

fn thousands(number: u64) -> String {
    let text = number.to_string();
    let parts: Vec<_> = text.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy).collect();
    parts.join(",")
}

/// Compares a report with an independent count of the file.
#[track_caller]
fn agree(run: &Run, counted: &Counted) {
    let Counted { rows, cancelled, without_tailnum, .. } = *counted;
    let [n, dead, bare, left] = [rows, cancelled, without_tailnum, rows - cancelled].map(thousands);
    run.says(&format!("{n} rows: {dead} cancelled, {bare} without a tail number; 0 malformed lines"));
    let lines: Vec<_> = run.out.lines().map(words).collect();
    let find = |start: &[&str]| lines.iter().find(|line| line.starts_with(start)).cloned().unwrap_or_default();
    assert_eq!(find(&["delays"])[1..4], [&left, "0", &dead]);
    assert_eq!(find(&["routes"])[1..4], [&n, "0", "0"]);
    assert_eq!(find(&["notices"])[1..4], [&n, &thousands(rows / 1000), "0"]);
    assert_eq!(find(&["ok", "delays"]), ["ok", "delays", &n, "=", &left, "+", &dead, "+", "0", "+", "0"]);
    for group in ["routes", "notices", "order", "audit"] {
        assert_eq!(find(&["ok", group]), ["ok", group, &n, "=", &n, "+", "0", "+", "0", "+", "0"]);
    }
    for (carrier, (flights, minutes)) in &counted.carriers {
        let line = find(&[carrier]);
        let mean = format!("{:.1}", *minutes as f64 / *flights as f64);
        assert_eq!(line[line.len() - 2..], [mean.as_str(), &thousands(*flights)], "{carrier}");
    }
    let mut routes: Vec<_> = counted.routes.iter().collect();
    routes.sort_by_key(|(name, flights)| (Reverse(**flights), *name));
    for (rank, (route, flights)) in routes.into_iter().take(10).enumerate() {
        let line = find(&[&(rank + 1).to_string()]);
        assert_eq!(line[1..].join(" "), format!("{route} {}", thousands(*flights)));
    }
    let (keyed, aircraft) = (thousands(rows - without_tailnum), thousands(counted.aircraft.len() as u64));
    run.says(&format!("ok  order: {keyed} rows of {aircraft} keys in order, 0 out of order, {bare} without a key"));
    run.says(&format!("ok  audit: {n} rows arrived, 0 missing, 0 twice"));
}

#[test]
fn january_is_built_in_and_counted_exactly() {
    let counted = count(&unzip(&fs::read(sample()).expect("the sample is in the repository")));
    assert_eq!((counted.rows, counted.cancelled, counted.without_tailnum), (27_004, 521, 155));
    let run = pipeline(&[]).ends(0);
    agree(&run, &counted);
    run.says("Departures from New York, 1 to 31 January 2013\n");
    assert_eq!(run.err, "");
}

/// With the path of the whole year, plain or zipped, in `RINGLOG_FLIGHTS`, also on that.
#[test]
fn a_file_by_path_is_counted_exactly_plain_and_zipped() {
    let year = std::env::var("RINGLOG_FLIGHTS").ok().map(PathBuf::from);
    for path in year.iter().chain([&sample()]) {
        let bytes = fs::read(path).expect("the file can be read");
        let text = if bytes.starts_with(b"PK") { unzip(&bytes) } else { bytes };
        let counted = count(&text);
        if Some(path) == year.as_ref() {
            assert_eq!((counted.rows, counted.cancelled, counted.without_tailnum), (336_776, 8_255, 2_512));
        }
        let path = path.to_str().expect("a UTF-8 path");
        agree(&pipeline(&[path, "--partitions", "3", "--capacity", "100"]).ends(0), &counted);
        agree(&on("counted.csv", &text, &["--no-progress"]).ends(0), &counted);
    }
}

/// The sample's size is part of every build.
#[test]
fn the_sample_stays_small() {
    let size = fs::metadata(sample()).expect("the sample is in the repository").len();
    assert!(size < 700_000, "{size} bytes");
}
