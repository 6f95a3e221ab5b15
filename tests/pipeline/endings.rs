//! Odd inputs: what is said of them, and with which status it ends.
#![forbid(unsafe_code)]

use std::io::Write;
use std::process::{Command, Stdio};

use crate::run::{GOOD, HEADER, Run, binary, on, pipeline, rows, zipped};

#[test]
fn malformed_lines_are_listed_and_reading_goes_on_and_the_status_is_2() {
    let odd = GOOD.replace("517", "5l7");
    let text = format!("{HEADER}\n{GOOD}\n{}{GOOD}\nshort\n", format!("{odd}\n").repeat(11));
    let run = on("malformed.csv", text, &[]).ends(2);
    run.says("read       2 rows: 0 cancelled, 0 without a tail number; 12 malformed lines");
    let lines: Vec<_> = run.err.lines().collect();
    assert_eq!(lines.len(), 11);
    assert_eq!(lines[0], "pipeline: 12 malformed lines, skipped; the first 10:");
    for (index, line) in lines[1..].iter().enumerate() {
        let said = "column dep_time: found \"5l7\", wanted a time of day such as 517, or NA";
        assert_eq!(*line, format!("  line {}, {said}", index + 3));
    }
    let run = on("short.csv", format!("{HEADER}\nshort\n"), &["--quiet"]).ends(2);
    let said =
        "pipeline: 1 malformed line, skipped:\n  line 2, column month: found the end of the line after 1 of 9 fields\n";
    assert_eq!(run.err, said);
}

#[test]
fn bytes_that_are_not_text_and_lines_without_end_cost_one_line_each() {
    let mut text = format!("{HEADER}\n{GOOD}\n2013,1,2,517,-3,U").into_bytes();
    text.extend(b"\xff\x00,N1,EWR,IAH\n");
    text.extend(vec![b'z'; 3_000_000]);
    text.extend(format!("\n{GOOD}\n2013,1,2,517,-3,\"UA,N1,EWR,IAH\n{GOOD}").bytes());
    let run = on("bytes.csv", text, &[]).ends(2);
    run.says("3 rows: 0 cancelled");
    run.warns("  line 3, column carrier: found \"U\\xff\\u{0}\", which is not UTF-8\n");
    run.warns("  line 4, column year: found a line of more than 65536 bytes, \"zzzz");
    run.warns("  line 6, column carrier: found a quote that is not closed in this line");
}

#[test]
fn windows_files_quotes_and_a_byte_order_mark_are_read_alike() {
    let quoted = GOOD.split(',').map(|field| format!("\"{field}\"")).collect::<Vec<_>>().join(",");
    let text = format!("\u{feff}{HEADER}\r\n{quoted}\r\n\r\n{GOOD}\r\n");
    on("windows.csv", &text, &["-q"]).ends(0).says("2 rows, 0 cancelled, 0 without a tail number, 0 malformed; ");
    let zip = zipped(&[("__MACOSX/._a.csv", b"x"), ("read.me", b"x"), ("dir/A.CSV", text.as_bytes())]);
    on("windows.zip", zip, &["-q"]).ends(0).says("2 rows, ");
}

#[test]
fn a_file_without_rows_is_no_error() {
    let run = on("header.csv", HEADER, &[]).ends(0);
    run.says("read       0 rows: 0 cancelled, 0 without a tail number; 0 malformed lines");
    on("header.csv", rows(0), &["-q"]).ends(0).says("0 rows, ");
}

#[test]
fn what_cannot_be_read_is_one_sentence_and_status_1() {
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty.csv", Vec::new(), " is empty; its first line should name the columns"),
        ("lacks.csv", HEADER.replace(",tailnum", "").into(), " has no column `tailnum`; its columns are \"year\", "),
        ("a.csv.gz", vec![0x1f, 0x8b, 8, 0], " is compressed with gzip, which is not read here; unpack it first"),
        ("none.zip", zipped(&[("a.txt", b"x")]), " is a zip archive without a CSV file in it"),
        ("no-files.zip", zipped(&[]), " is a zip archive without a CSV file in it"),
        ("two.zip", zipped(&[("a.csv", b"x"), ("b.csv", b"x")]), " several CSV files in it (a.csv and b.csv); unpack "),
        ("cut.zip", zipped(&[("a.csv", HEADER.as_bytes())])[..40].to_vec(), " cannot be read as a zip archive: "),
        ("picture.csv", b"\x89PNG\r\n\x1a\n\xff\xff".to_vec(), " does not begin with a line that names columns: "),
    ];
    for (name, content, said) in cases {
        one_sentence(&on(name, content, &[]).ends(1), said);
    }
    one_sentence(&pipeline(&["no/such/file.csv"]).ends(1), "pipeline: cannot open no/such/file.csv: ");
    let folder = env!("CARGO_TARGET_TMPDIR");
    one_sentence(&pipeline(&[folder]).ends(1), " is a directory; name a CSV file, or a zip archive with one in it");
    one_sentence(&pipeline(&["--key", "seat"]).ends(1), " has no column `seat`; its columns are \"year\", ");
}

#[track_caller]
fn one_sentence(run: &Run, said: &str) {
    run.warns(said);
    assert!(run.err.starts_with("pipeline: ") && run.err.ends_with('\n'), "{}", run.err);
    assert_eq!(run.err.lines().count(), 1, "{}", run.err);
    assert_eq!(run.out, "");
}

#[test]
fn a_damaged_archive_is_reported_as_far_as_it_went_with_status_1() {
    let mut bytes = zipped(&[("a.csv", rows(5000).as_bytes())]);
    bytes[2000] ^= 1; // inside a row; only the checksum at the end can tell
    let run = on("damaged.zip", bytes, &[]).ends(1);
    run.says("Departures from New York");
    run.warns("pipeline: reading ");
    run.warns(" stopped after line 500");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let mut command = Command::new(binary());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
}

/// What cannot be opened twice or sought in, such as a shell's `<(…)`, is read all the same.
#[cfg(unix)]
#[test]
fn a_pipe_is_read_as_a_file() {
    let mut command = Command::new(binary());
    command.args(["/dev/stdin", "-q"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    let mut stdin = child.stdin.take().expect("it has a stdin");
    stdin.write_all(rows(1).as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("1 row, "), "{output:?}");
}
