//! `docs/contract.md` gives every line of the contract once, and what it names as its keeper is really there: a test
//! that carries the line's number in a comment, or a heading.
//!
//! `UPDATE_DOCS=1 cargo test --test contract` gives each line that is `open` the tests that carry its number.
mod support;

use std::collections::BTreeMap;

use support::{Source, read, root, sources};

const PAGE: &str = "docs/contract.md";

/// Every family of numbers with its last one.
const FAMILIES: &[(&str, u32)] = &[
    ("A-", 82),
    ("A-T", 23),
    ("A-E", 10),
    ("B-", 38),
    ("B-V", 13),
    ("B-E", 10),
    ("C-", 36),
    ("C-X", 9),
    ("C-T", 11),
    ("C-E", 10),
    ("X", 36),
];

/// Lines that describe and ask for nothing (A-16 asks for its injected clock and ids).
const NOTES: &[&str] = &["A-24", "A-73", "A-74", "A-79", "A-82", "B-30", "B-V9", "C-31", "C-34"];

/// Folders in which a keeper may live.
const FOLDERS: &[&str] = &["src", "tests", "examples", "loom-tests", "fuzz"];

fn every_number() -> Vec<String> {
    FAMILIES.iter().flat_map(|(family, last)| (1..=*last).map(move |n| format!("{family}{n}"))).collect()
}

/// One row of the page.
#[derive(Debug)]
struct Row {
    number: String,
    promise: String,
    keepers: Vec<String>,
}

fn parse(page: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for line in page.lines().filter(|line| line.starts_with("| ")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [number, promise, kept] = cells[..] else { panic!("three cells expected: {line}") };
        if number == "line" {
            continue;
        }
        // What is kept in part says what is missing.
        let kept = kept.split_once("; open: ").map_or(kept, |(keepers, _)| keepers);
        let whole = kept.starts_with("seam:") || kept.starts_with("not built:");
        let keepers = if whole { vec![kept.to_owned()] } else { kept.split(", ").map(str::to_owned).collect() };
        rows.push(Row { number: number.to_owned(), promise: promise.to_owned(), keepers });
    }
    rows
}

/// Whether `text` carries `number` as a whole: `A-1` is not in `A-17`.
fn carries(text: &str, number: &str) -> bool {
    let inside = |c: char| c.is_alphanumeric() || c == '-';
    text.match_indices(number).any(|(at, _)| {
        !text[..at].ends_with(inside) && !text[at + number.len()..].starts_with(|c: char| c.is_alphanumeric())
    })
}

/// The comments that belong to the test `name` of `text`: those right above it, and those within it.
fn comments_of(text: &str, name: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let says = |line: &&str| line.contains(&format!("fn {name}(")) || line.contains(&format!("fn {name}<"));
    let at = lines.iter().position(says)?;
    let above = lines[..at].iter().rev().take_while(|line| {
        let line = line.trim_start();
        line.starts_with("//") || line.starts_with("#[")
    });
    let indent = lines[at].len() - lines[at].trim_start().len();
    let closes = |line: &&&str| line.trim_end() == format!("{}}}", " ".repeat(indent));
    let end = lines[at..].iter().position(|line| closes(&line)).unwrap_or(0);
    let within = lines[at..=at + end].iter().filter_map(|line| line.split_once("//").map(|(_, comment)| comment));
    Some(above.copied().chain(within).collect::<Vec<_>>().join("\n"))
}

/// The anchor that a heading gets.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).collect::<String>().replace(' ', "-")
}

fn anchor_exists(link: &str) -> bool {
    let Some((page, wanted)) = link.split_once('#') else { return false };
    let path = root().join(page);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line.trim_start_matches('#')) == wanted)
}

/// What is wrong with one row's keepers.
fn faults(row: &Row, files: &BTreeMap<String, Source>) -> Vec<String> {
    let Row { number, keepers, .. } = row;
    let extension = number.contains("-E");
    let mut wrong = Vec::new();
    for keeper in keepers {
        let fault = match keeper.as_str() {
            "open" => NOTES.contains(&number.as_str()).then(|| "is a note, not open".to_owned()),
            "note" => (!NOTES.contains(&number.as_str())).then(|| "is no note".to_owned()),
            text if text.starts_with("not built: ") => (!extension).then(|| "only extensions may stay out".to_owned()),
            text if text.starts_with("seam: ") => {
                let link = text["seam: ".len()..].split_whitespace().next().unwrap_or_default();
                (!extension || !anchor_exists(link)).then(|| format!("no such seam: {link}"))
            }
            text if text.starts_with("docs/") || text.starts_with("README.md#") => {
                (!anchor_exists(text)).then(|| format!("no such heading: {text}"))
            }
            text => test_fault(number, text.trim_matches('`'), files),
        };
        wrong.extend(fault.map(|fault| format!("{number}: {fault}")));
    }
    wrong
}

fn test_fault(number: &str, test: &str, files: &BTreeMap<String, Source>) -> Option<String> {
    let Some((path, name)) = test.split_once("::") else { return Some(format!("`{test}` is not path::test")) };
    let Some(source) = files.get(path) else { return Some(format!("no file {path}")) };
    match comments_of(&source.text, name.rsplit("::").next().unwrap_or(name)) {
        None => Some(format!("no test {test}")),
        Some(comments) if !carries(&comments, number) => Some(format!("{test} does not carry the number")),
        Some(_) => None,
    }
}

fn files() -> BTreeMap<String, Source> {
    let all = FOLDERS.iter().flat_map(|folder| sources(folder)).filter(|source| source.path != "tests/contract.rs");
    all.map(|source| (source.path.clone(), source)).collect()
}

#[test]
fn every_number_is_given_once_and_in_order() {
    let given: Vec<String> = parse(&read(PAGE)).into_iter().map(|row| row.number).collect();
    let wanted = every_number();
    let missing: Vec<_> = wanted.iter().filter(|number| !given.contains(number)).collect();
    assert!(missing.is_empty(), "missing: {missing:?}");
    let extra: Vec<_> = given.iter().filter(|number| !wanted.contains(number)).collect();
    assert!(extra.is_empty(), "unknown: {extra:?}");
    assert_eq!(given.len(), wanted.len(), "a number is given twice");
    assert_eq!(wanted.len(), 278);
}

#[test]
fn every_line_has_a_promise() {
    for row in parse(&read(PAGE)) {
        assert!(row.promise.len() > 8, "{}: no promise", row.number);
    }
}

/// Tests of the sequential twin alone: they say what the broker is compared with, and keep nothing themselves.
const REFERENCE: &str = "tests/twin/alone.rs";

/// Every test of `files` by its full name, with its comments.
fn tests_of(files: &BTreeMap<String, Source>) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for source in files.values().filter(|source| source.path != REFERENCE) {
        let lines: Vec<&str> = source.text.lines().collect();
        for (at, _) in lines.iter().enumerate().filter(|(_, line)| line.trim() == "#[test]") {
            let named = lines[at..].iter().find_map(|line| line.trim_start().strip_prefix("fn "));
            let name = named.and_then(|rest| rest.split(['(', '<']).next()).unwrap_or_default();
            let comments = comments_of(&source.text, name).unwrap_or_default();
            found.push((format!("`{}::{name}`", source.path), comments));
        }
    }
    found
}

/// `page` with every `open` line given up to three tests that carry its number.
fn filled(page: &str, files: &BTreeMap<String, Source>) -> String {
    let tests = tests_of(files);
    let fill = |line: &str| {
        let Some(start) = line.strip_suffix("| open |") else { return line.to_owned() };
        let number = start.trim_start_matches("| ").split(' ').next().unwrap_or_default();
        let carrying = tests.iter().filter(|(_, comments)| carries(comments, number));
        let keepers: Vec<_> = carrying.take(3).map(|(name, _)| name.as_str()).collect();
        let kept = if keepers.is_empty() { "open".to_owned() } else { keepers.join(", ") };
        format!("{start}| {kept} |")
    };
    page.lines().map(fill).collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn no_line_is_open_that_a_test_carries() {
    let page = read(PAGE);
    let wanted = filled(&page, &files());
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(root().join(PAGE), &wanted).expect("the page can be written");
    }
    let secret: Vec<_> = wanted.lines().filter(|line| !page.contains(*line)).collect();
    assert!(
        secret.is_empty(),
        "kept, but called open (UPDATE_DOCS=1 cargo test --test contract):\n{}",
        secret.join("\n")
    );
}

#[test]
fn every_keeper_exists_and_carries_its_number() {
    let files = files();
    let wrong: Vec<String> = parse(&read(PAGE)).iter().flat_map(|row| faults(row, &files)).collect();
    assert!(wrong.is_empty(), "\n  {}", wrong.join("\n  "));
}

/// The tests and models that `page` names in backticks: `path.rs::name`, or `model_file::name`.
fn named(page: &str) -> Vec<(String, String)> {
    let quoted = page.split('`').skip(1).step_by(2).filter_map(|text| text.split_once("::"));
    let plain = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "_/.".contains(c));
    let model = |file: &str| ["ring_", "wait_", "log_"].iter().any(|kind| file.starts_with(kind));
    quoted
        .filter(|(file, name)| plain(file) && plain(name))
        .filter_map(|(file, name)| match file {
            _ if file.ends_with(".rs") => Some((file.to_owned(), name.to_owned())),
            _ if model(file) => Some((format!("loom-tests/tests/{file}.rs"), name.to_owned())),
            _ => None,
        })
        .collect()
}

#[test]
fn every_test_that_the_testing_page_names_exists() {
    let files = files();
    let names = named(&read("docs/testing.md"));
    assert!(names.len() > 50, "only {} names were found", names.len());
    let there = |(file, name): &&(String, String)| {
        files.get(file).is_some_and(|source| comments_of(&source.text, name).is_some())
    };
    let gone: Vec<_> = names.iter().filter(|pair| !there(pair)).collect();
    assert!(gone.is_empty(), "the page names what is not there: {gone:#?}");
}

mod the_checks_bite {
    use super::{Row, Source, anchor, carries, comments_of, faults, filled, named};

    fn fault(number: &str, kept: &str) -> usize {
        let text = "// A-17 and X3: why.\n#[test]\nfn commits() {\n    // A-18\n    x();\n}\n\nfn other() {}\n";
        let files = [("tests/t.rs".to_owned(), Source::new("tests/t.rs", text))].into();
        let row = Row { number: number.into(), promise: String::new(), keepers: vec![kept.into()] };
        faults(&row, &files).len()
    }

    #[test]
    fn on_tests_that_are_not_there_or_do_not_carry_the_number() {
        assert_eq!(fault("A-17", "`tests/t.rs::commits`"), 0);
        assert_eq!(fault("A-18", "`tests/t.rs::commits`"), 0, "inside the test");
        assert_eq!(fault("A-1", "`tests/t.rs::commits`"), 1, "A-17 is not A-1");
        assert_eq!(fault("A-17", "`tests/t.rs::other`"), 1);
        assert_eq!(fault("A-17", "`tests/t.rs::gone`"), 1);
        assert_eq!(fault("A-17", "`tests/gone.rs::commits`"), 1);
        assert_eq!(fault("A-17", "somebody"), 1);
    }

    #[test]
    fn on_notes_seams_and_headings() {
        assert_eq!((fault("A-24", "note"), fault("A-25", "note"), fault("A-24", "open")), (0, 1, 1));
        assert_eq!((fault("A-E1", "not built: why"), fault("A-1", "not built: why")), (0, 1));
        assert_eq!(fault("A-E1", "seam: docs/gone.md#x"), 1);
        assert_eq!(fault("A-1", "docs/contract.md#no-such-heading"), 1);
        assert_eq!(fault("A-1", "docs/contract.md#x-where-the-three-differ"), 0);
    }

    #[test]
    fn on_tests_that_keep_an_open_line() {
        let text = "// A-17\n#[test]\nfn commits() {\n    x();\n}\n";
        let files = [("tests/t.rs".to_owned(), Source::new("tests/t.rs", text))].into();
        let page = "| A-17 | a promise | open |\n| A-18 | another | open |\n";
        let wanted = "| A-17 | a promise | `tests/t.rs::commits` |\n| A-18 | another | open |\n";
        assert_eq!(filled(page, &files), wanted);
    }

    #[test]
    fn on_names_of_tests_and_models() {
        let page = "`src/x.rs::a_test`, `ring_hold::a_model`, `sync::cow`, `all(test, ..)`";
        let pair = |file: &str, name: &str| (file.to_owned(), name.to_owned());
        assert_eq!(named(page), [pair("src/x.rs", "a_test"), pair("loom-tests/tests/ring_hold.rs", "a_model")]);
    }

    #[test]
    fn on_numbers_inside_numbers() {
        assert!(carries("see A-1, A-2", "A-1") && !carries("see A-17", "A-1") && !carries("A-X3", "X3"));
        assert_eq!(anchor(" What it does: not!"), "what-it-does-not");
        assert!(comments_of("fn a() {}\n", "b").is_none());
    }
}
