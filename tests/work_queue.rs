//! The example `work_queue` on real files: all of them are packed, once, and what is in the archives is what was in the files.
#![forbid(unsafe_code)]

#[allow(dead_code)]
#[path = "../examples/work_queue.rs"]
mod example;

use clap::Parser;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use zip::ZipArchive;

/// A folder of one's own, empty.
fn folder(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("work_queue-{name}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

/// Six folders with twenty files each, of different lengths.
fn files(root: &Path) -> Vec<PathBuf> {
    let mut made = Vec::new();
    for n in 0..120_usize {
        let path = root.join(format!("f{}", n % 6)).join(format!("{n}.txt"));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("{n} ").repeat(n * n)).unwrap();
        made.push(path);
    }
    made
}

/// Where the archive of a file goes.
fn archive(out: &Path, file: &Path) -> PathBuf {
    let inside = file.components().filter(|part| matches!(part, std::path::Component::Normal(_)));
    PathBuf::from(format!("{}.zip", out.join(inside.collect::<PathBuf>()).display()))
}

fn run(root: &Path, out: &Path, more: &[&str]) -> example::Report {
    let (root, out) = (root.to_str().unwrap(), out.to_str().unwrap());
    let args = [&["work_queue", "--quiet", "--out", out][..], more, &[root]].concat();
    example::run(&example::Args::parse_from(args)).unwrap()
}

fn unpacked(path: &Path) -> String {
    let mut archive = ZipArchive::new(fs::File::open(path).unwrap()).unwrap();
    let mut text = String::new();
    archive.by_index(0).unwrap().read_to_string(&mut text).unwrap();
    text
}

/// Every line of the index of a folder.
fn index(out: &Path, file: &Path) -> Vec<String> {
    let path = archive(out, file).with_file_name("INDEX.csv");
    fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect()
}

// B-E5
#[test]
fn every_file_is_packed_once_by_one_of_the_workers_and_stands_in_its_folder_s_index() {
    let (root, out) = (folder("in"), folder("out"));
    let files = files(&root);
    let report = run(&root, &out, &["--workers", "4"]);
    assert!(report.text.starts_with("packed 120 of 120 files in 6 folders:"), "{}", report.text);
    assert_eq!(report.given_up, 0);
    for file in &files {
        assert_eq!(unpacked(&archive(&out, file)), fs::read_to_string(file).unwrap());
    }
    for nth in 0..6 {
        let of = |file: &&PathBuf| file.parent().unwrap().ends_with(format!("f{nth}"));
        let wanted: BTreeSet<String> = files
            .iter()
            .filter(of)
            .map(|file| {
                let size = |path: &Path| fs::metadata(path).unwrap().len();
                let name = file.file_name().unwrap().to_str().unwrap();
                format!("{name},{},{}", size(file), size(&archive(&out, file)))
            })
            .collect();
        let lines = index(&out, files.iter().find(of).unwrap());
        assert_eq!((lines.len(), lines.into_iter().collect::<BTreeSet<_>>()), (20, wanted));
    }
}

#[test]
fn a_file_that_cannot_be_packed_is_given_up_and_holds_up_no_other() {
    let (root, out) = (folder("bad-in"), folder("bad-out"));
    let files = files(&root);
    fs::create_dir_all(archive(&out, &files[0])).unwrap(); // a folder where its archive should go
    let report = run(&root, &out, &["--workers", "2", "--attempts", "2"]);
    assert!(report.text.starts_with("packed 119 of 120 files"), "{}", report.text);
    assert!(report.text.contains("given up after 2 attempts:") && report.text.contains("0.txt"), "{}", report.text);
    assert_eq!(report.given_up, 1);
    assert!(files[1..].iter().all(|file| archive(&out, file).is_file()));
}

#[test]
fn a_folder_whose_index_cannot_be_written_holds_up_no_other() {
    let (root, out) = (folder("index-in"), folder("index-out"));
    let files = files(&root);
    fs::create_dir_all(archive(&out, &files[0]).with_file_name("INDEX.csv")).unwrap(); // a folder where the index should be
    let report = run(&root, &out, &["--workers", "4"]);
    assert!(report.text.starts_with("packed 100 of 120 files in 5 folders:"), "{}", report.text);
    assert_eq!(report.given_up, 20);
    assert!(files.iter().all(|file| archive(&out, file).is_file()));
    assert!((1..6).all(|nth| index(&out, &files[nth]).len() == 20));
}

#[test]
fn a_path_that_is_not_there_is_said_so() {
    let args = example::Args::parse_from(["work_queue", "--quiet", "no such folder"]);
    assert!(example::run(&args).unwrap_err().to_string().starts_with("no such folder: "));
}

#[test]
fn a_file_named_twice_is_packed_once_and_two_of_one_name_are_refused() {
    let (root, out) = (folder("twice"), folder("twice-out"));
    fs::create_dir_all(root.join("sub")).unwrap();
    fs::write(root.join("a.txt"), "one").unwrap();
    fs::write(root.join("sub/a.txt"), "other").unwrap();
    let report = run(&root, &out, &[root.join("a.txt").to_str().unwrap()]);
    assert!(report.text.contains("packed 2 of 2 files"), "{}", report.text);
    // Parts that lead upwards are left out of names.
    let args = ["work_queue".into(), "--quiet".into(), "--out".into(), out, root.clone(), root.join("sub/../a.txt")];
    let refused = example::run(&example::Args::parse_from(args)).err().unwrap();
    assert!(refused.to_string().contains("would both be"), "{refused}");
}
