//! Lines of bounded length, and the fields of one line.
//!
//! A record is one line: a quoted field may hold commas and doubled quotes, but no line break. So one stray quote costs
//! one line, not the rest of the file, and reading goes on at the next line whatever was found.
#![forbid(unsafe_code)]

use std::io::{self, BufRead, Read};

/// Longest line taken, in bytes. A longer one is malformed, and is skipped without being held in memory.
pub(crate) const LINE_BYTES_MAX: usize = 64 * 1024;

/// What the next line is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// A line without its line break.
    Text(&'a [u8]),
    /// The beginning of a line that is longer than [`LINE_BYTES_MAX`].
    TooLong(&'a [u8]),
    /// There is no further line.
    End,
}

/// Reads lines and counts them.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    /// The number of the line last read, from 1.
    pub(crate) number: u64,
    /// Bytes read so far, line breaks included.
    pub(crate) bytes: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), number: 0, bytes: 0 }
    }

    /// The next line. Line breaks are LF or CRLF; the last line needs none. A byte order mark at the start is dropped.
    pub(crate) fn next(&mut self) -> io::Result<Line<'_>> {
        self.buffer.clear();
        let limit = LINE_BYTES_MAX as u64 + 2; // room for CRLF
        let read = self.reader.by_ref().take(limit).read_until(b'\n', &mut self.buffer)?;
        if read == 0 {
            return Ok(Line::End);
        }
        self.number += 1;
        self.bytes += read as u64;
        let ended = self.buffer.last() == Some(&b'\n');
        if !ended && read as u64 == limit {
            self.bytes += self.reader.skip_until(b'\n')? as u64;
        }
        let mut text = self.buffer.as_slice();
        text = text.strip_suffix(b"\n").unwrap_or(text);
        text = text.strip_suffix(b"\r").unwrap_or(text);
        if self.number == 1 {
            text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        }
        Ok(if text.len() > LINE_BYTES_MAX { Line::TooLong(text) } else { Line::Text(text) })
    }
}

/// Why a line does not fall into fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unsplit {
    /// A quote opens a field and none closes it before the line ends.
    OpenQuote,
    /// A closing quote is followed by something other than a comma.
    AfterQuote,
}

/// The fields of one line, in a buffer that is used again for the next.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    text: String,
    ends: Vec<usize>,
}

impl Fields {
    /// Takes `line` apart. On failure, the fields before the faulty one are kept, and what was read of that.
    pub(crate) fn split(&mut self, line: &str) -> Result<(), Unsplit> {
        self.text.clear();
        self.ends.clear();
        let mut rest = line;
        loop {
            let end = match rest.strip_prefix('"') {
                Some(quoted) => self.quoted(quoted),
                None => Ok(self.bare(rest)),
            };
            self.ends.push(self.text.len());
            match end? {
                Some(after) => rest = after,
                None => return Ok(()),
            }
        }
    }

    /// A field without quotes, up to a comma. Gives what follows the comma, or `None` at the end of the line.
    fn bare<'a>(&mut self, rest: &'a str) -> Option<&'a str> {
        let (field, after) = match rest.split_once(',') {
            Some((field, after)) => (field, Some(after)),
            None => (rest, None),
        };
        self.text.push_str(field);
        after
    }

    /// A field whose opening quote is already taken; otherwise as `bare`.
    fn quoted<'a>(&mut self, mut rest: &'a str) -> Result<Option<&'a str>, Unsplit> {
        loop {
            let (part, after) = rest.split_once('"').ok_or(Unsplit::OpenQuote).inspect_err(|_| {
                self.text.push_str(rest);
            })?;
            self.text.push_str(part);
            match after.as_bytes().first() {
                None => return Ok(None),
                Some(b',') => return Ok(Some(&after[1..])),
                Some(b'"') => self.text.push('"'),
                Some(_) => return Err(Unsplit::AfterQuote),
            }
            rest = &after[1..];
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Field `index`, counted from 0; empty if there is none.
    pub(crate) fn get(&self, index: usize) -> &str {
        let Some(&end) = self.ends.get(index) else { return "" };
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start..end]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).map(|index| self.get(index))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, any, prop, proptest};

    use super::{Fields, LINE_BYTES_MAX, Line, Lines, Unsplit};

    fn lines(text: &[u8]) -> Vec<Vec<u8>> {
        let mut lines = Lines::new(text);
        let mut all = Vec::new();
        while let Line::Text(line) = lines.next().expect("reading memory does not fail") {
            all.push(line.to_vec());
        }
        assert_eq!(lines.bytes, text.len() as u64);
        all
    }

    #[test]
    fn line_breaks_of_both_kinds_and_none_at_the_end() {
        assert_eq!(lines(b"a\nb\r\n\r\nc"), [b"a".to_vec(), b"b".to_vec(), b"".to_vec(), b"c".to_vec()]);
        assert_eq!(lines(b""), Vec::<Vec<u8>>::new());
        assert_eq!(lines(b"\xef\xbb\xbfa\n\xef\xbb\xbfb"), [b"a".to_vec(), b"\xef\xbb\xbfb".to_vec()]);
    }

    #[test]
    fn a_line_at_the_limit_is_taken_and_a_longer_one_skipped() {
        for end in ["\n", "\r\n", ""] {
            let full = "x".repeat(LINE_BYTES_MAX);
            let text = format!("{full}{end}");
            assert_eq!(Lines::new(text.as_bytes()).next().expect("memory"), Line::Text(full.as_bytes()));
        }
        for more in [1, 2, 3, 1000, LINE_BYTES_MAX] {
            let text = format!("{}\nnext", "x".repeat(LINE_BYTES_MAX + more));
            let mut lines = Lines::new(text.as_bytes());
            assert!(matches!(lines.next().expect("memory"), Line::TooLong(_)), "{more} over");
            assert_eq!(lines.next().expect("memory"), Line::Text(b"next"));
            assert_eq!((lines.number, lines.bytes), (2, text.len() as u64));
        }
    }

    fn split(line: &str) -> Result<Vec<String>, Unsplit> {
        let mut fields = Fields::default();
        fields.split(line)?;
        Ok(fields.iter().map(str::to_owned).collect())
    }

    #[test]
    fn quotes_are_taken_off_and_doubled_ones_halved() {
        assert_eq!(split(r#"a,"b,c","d""e",,""""#), Err(Unsplit::OpenQuote));
        assert_eq!(split(r#"a,"b,c","d""e",,"" "#), Err(Unsplit::AfterQuote));
        assert_eq!(split(r#"a,"b,c","d""e",,"",f"g"#).expect("fine"), ["a", "b,c", "d\"e", "", "", "f\"g"]);
        assert_eq!(split("").expect("fine"), [""]);
        assert_eq!(split(",").expect("fine"), ["", ""]);
    }

    #[test]
    fn the_faulty_field_is_the_last_one_kept() {
        let mut fields = Fields::default();
        assert_eq!(fields.split("a,b,\"cd,e"), Err(Unsplit::OpenQuote));
        assert_eq!(fields.iter().collect::<Vec<_>>(), ["a", "b", "cd,e"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// What a well-known CSV writer writes, we read; and what we take, it reads alike.
        #[test]
        fn agrees_with_the_csv_crate(record in prop::collection::vec("[a,\" é]{0,5}", 1..6)) {
            let mut writer = csv::WriterBuilder::new().from_writer(Vec::new());
            writer.write_record(&record).expect("memory");
            let written = String::from_utf8(writer.into_inner().expect("memory")).expect("text stays text");
            assert_eq!(split(written.trim_end_matches('\n')), Ok(record));
        }

        #[test]
        fn any_line_is_taken_as_the_csv_crate_takes_it_or_refused(line in "[a,\"]{1,12}") {
            let Ok(ours) = split(&line) else { return Ok(()) };
            let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(line.as_bytes());
            let theirs = reader.records().next().expect("one record").expect("memory");
            assert_eq!(ours, theirs.iter().collect::<Vec<_>>());
        }

        #[test]
        fn any_bytes_are_read_to_the_end(text in prop::collection::vec(any::<u8>(), 0..200)) {
            let all = lines(&text);
            assert_eq!(all.len(), text.split_inclusive(|&b| b == b'\n').count());
        }
    }
}
