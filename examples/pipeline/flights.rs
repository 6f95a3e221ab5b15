//! From lines to departures. What does not fit is counted and described, and reading goes on.
#![forbid(unsafe_code)]

use std::fmt;
use std::io::{self, BufRead};
use std::time::Instant;

use crate::input::Trouble;
use crate::lines::{Fields, LINE_BYTES_MAX, Line, Lines, Unsplit};
use crate::text::excerpt;

/// How many malformed lines are kept to be shown; the others are only counted.
pub(crate) const SHOWN_MAX: usize = 10;
/// How this data writes a value that is not there. An empty field says the same.
const MISSING: &str = "NA";

/// A short code in place: of a carrier, an airport, an aircraft.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Code {
    bytes: [u8; Self::BYTES_MAX],
    len: u8,
}

impl Code {
    pub(crate) const BYTES_MAX: usize = 15;

    pub(crate) fn new(text: &str) -> Option<Self> {
        let mut bytes = [0; Self::BYTES_MAX];
        bytes.get_mut(..text.len())?.copy_from_slice(text.as_bytes());
        Some(Self { bytes, len: text.len() as u8 })
    }

    pub(crate) fn as_str(&self) -> &str {
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or("?")
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

/// A calendar day; ordered as days are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Date {
    pub(crate) year: u16,
    pub(crate) month: u8,
    pub(crate) day: u8,
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04}-{:02}-{:02}", self.year, self.month, self.day)
    }
}

/// The event: one departure, or a flight that should have been one.
#[derive(Clone, Debug)]
pub(crate) struct Departure {
    /// Which well-formed row of the file it is, from 1.
    pub(crate) row: u64,
    /// In which line it stands.
    pub(crate) line: u64,
    /// Value of the key column, if the row has one.
    pub(crate) key: Option<Box<str>>,
    pub(crate) carrier: Code,
    pub(crate) origin: Code,
    pub(crate) dest: Code,
    /// Minutes later than planned, negative if earlier; `None` if the flight was cancelled.
    pub(crate) delay: Option<i32>,
    /// When it was handed to the topic.
    pub(crate) published: Instant,
}

/// One thing wrong with one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) line: u64,
    pub(crate) column: String,
    pub(crate) what: String,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.what)
    }
}

/// What has been read so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) rows: u64,
    pub(crate) cancelled: u64,
    pub(crate) without_tailnum: u64,
    pub(crate) keyless: u64,
    pub(crate) malformed: u64,
    /// The first malformed lines, [`SHOWN_MAX`] at most.
    pub(crate) shown: Vec<Malformed>,
    /// First and last day met, if the file has days.
    pub(crate) days: Option<(Date, Date)>,
}

/// Where in a line each value stands.
#[derive(Debug)]
struct Columns {
    names: Vec<String>,
    dep_time: usize,
    dep_delay: usize,
    carrier: usize,
    tailnum: usize,
    origin: usize,
    dest: usize,
    key: usize,
    /// Year, month and day, which a file may lack.
    date: Option<[usize; 3]>,
}

impl Columns {
    /// Finds the columns by name, in any order among any others.
    fn find(names: Vec<String>, key: &str) -> Result<Self, (String, String)> {
        let place = |wanted: &str| names.iter().position(|name| name == wanted);
        let find = |wanted: &str| place(wanted).ok_or_else(|| (wanted.to_owned(), list(&names)));
        Ok(Self {
            dep_time: find("dep_time")?,
            dep_delay: find("dep_delay")?,
            carrier: find("carrier")?,
            tailnum: find("tailnum")?,
            origin: find("origin")?,
            dest: find("dest")?,
            key: find(key)?,
            date: place("year").zip(place("month")).zip(place("day")).map(|((y, m), d)| [y, m, d]),
            names,
        })
    }

    /// The name of column `index`, or its number, from 1, if it has none.
    fn name(&self, index: usize) -> String {
        self.names.get(index).cloned().unwrap_or_else(|| (index + 1).to_string())
    }
}

/// The names of the columns in a sentence, cut short if there are very many.
fn list(names: &[String]) -> String {
    const NAMES_MAX: usize = 24;
    let mut out: Vec<String> = names.iter().take(NAMES_MAX).map(|name| excerpt(name.as_bytes())).collect();
    if names.len() > NAMES_MAX {
        out.push(format!("and {} more", names.len() - NAMES_MAX));
    }
    out.join(", ")
}

/// A fault in a line: in which column, and what.
type Fault = (usize, String);

/// The departures of one file, in its order.
#[derive(Debug)]
pub(crate) struct Flights<R> {
    lines: Lines<R>,
    fields: Fields,
    columns: Columns,
    pub(crate) tally: Tally,
}

impl<R: BufRead> Flights<R> {
    /// Reads the line that names the columns. `name` is how errors call the file.
    pub(crate) fn open(name: &str, reader: R, key: &str) -> Result<Self, Trouble> {
        let mut lines = Lines::new(reader);
        let mut fields = Fields::default();
        let header = |why| Trouble::Header { name: name.to_owned(), why };
        match lines.next() {
            Err(why) => return Err(Trouble::Broken { name: name.to_owned(), line: 0, why }),
            Ok(Line::End) => return Err(Trouble::Empty { name: name.to_owned() }),
            Ok(Line::TooLong(_)) => return Err(header("the first line is too long")),
            Ok(Line::Text(text)) => {
                let text = std::str::from_utf8(text).map_err(|_| header("the first line is not UTF-8 text"))?;
                fields.split(text).map_err(|_| header("the first line has a quote too many or too few"))?;
            }
        }
        let names = fields.iter().map(str::to_owned).collect();
        let columns = Columns::find(names, key).map_err(|(column, found)| Trouble::Column {
            name: name.to_owned(),
            column,
            found,
        })?;
        Ok(Self { lines, fields, columns, tally: Tally::default() })
    }

    /// The next departure, or `None` at the end. Malformed lines on the way are counted in the tally.
    pub(crate) fn next(&mut self) -> io::Result<Option<Departure>> {
        loop {
            let line = self.lines.next()?;
            let found = match line {
                Line::End => return Ok(None),
                Line::Text([]) => continue,
                Line::Text(text) => split(&mut self.fields, text),
                Line::TooLong(start) => {
                    Err((0, format!("found a line of more than {LINE_BYTES_MAX} bytes, {}", excerpt(start))))
                }
            };
            match found.and_then(|()| self.departure()) {
                Ok(departure) => return Ok(Some(departure)),
                Err((column, what)) => self.note(column, what),
            }
        }
    }

    /// Number of the line last read.
    pub(crate) fn line(&self) -> u64 {
        self.lines.number
    }

    /// Bytes read so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.lines.bytes
    }

    /// Makes a departure of the fields at hand and counts it.
    fn departure(&mut self) -> Result<Departure, Fault> {
        let (columns, fields) = (&self.columns, &self.fields);
        if fields.len() != columns.names.len() {
            return Err(miscounted(fields, columns.names.len()));
        }
        let date = columns.date.map(|places| date(fields, places)).transpose()?;
        let delay = delay(fields, columns)?;
        let carrier = code(fields, columns.carrier, "the code of a carrier")?;
        let origin = code(fields, columns.origin, "the code of an airport")?;
        let dest = code(fields, columns.dest, "the code of an airport")?;
        let key = value(fields, columns.key).map(Box::from);
        let tally = &mut self.tally;
        tally.rows += 1;
        tally.cancelled += u64::from(delay.is_none());
        tally.without_tailnum += u64::from(value(fields, columns.tailnum).is_none());
        tally.keyless += u64::from(key.is_none());
        if let Some(date) = date {
            let (first, last) = tally.days.unwrap_or((date, date));
            tally.days = Some((first.min(date), last.max(date)));
        }
        let (row, line, published) = (tally.rows, self.lines.number, Instant::now());
        Ok(Departure { row, line, key, carrier, origin, dest, delay, published })
    }

    #[cold]
    fn note(&mut self, column: usize, what: String) {
        self.tally.malformed += 1;
        if self.tally.shown.len() < SHOWN_MAX {
            let malformed = Malformed { line: self.lines.number, column: self.columns.name(column), what };
            self.tally.shown.push(malformed);
        }
    }
}

/// Takes the line apart, and finds which column is at fault if it cannot be.
fn split(fields: &mut Fields, line: &[u8]) -> Result<(), Fault> {
    let text = match std::str::from_utf8(line) {
        Ok(text) => text,
        Err(error) => return Err(not_utf8(fields, line, error.valid_up_to())),
    };
    fields.split(text).map_err(|why| {
        let column = fields.len() - 1;
        let found = excerpt(fields.get(column).as_bytes());
        let what = match why {
            Unsplit::OpenQuote => format!("found a quote that is not closed in this line, before {found}"),
            Unsplit::AfterQuote => format!("found text after the closing quote of {found}"),
        };
        (column, what)
    })
}

/// The column of the first byte that is not UTF-8, and the field around it.
#[cold]
fn not_utf8(fields: &mut Fields, line: &[u8], valid: usize) -> Fault {
    let before = std::str::from_utf8(&line[..valid]).unwrap_or_default();
    let column = match fields.split(before) {
        Ok(()) | Err(_) => fields.len() - 1,
    };
    let start = line[..valid].iter().rposition(|&byte| byte == b',').map_or(0, |comma| comma + 1);
    let rest = line[start..].split(|&byte| byte == b',').next().unwrap_or_default();
    (column, format!("found {}, which is not UTF-8", excerpt(rest)))
}

/// A line with too few fields or too many.
#[cold]
fn miscounted(fields: &Fields, wanted: usize) -> Fault {
    let found = fields.len();
    if found < wanted {
        return (found, format!("found the end of the line after {found} of {wanted} fields"));
    }
    let extra = excerpt(fields.get(wanted).as_bytes());
    (wanted, format!("found {extra} beyond the last of {wanted} columns"))
}

/// Field `index`, unless it is missing.
fn value(fields: &Fields, index: usize) -> Option<&str> {
    Some(fields.get(index)).filter(|text| !text.is_empty() && *text != MISSING)
}

fn wanted(fields: &Fields, index: usize, what: &str) -> Fault {
    (index, format!("found {}, wanted {what}", excerpt(fields.get(index).as_bytes())))
}

fn code(fields: &Fields, index: usize, what: &str) -> Result<Code, Fault> {
    value(fields, index).and_then(Code::new).ok_or_else(|| wanted(fields, index, what))
}

/// The delay of a flight that left, `None` for one that did not.
fn delay(fields: &Fields, columns: &Columns) -> Result<Option<i32>, Fault> {
    let Some(left) = value(fields, columns.dep_time) else { return Ok(None) };
    let time = left.parse::<u16>().ok().filter(|time| *time <= 2400 && time % 100 < 60);
    time.ok_or_else(|| wanted(fields, columns.dep_time, "a time of day such as 517, or NA"))?;
    let minutes = value(fields, columns.dep_delay).and_then(|text| text.parse().ok());
    minutes.map(Some).ok_or_else(|| wanted(fields, columns.dep_delay, "whole minutes, as the flight has left"))
}

fn date(fields: &Fields, [year, month, day]: [usize; 3]) -> Result<Date, Fault> {
    let number = |index: usize, low: u16, high: u16, what: &str| {
        let number = fields.get(index).parse::<u16>().ok().filter(|number| (low..=high).contains(number));
        number.ok_or_else(|| wanted(fields, index, what))
    };
    Ok(Date {
        year: number(year, 1, 9999, "a year")?,
        month: number(month, 1, 12, "a month from 1 to 12")? as u8,
        day: number(day, 1, 31, "a day from 1 to 31")? as u8,
    })
}

#[cfg(test)]
#[path = "flights_tests.rs"]
mod tests;
