//! The orderings' labels, held against the sources: each `// ORD(function:letter) Order: reason` is unique, stands in
//! its module's table, and is named by its pair; each ordering in a protocol file has one; `docs/orderings.md` lists
//! them all with the model that catches the weakened one.
//!
//! `UPDATE_DOCS=1 cargo test --test labels` rewrites the table of that page and keeps its last column.
mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use support::{Source, read, root, sources};

const ORDERS: &[&str] = &["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];
/// Folders whose every ordering, Relaxed ones too, carries a label, and whose labels stand in a header's table.
const PROTOCOL: &[&str] = &["src/ring/", "src/wait/", "src/sync/"];
/// How far above an ordering its label may stand, in lines.
const REACH: usize = 9;
const PAGE: &str = "docs/orderings.md";
const UNDECIDED: &str = "open";

/// One labelled operation.
#[derive(Clone, Debug, PartialEq)]
struct Label {
    name: String,
    path: String,
    line: usize,
    order: String,
    /// The labels that its comment names.
    pairs: Vec<String>,
}

/// All `ORD(..)` names in `text`.
fn mentions(text: &str) -> Vec<String> {
    let inside = text.split("ORD(").skip(1).filter_map(|rest| rest.split(')').next());
    inside.filter(|name| well_formed(name)).map(str::to_owned).collect()
}

/// A label is `function:LETTER`, the letter perhaps with a digit.
fn well_formed(name: &str) -> bool {
    let Some((function, letter)) = name.split_once(':') else { return false };
    let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    !function.is_empty()
        && function.chars().all(word)
        && letter.starts_with(|c: char| c.is_ascii_uppercase())
        && letter.len() <= 2
}

/// The labels that `source` defines, in order, and what is wrong with their form.
fn labels(source: &Source) -> (Vec<Label>, Vec<String>) {
    let (mut found, mut wrong): (Vec<Label>, Vec<String>) = (Vec::new(), Vec::new());
    let mut open = false;
    for (n, line) in source.text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("// ") else {
            open = false;
            continue;
        };
        let argues = |rest: &&str| {
            let order = rest.split_once(')').map_or("", |(_, rest)| rest.trim_start());
            !open || ORDERS.iter().any(|name| order.starts_with(name))
        };
        if let Some(rest) = comment.strip_prefix("ORD(").filter(argues) {
            let (name, rest) = rest.split_once(')').unwrap_or((rest, ""));
            let order = rest.trim_start().split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
            if !well_formed(name) || !ORDERS.contains(&order) {
                wrong.push(format!("{}:{}: expected `ORD(function:A) Order: reason`", source.path, n + 1));
            }
            let (name, order, path) = (name.to_owned(), order.to_owned(), source.path.clone());
            found.push(Label { name, path, line: n + 1, order, pairs: mentions(rest) });
            open = true;
        } else if open {
            let label = found.last_mut().expect("a label opened this comment");
            label.pairs.extend(mentions(comment));
        }
    }
    (found, wrong)
}

/// Labels used twice, and labels that a comment names but nobody defines.
fn unresolved(all: &[Label]) -> Vec<String> {
    let mut at: BTreeMap<&str, &Label> = BTreeMap::new();
    let mut wrong = Vec::new();
    for label in all {
        if let Some(first) = at.insert(&label.name, label) {
            let here = format!("{}:{}", label.path, label.line);
            wrong.push(format!("{here}: ORD({}) is already at {}:{}", label.name, first.path, first.line));
        }
    }
    for label in all {
        for pair in label.pairs.iter().filter(|pair| !at.contains_key(pair.as_str())) {
            wrong.push(format!("{}:{}: ORD({}) names ORD({pair}): no such label", label.path, label.line, label.name));
        }
    }
    wrong
}

/// Labels whose pair does not name them back, neither in its comment nor in its row of a module's table.
fn one_sided(all: &[Label], rows: &BTreeMap<String, String>) -> Vec<String> {
    let mut wrong = Vec::new();
    for label in all {
        let answers = |pair: &&Label| {
            pair.pairs.contains(&label.name) || rows.get(&pair.name).is_some_and(|row| row.contains(&label.name))
        };
        for pair in all.iter().filter(|other| label.pairs.contains(&other.name) && other.name != label.name) {
            if !answers(&pair) {
                let (here, there) = (&label.name, &pair.name);
                wrong.push(format!(
                    "{}:{}: ORD({here}) names ORD({there}), which does not name it",
                    label.path, label.line
                ));
            }
        }
    }
    wrong
}

/// The rows of the tables in module headers: label to row.
fn rows(source: &Source) -> BTreeMap<String, String> {
    let table = source.text.lines().filter_map(|line| line.trim_start().strip_prefix("//! |"));
    let cell = |row: &str| row.split('|').next().unwrap_or_default().trim().trim_matches('`').to_owned();
    let name = |text: String| text.strip_prefix("ORD(").and_then(|t| t.strip_suffix(')')).unwrap_or(&text).to_owned();
    table.map(|row| (name(cell(row)), row.to_owned())).filter(|(name, _)| well_formed(name)).collect()
}

/// Labels without a row in their file's header, or in that of a `mod.rs` above it; and rows without a label.
fn untabled(all: &[Label], tables: &[(String, BTreeMap<String, String>)]) -> Vec<String> {
    let covers = |table: &str, file: &str| {
        table == file || table.strip_suffix("mod.rs").is_some_and(|folder| folder != "src/" && file.starts_with(folder))
    };
    let mut wrong = Vec::new();
    for label in all.iter().filter(|label| PROTOCOL.iter().any(|folder| label.path.starts_with(folder))) {
        let mut near = tables.iter().filter(|(path, _)| covers(path, &label.path));
        if !near.any(|(_, rows)| rows.contains_key(&label.name)) {
            wrong.push(format!("{}:{}: ORD({}) has no row in the header's table", label.path, label.line, label.name));
        }
    }
    for (path, rows) in tables {
        for name in rows.keys() {
            if !all.iter().any(|label| label.name == *name && covers(path, &label.path)) {
                wrong.push(format!("{path}: the table lists {name}, which no code carries"));
            }
        }
    }
    wrong
}

/// Orderings without a label close above them, where the rules ask for one.
fn unlabelled(source: &Source) -> Vec<String> {
    let facade = source.path == "src/sync/mod.rs";
    let strict = !facade && PROTOCOL.iter().any(|folder| source.path.starts_with(folder));
    let (text, code) = (source.text.lines().collect::<Vec<_>>(), source.code());
    let needs = |line: &str| {
        let line = line.trim_start();
        let spells = |order: &str| support::words(line).any(|word| word == order);
        !line.starts_with("use ")
            && !line.starts_with("pub use ")
            && ORDERS.iter().any(|order| spells(order) && (strict || *order != "Relaxed"))
    };
    let labelled =
        |n: usize| text[n.saturating_sub(REACH)..=n].iter().any(|line| line.trim_start().starts_with("// ORD("));
    let lines = code.lines().enumerate().filter(|(n, line)| needs(line) && !labelled(*n));
    lines.map(|(n, line)| format!("{}:{}: no ORD label: {}", source.path, n + 1, line.trim())).collect()
}

/// The page's rows: label to its last cell.
fn page_rows(page: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for line in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let name = cells[0].trim_matches('`').to_owned();
        if well_formed(&name) {
            found.insert(name, cells.last().copied().unwrap_or_default().to_owned());
        }
    }
    found
}

/// The table of the page for `all` labels, its last column taken from `kept`.
fn page_table(all: &[Label], kept: &BTreeMap<String, String>) -> String {
    let mut table =
        String::from("| label | where | order | pairs with | weakened: caught by |\n|---|---|---|---|---|\n");
    for label in all {
        let Label { name, path, order, pairs, .. } = label;
        let mut pairs: Vec<String> = pairs.iter().map(|pair| format!("`{pair}`")).collect();
        pairs.dedup();
        let nothing = if order == "Relaxed" { "—" } else { UNDECIDED };
        let caught = kept.get(name).map_or(nothing, String::as_str);
        let caught = if order == "Relaxed" && caught == UNDECIDED { "—" } else { caught };
        writeln!(table, "| `{name}` | `{path}` | {order} | {} | {caught} |", pairs.join(", ")).expect("a string grows");
    }
    table
}

/// The page with its table replaced.
fn page_with(page: &str, table: &str) -> String {
    let (begin, end) = ("<!-- table: begin -->\n", "<!-- table: end -->");
    let (before, rest) = page.split_once(begin).expect("the page marks where its table begins");
    let (_, after) = rest.split_once(end).expect("the page marks where its table ends");
    format!("{before}{begin}{table}{end}{after}")
}

fn all_labels() -> Vec<Label> {
    sources("src").iter().flat_map(|source| labels(source).0).collect()
}

#[track_caller]
fn none(rule: &str, wrong: &[String]) {
    assert!(wrong.is_empty(), "{rule}:\n  {}", wrong.join("\n  "));
}

#[test]
fn every_label_is_well_formed_unique_and_names_labels_that_exist() {
    let forms: Vec<String> = sources("src").iter().flat_map(|source| labels(source).1).collect();
    none("malformed", &forms);
    none("unresolved", &unresolved(&all_labels()));
}

#[test]
fn both_ends_of_a_pair_name_each_other() {
    let tables: BTreeMap<String, String> = sources("src").iter().flat_map(rows).collect();
    none("one-sided", &one_sided(&all_labels(), &tables));
}

#[test]
fn every_label_stands_in_its_modules_table() {
    let tables: Vec<_> = sources("src").iter().map(|source| (source.path.clone(), rows(source))).collect();
    none("not in the table", &untabled(&all_labels(), &tables));
}

#[test]
fn every_ordering_of_a_protocol_file_is_argued() {
    let wrong: Vec<String> = sources("src").iter().flat_map(unlabelled).collect();
    none("unargued", &wrong);
}

#[test]
fn the_page_of_orderings_lists_every_label() {
    let page = read(PAGE);
    let wanted = page_with(&page, &page_table(&all_labels(), &page_rows(&page)));
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(root().join(PAGE), &wanted).expect("the page can be written");
    } else {
        assert!(page == wanted, "{PAGE} is out of date: UPDATE_DOCS=1 cargo test --test labels");
    }
}

#[test]
fn every_model_the_page_names_exists() {
    let models = sources("loom-tests");
    let names = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    for (label, caught) in page_rows(&read(PAGE)) {
        for model in names(&caught) {
            let Some((file, test)) = model.split_once("::") else { panic!("{label}: `{model}` is not file::test") };
            let path = format!("loom-tests/tests/{file}.rs");
            let there = models.iter().any(|source| {
                source.path == path
                    && source.text.contains(&format!("fn {}(", test.rsplit("::").next().unwrap_or(test)))
            });
            assert!(there, "{label}: no model {model} ({path})");
        }
    }
}

mod the_checks_bite {
    use super::{Source, labels, one_sided, rows, unlabelled, unresolved, untabled};

    const GOOD: &str = "//! | label | order |\n//! | put:A | Release, pairs with take:A |\n//! | take:A | Acquire, put:A |\n\
        // ORD(put:A) Release: fields first; pairs with\n// ORD(take:A).\nx.store(1, Release);\n\
        // ORD(take:A) Acquire: we read them; pairs with ORD(put:A).\nx.load(Acquire);\n";

    fn file(text: &str) -> Source {
        Source::new("src/ring/x.rs", text)
    }

    fn tables(source: &Source) -> Vec<(String, std::collections::BTreeMap<String, String>)> {
        vec![(source.path.clone(), rows(source))]
    }

    #[test]
    fn a_good_file_passes() {
        let text = GOOD.replace("pairs with\n// ORD(take:A).", "pairs with ORD(take:A).");
        let (found, wrong) = labels(&file(&text));
        assert_eq!((found.len(), wrong.len()), (2, 0));
        assert!(unresolved(&found).is_empty() && one_sided(&found, &rows(&file(&text))).is_empty());
        assert!(untabled(&found, &tables(&file(&text))).is_empty());
        assert!(unlabelled(&file(&text)).is_empty());
    }

    #[test]
    fn on_a_label_without_an_order_or_a_letter() {
        assert_eq!(labels(&file("// ORD(put:A): why\n")).1.len(), 1);
        assert_eq!(labels(&file("// ORD(put) Release: why\n")).1.len(), 1);
        assert_eq!(labels(&file("// ORD(Put:a) Release: why\n")).1.len(), 1);
    }

    #[test]
    fn on_doubles_and_on_pairs_that_do_not_exist() {
        let twice = "// ORD(put:A) Release: a\nx\n// ORD(put:A) Release: b\n";
        assert_eq!(unresolved(&labels(&file(twice)).0).len(), 1);
        assert_eq!(unresolved(&labels(&file("// ORD(put:A) Release: pairs with ORD(gone:B).\n")).0).len(), 1);
    }

    #[test]
    fn on_a_pair_that_does_not_answer() {
        let text = "// ORD(put:A) Release: pairs with ORD(take:A).\nx\n// ORD(take:A) Acquire: reads.\n";
        assert_eq!(one_sided(&labels(&file(text)).0, &Default::default()).len(), 1);
        assert!(one_sided(&labels(&file(text)).0, &rows(&file("//! | take:A | pairs with put:A |\n"))).is_empty());
    }

    #[test]
    fn on_tables_that_miss_or_invent_a_label() {
        let missing = file("// ORD(put:A) Release: a\nx\n");
        assert_eq!(untabled(&labels(&missing).0, &tables(&missing)).len(), 1);
        let invented = file("//! | `gone:A` | Release |\n");
        assert_eq!(untabled(&labels(&invented).0, &tables(&invented)).len(), 1);
    }

    #[test]
    fn on_orderings_without_a_label() {
        assert_eq!(unlabelled(&file("fn f() {\n    x.load(Ordering::Relaxed);\n}\n")).len(), 1);
        let far = format!("// ORD(f:A) Relaxed: a\n{}x.load(Relaxed);\n", "y();\n".repeat(12));
        assert_eq!(unlabelled(&file(&far)).len(), 1);
        assert!(unlabelled(&Source::new("src/group/x.rs", "x.load(Relaxed);")).is_empty(), "a counter");
        assert_eq!(unlabelled(&Source::new("src/group/x.rs", "x.load(Acquire);")).len(), 1);
        assert!(
            unlabelled(&file("use core::Ordering::Relaxed;\n#[cfg(test)]\nmod t { x.load(Relaxed) }\n")).is_empty()
        );
    }
}
