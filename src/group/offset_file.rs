//! Offsets in a small file of text.
#![forbid(unsafe_code)]

use super::offset_store::{GroupOffset, OffsetStore, StoreError, Table, forget, listed, put};
use crate::sync::{Mutex, lock};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

/// The first line of the file.
const HEADER: &str = "ringlog offsets 1";

/// Offsets in a file: a line for each, `topic`, `group`, `partition` and next offset, with tabs between, which names cannot
/// hold.
///
/// The whole file is written anew under another name beside it, brought to the disk and renamed, so that what is there is
/// whole, whenever the process ends; the file is small, and each save of a group costs that. One process at a time may use it, through one `FileOffsets`.
#[derive(Debug)]
pub struct FileOffsets {
    path: PathBuf,
    table: Mutex<Table>,
}

impl FileOffsets {
    /// Reads the file, or begins an empty one if there is none.
    ///
    /// # Errors
    ///
    /// It cannot be read, or is not such a file: [`ErrorKind::InvalidData`] names the line.
    pub fn open(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let table = match fs::read_to_string(&path) {
            Ok(text) => parse(&text).map_err(|why| spoilt(&path, &why))?,
            Err(why) if why.kind() == ErrorKind::NotFound => Table::new(),
            Err(why) => return Err(why),
        };
        Ok(Self { path, table: Mutex::new(table) })
    }

    /// All that is kept, in order.
    pub fn all(&self) -> Vec<GroupOffset> {
        listed(&lock(&self.table))
    }

    /// Forgets a group of a topic; deleting a group does not, so that it may be made again and go on. Whether it knew it.
    ///
    /// # Errors
    ///
    /// The file cannot be written; nothing is forgotten then.
    pub fn forget(&self, topic: &str, group: &str) -> io::Result<bool> {
        let mut table = lock(&self.table);
        let mut next = table.clone();
        if !forget(&mut next, topic, group) {
            return Ok(false);
        }
        self.write(&next)?;
        *table = next;
        Ok(true)
    }

    /// Writes `table` in place of what is there.
    fn write(&self, table: &Table) -> io::Result<()> {
        let mut text = format!("{HEADER}\n");
        for GroupOffset { topic, group, partition, next } in listed(table) {
            let _ = writeln!(text, "{topic}\t{group}\t{partition}\t{next}");
        }
        let mut beside = self.path.clone().into_os_string();
        beside.push(".new");
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        drop(file);
        fs::rename(&beside, &self.path)
    }
}

impl OffsetStore for FileOffsets {
    fn load(&self, topic: &str, group: &str, partition: u32) -> Result<Option<u64>, StoreError> {
        Ok(lock(&self.table).get(&(topic.into(), group.into(), partition)).copied())
    }

    fn save(&self, offsets: &[GroupOffset]) -> Result<(), StoreError> {
        let unfit = |name: &str| name.is_empty() || name.contains(char::is_control);
        if let Some(offset) = offsets.iter().find(|offset| unfit(&offset.topic) || unfit(&offset.group)) {
            return Err(format!("{:?} and {:?} do not both fit on a line", offset.topic, offset.group).into());
        }
        let mut table = lock(&self.table);
        let mut next = table.clone();
        put(&mut next, offsets);
        self.write(&next).map_err(|why| format!("{}: {why}", self.path.display()))?;
        *table = next;
        Ok(())
    }
}

fn spoilt(path: &Path, why: &str) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, format!("{}: {why}", path.display()))
}

fn parse(text: &str) -> Result<Table, String> {
    let mut lines = text.lines();
    if lines.next() != Some(HEADER) {
        return Err(format!("the first line is not '{HEADER}'"));
    }
    let entries = lines.zip(2..).map(|(line, n)| entry(line).ok_or_else(|| format!("line {n} is not an offset")));
    entries.collect()
}

fn entry(line: &str) -> Option<((Name, Name, u32), u64)> {
    let mut parts = line.split('\t');
    let (topic, group) = (parts.next()?, parts.next()?);
    let (partition, next) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let whole = parts.next().is_none() && !topic.is_empty() && !group.is_empty();
    whole.then(|| ((topic.into(), group.into(), partition), next))
}

type Name = crate::sync::Arc<str>;

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{FileOffsets, HEADER, parse};
    use crate::group::{GroupOffset, OffsetStore};

    #[test]
    fn what_is_not_an_offset_is_named_by_its_line() {
        assert!(parse(&format!("{HEADER}\n")).unwrap().is_empty());
        assert_eq!(parse(&format!("{HEADER}\na b\tg,\"\t3\t18446744073709551615\n")).unwrap().len(), 1);
        for bad in ["a\tg\t3", "a\tg\t3\tx", "a\tg\t-1\t2", "\tg\t1\t2", "a\tg\t1\t2\t3", ""] {
            assert_eq!(parse(&format!("{HEADER}\na\tg\t0\t1\n{bad}\n")).unwrap_err(), "line 3 is not an offset");
        }
        assert!(parse("").is_err() && parse("something else\n").is_err());
    }

    #[test]
    #[cfg(not(miri))]
    fn a_save_that_fails_keeps_what_was_there() {
        let folder = std::env::temp_dir().join(format!("ringlog-offsets-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("offsets");
        let store = FileOffsets::open(&path).unwrap();
        let offset = |next| GroupOffset { topic: "t".into(), group: "g".into(), partition: 0, next };
        store.save(&[offset(1)]).unwrap();
        std::fs::create_dir(folder.join("offsets.new")).unwrap();
        assert!(store.save(&[offset(2)]).unwrap_err().to_string().contains("offsets"));
        assert_eq!((store.all(), store.load("t", "g", 0).unwrap()), (vec![offset(1)], Some(1)));
        std::fs::remove_dir(folder.join("offsets.new")).unwrap();
        store.save(&[offset(3)]).unwrap();
        assert_eq!(FileOffsets::open(&path).unwrap().all(), [offset(3)]);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
