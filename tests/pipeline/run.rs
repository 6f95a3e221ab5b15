//! Starting the example, and looking at what it wrote.
#![forbid(unsafe_code)]

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

pub(crate) const HEADER: &str = "year,month,day,dep_time,dep_delay,carrier,tailnum,origin,dest";
pub(crate) const GOOD: &str = "2013,1,2,517,-3,UA,N14228,EWR,IAH";

/// How a run ended and what it wrote.
pub(crate) struct Run {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// Checks that it ended with `status`, and gives itself back.
    #[track_caller]
    pub(crate) fn ends(self, status: i32) -> Self {
        assert_eq!(self.status, status, "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub(crate) fn says(&self, text: &str) {
        assert!(self.out.contains(text), "{text:?} is not in stdout:\n{}\nstderr:\n{}", self.out, self.err);
    }

    #[track_caller]
    pub(crate) fn warns(&self, text: &str) {
        assert!(self.err.contains(text), "{text:?} is not in stderr:\n{}", self.err);
    }
}

pub(crate) fn pipeline(args: &[&str]) -> Run {
    let output = Command::new(binary()).args(args).output().expect("the example can be started");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the example writes UTF-8");
    let status = output.status.code().expect("no signal ends the example");
    Run { status, out: text(output.stdout), err: text(output.stderr) }
}

/// Runs it on a file with this content. Names are unique to a test: tests run side by side.
pub(crate) fn on(name: &str, content: impl AsRef<[u8]>, args: &[&str]) -> Run {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pipeline-{name}"));
    fs::write(&path, content).expect("the folder for temporary files can be written");
    pipeline(&[&[path.to_str().expect("test paths are UTF-8")], args].concat())
}

/// A header and `rows` good rows.
pub(crate) fn rows(rows: usize) -> String {
    format!("{HEADER}\n{}", format!("{GOOD}\n").repeat(rows))
}

pub(crate) fn zipped(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let stored = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, content) in files {
        archive.start_file(*name, stored).expect("memory");
        archive.write_all(content).expect("memory");
    }
    archive.finish().expect("memory").into_inner()
}

/// The words of a line of the report, without its bar.
pub(crate) fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().filter(|word| !word.starts_with(|c| ('▁'..='▏').contains(&c))).collect()
}

/// The example's executable, beside this test's. Cargo builds it before a whole test run; a run of this test alone has
/// to ask for it, or would run an old one.
pub(crate) fn binary() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let test = std::env::current_exe().expect("a running test has a path");
        let profile = test.ancestors().nth(2).expect("it lies in target/<profile>/deps");
        let binary = profile.join("examples").join(format!("pipeline{}", std::env::consts::EXE_SUFFIX));
        if !fresh(&binary) {
            build(profile);
        }
        binary
    })
}

/// True if the executable is younger than every source it is made of.
fn fresh(binary: &Path) -> bool {
    let age = |path: &Path| fs::metadata(path).and_then(|about| about.modified()).ok();
    let Some(built) = age(binary) else { return false };
    let mut folders = ["src", "examples"].map(|name| Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("sources can be listed") {
            let path = entry.expect("sources can be listed").path();
            if path.is_dir() {
                folders.push(path);
            } else if age(&path).is_none_or(|changed| changed > built) {
                return false;
            }
        }
    }
    true
}

fn build(profile: &Path) {
    let name = match profile.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(name) => name,
    };
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--example", "pipeline", "--profile", name]);
    cargo.arg("--manifest-path").arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml"));
    cargo.arg("--target-dir").arg(profile.parent().expect("a profile's folder lies in a target folder"));
    assert!(cargo.status().expect("cargo can be started").success(), "the example does not build");
}
