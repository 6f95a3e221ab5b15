//! What is a departure, what is malformed, and how it is described.
#![forbid(unsafe_code)]

use crate::flights::{Code, Departure, Flights, Tally};
use crate::input::Trouble;

const HEADER: &str = "year,month,day,dep_time,dep_delay,carrier,tailnum,origin,dest";
const GOOD: &str = "2013,1,2,517,-3,UA,N14228,EWR,IAH";

fn read(text: &[u8], key: &str) -> Result<(Vec<Departure>, Tally), Trouble> {
    let mut flights = Flights::open("it", text, key)?;
    let mut all = Vec::new();
    while let Some(departure) = flights.next().expect("memory can be read") {
        all.push(departure);
    }
    assert_eq!(flights.bytes(), text.len() as u64);
    Ok((all, flights.tally))
}

/// How a line is described that replaces a good one.
fn fault(line: impl AsRef<[u8]>) -> String {
    let text = [HEADER.as_bytes(), GOOD.as_bytes(), line.as_ref(), GOOD.as_bytes()].join(&b'\n');
    let (all, tally) = read(&text, "tailnum").expect("the header is fine");
    assert_eq!((all.len(), tally.malformed), (2, 1), "only the odd line is malformed, and reading goes on");
    assert_eq!(all[1].row, 2, "malformed lines take no row number");
    assert_eq!(all[1].line, 4);
    tally.shown[0].to_string()
}

fn trouble(text: &[u8], key: &str) -> String {
    read(text, key).expect_err("this cannot be opened").to_string()
}

#[test]
fn a_row_becomes_a_departure() {
    let (all, tally) = read(format!("{HEADER}\n{GOOD}\n").as_bytes(), "dest").expect("fine");
    let one = &all[0];
    assert_eq!((one.row, one.line, one.key.as_deref(), one.delay), (1, 2, Some("IAH"), Some(-3)));
    assert_eq!((one.carrier.as_str(), one.origin.as_str(), one.dest.as_str()), ("UA", "EWR", "IAH"));
    assert_eq!((tally.rows, tally.cancelled, tally.without_tailnum, tally.keyless, tally.malformed), (1, 0, 0, 0, 0));
    let (first, last) = tally.days.expect("the file has days");
    assert_eq!((first.to_string(), last), ("2013-01-02".to_owned(), first));
}

#[test]
fn missing_values_are_na_or_empty() {
    let text = format!("{HEADER}\n2013,1,2,NA,NA,UA,NA,EWR,IAH\n2013,1,1,,,UA,,EWR,IAH\n{GOOD}");
    let (all, tally) = read(text.as_bytes(), "tailnum").expect("fine");
    assert_eq!(all.iter().map(|one| one.delay).collect::<Vec<_>>(), [None, None, Some(-3)]);
    assert_eq!((tally.rows, tally.cancelled, tally.without_tailnum, tally.keyless), (3, 2, 2, 2));
    let (_, tally) = read(text.as_bytes(), "carrier").expect("fine");
    assert_eq!((tally.without_tailnum, tally.keyless), (2, 0));
}

#[test]
fn columns_are_found_by_name_wherever_they_stand() {
    let text = "dest,x,origin,tailnum,carrier,dep_delay,dep_time\nIAH,?,EWR,N1,UA,7,1\n";
    let (all, tally) = read(text.as_bytes(), "x").expect("fine");
    assert_eq!((all[0].key.as_deref(), all[0].delay, all[0].dest.as_str()), (Some("?"), Some(7), "IAH"));
    assert_eq!(tally.days, None);
}

#[test]
fn windows_files_quotes_and_blank_lines_change_nothing() {
    let quoted = GOOD.split(',').map(|field| format!("\"{field}\"")).collect::<Vec<_>>().join(",");
    let text = format!("\u{feff}{HEADER}\r\n\r\n{quoted}\r\n{GOOD}");
    let (all, tally) = read(text.as_bytes(), "tailnum").expect("fine");
    assert_eq!((all.len(), tally.malformed), (2, 0));
    assert_eq!((all[0].line, all[1].line, all[0].key.as_deref()), (3, 4, Some("N14228")));
}

#[test]
fn each_fault_names_line_column_and_what_was_found() {
    let cases = [
        ("2013,1,2,5l7,-3,UA,N1,EWR,IAH", "dep_time: found \"5l7\", wanted a time of day such as 517, or NA"),
        ("2013,1,2,2401,-3,UA,N1,EWR,IAH", "dep_time: found \"2401\", wanted a time of day such as 517, or NA"),
        ("2013,1,2,1060,-3,UA,N1,EWR,IAH", "dep_time: found \"1060\", wanted a time of day such as 517, or NA"),
        ("2013,1,2,517,NA,UA,N1,EWR,IAH", "dep_delay: found \"NA\", wanted whole minutes, as the flight has left"),
        ("2013,1,2,517,2.5,UA,N1,EWR,IAH", "dep_delay: found \"2.5\", wanted whole minutes, as the flight has left"),
        ("2013,1,2,517,-3,,N1,EWR,IAH", "carrier: found \"\", wanted the code of a carrier"),
        ("2013,1,2,517,-3,UA,N1,NA,IAH", "origin: found \"NA\", wanted the code of an airport"),
        (
            "2013,1,2,517,-3,UA,N1,EWR,Houston Airport TX",
            "dest: found \"Houston Airport TX\", wanted the code of an airport",
        ),
        ("2013,13,2,517,-3,UA,N1,EWR,IAH", "month: found \"13\", wanted a month from 1 to 12"),
        ("2013,1,0,517,-3,UA,N1,EWR,IAH", "day: found \"0\", wanted a day from 1 to 31"),
        ("x,1,1,517,-3,UA,N1,EWR,IAH", "year: found \"x\", wanted a year"),
        ("2013,1,2,517,-3,UA,N1,EWR", "dest: found the end of the line after 8 of 9 fields"),
        ("gibberish", "month: found the end of the line after 1 of 9 fields"),
        ("2013,1,2,517,-3,UA,N1,EWR,IAH,more", "10: found \"more\" beyond the last of 9 columns"),
        (
            "2013,1,2,517,-3,\"UA,N1,EWR,IAH",
            "carrier: found a quote that is not closed in this line, before \"UA,N1,EWR,IAH\"",
        ),
        ("2013,1,2,517,-3,\"UA\"x,N1,EWR,IAH", "carrier: found text after the closing quote of \"UA\""),
    ];
    for (line, said) in cases {
        assert_eq!(fault(line), format!("line 3, column {said}"));
    }
}

#[test]
fn bytes_that_are_not_utf8_are_shown_where_they_stand() {
    let said = fault(b"2013,1,2,517,-3,UA,N1,E\xff\xfeR,IAH");
    assert_eq!(said, "line 3, column origin: found \"E\\xff\\xfeR\", which is not UTF-8");
}

#[test]
fn a_huge_line_is_malformed_and_reading_goes_on() {
    let said = fault("x".repeat(10_000_000));
    assert!(said.starts_with("line 3, column year: found a line of more than 65536 bytes, \"xxx"), "{said}");
}

#[test]
fn only_the_first_ten_malformed_lines_are_kept() {
    let text = format!("{HEADER}\n{}", "odd\n".repeat(1000));
    let (_, tally) = read(text.as_bytes(), "tailnum").expect("fine");
    assert_eq!((tally.malformed, tally.shown.len(), tally.shown[9].line), (1000, 10, 11));
}

#[test]
fn what_cannot_be_opened_is_one_sentence() {
    let lacks = HEADER.replace(",tailnum", "");
    assert_eq!(trouble(b"", "x"), "it is empty; its first line should name the columns");
    assert!(
        trouble(lacks.as_bytes(), "dest")
            .starts_with("it has no column `tailnum`; its columns are \"year\", \"month\"")
    );
    assert!(trouble(HEADER.as_bytes(), "seat").starts_with("it has no column `seat`; its columns are \"year\", "));
    for (text, why) in [
        (b"\xff\xfey\0e\0".to_vec(), "the first line is not UTF-8 text"),
        (b"\"a".to_vec(), "the first line has a quote too many or too few"),
        (vec![b'x'; 100_000], "the first line is too long"),
    ] {
        assert_eq!(trouble(&text, "x"), format!("it does not begin with a line that names columns: {why}"));
    }
    let many = (0..1000).map(|n| format!("c{n}")).collect::<Vec<_>>().join(",");
    assert!(trouble(many.as_bytes(), "x").ends_with("\"c23\", and 976 more"));
}

#[test]
fn codes_hold_what_fits() {
    assert_eq!(Code::new("").map(|code| code.to_string()), Some(String::new()));
    assert_eq!(Code::new("é23456789012345"), None);
    assert_eq!(Code::new("123456789012345").map(|code| format!("{code:>16}")), Some(" 123456789012345".to_owned()));
}
