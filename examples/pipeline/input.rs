//! Where the bytes come from: the sample built in, a plain file, or the one CSV file in a zip archive.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek};
use std::path::Path;

use zip::ZipArchive;

/// January 2013, zipped.
const SAMPLE: &[u8] = include_bytes!("../data/flights-2013-01.csv.zip");
const SAMPLE_NAME: &str = "the built-in sample";
/// How much is read at a time.
const BUFFER: usize = 256 * 1024;

/// Why the run could not begin or could not read to the end. Each is one sentence for a person.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("cannot open {name}: {why}")]
    Open { name: String, why: io::Error },
    #[error("{name} is a directory; name a CSV file, or a zip archive with one in it")]
    Directory { name: String },
    #[error("{name} is compressed with gzip, which is not read here; unpack it first")]
    Gzip { name: String },
    #[error("{name} cannot be read as a zip archive: {why}")]
    Archive { name: String, why: zip::result::ZipError },
    #[error("{name} is a zip archive without a CSV file in it")]
    NoCsv { name: String },
    #[error("{name} is a zip archive with several CSV files in it ({found}); unpack the one you mean")]
    ManyCsv { name: String, found: String },
    #[error("{name} is empty; its first line should name the columns")]
    Empty { name: String },
    #[error("{name} does not begin with a line that names columns: {why}")]
    Header { name: String, why: &'static str },
    #[error("{name} has no column `{column}`; its columns are {found}")]
    Column { name: String, column: String, found: String },
    #[error("reading {name} stopped after line {line}: {why}")]
    Broken { name: String, line: u64, why: io::Error },
    #[error("the broker refused: {0}")]
    Broker(String),
}

/// What is being read: its name for people, and how many bytes it will give, if that is known.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) bytes: Option<u64>,
}

/// Opens `file`, or the sample if there is none, and lends its bytes, unzipped, to `then`.
pub(crate) fn read<T>(
    file: Option<&Path>,
    then: impl FnOnce(Source, &mut dyn BufRead) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    let Some(path) = file else { return unzip(SAMPLE_NAME.to_owned(), Cursor::new(SAMPLE), then) };
    let name = path.display().to_string();
    let open = |why| Trouble::Open { name: name.clone(), why };
    let about = std::fs::metadata(path).map_err(open)?;
    if about.is_dir() {
        return Err(Trouble::Directory { name });
    }
    let mut reader = BufReader::with_capacity(BUFFER, File::open(path).map_err(open)?);
    let start = reader.fill_buf().map_err(open)?;
    if start.starts_with(b"PK\x03\x04") || start.starts_with(b"PK\x05\x06") {
        return unzip(name, reader, then);
    }
    if start.starts_with(&[0x1f, 0x8b]) {
        return Err(Trouble::Gzip { name });
    }
    let bytes = about.is_file().then_some(about.len());
    then(Source { name, bytes }, &mut reader)
}

fn unzip<R: Read + Seek, T>(
    name: String,
    reader: R,
    then: impl FnOnce(Source, &mut dyn BufRead) -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    let broken = |why| Trouble::Archive { name: name.clone(), why };
    let mut archive = ZipArchive::new(reader).map_err(broken)?;
    let mut found = Vec::new();
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(broken)?;
        let path = String::from_utf8_lossy(entry.name_raw()).into_owned();
        if is_csv(&path) {
            found.push((index, path));
        }
    }
    let index = match found.as_slice() {
        [] => return Err(Trouble::NoCsv { name }),
        [(index, _)] => *index,
        [(_, one), (_, two)] => return Err(Trouble::ManyCsv { name, found: format!("{one} and {two}") }),
        [(_, one), (_, two), rest @ ..] => {
            return Err(Trouble::ManyCsv { name, found: format!("{one}, {two} and {} more", rest.len()) });
        }
    };
    let entry = archive.by_index(index).map_err(broken)?;
    let bytes = Some(entry.size());
    then(Source { name: name.clone(), bytes }, &mut BufReader::with_capacity(BUFFER, entry))
}

/// True for the path of a CSV file, but not for the shadow files some archivers add.
fn is_csv(path: &str) -> bool {
    let file = path.rsplit('/').next().unwrap_or(path);
    let csv = file.len() > 4 && file.to_ascii_lowercase().ends_with(".csv");
    csv && !file.starts_with("._") && !path.starts_with("__MACOSX/")
}

#[cfg(test)]
mod tests {
    use super::{is_csv, read};

    #[test]
    fn the_sample_opens_and_has_the_size_it_says() {
        let (said, got) = read(None, |source, reader| {
            let mut text = Vec::new();
            reader.read_to_end(&mut text).expect("the sample unpacks");
            Ok((source.bytes, text.len() as u64))
        })
        .expect("the sample opens");
        assert_eq!(said, Some(got));
    }

    #[test]
    fn only_real_csv_files_count() {
        for yes in ["a.csv", "dir/A.CSV", "x.y.csv"] {
            assert!(is_csv(yes), "{yes}");
        }
        for no in ["a.txt", "__MACOSX/a.csv", "dir/._a.csv", ".csv", "a.csv/", "csv"] {
            assert!(!is_csv(no), "{no}");
        }
    }
}
