//! Reading the project's own sources, for the tests that hold its rules.
#![allow(dead_code, reason = "each test that includes this uses a part of it")]
pub(crate) mod history;

use std::fs;
use std::path::{Path, PathBuf};

/// One source file: its path from the root of the package, and its text.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// The production code: comments, strings and test modules blanked, line numbers kept.
    pub(crate) fn code(&self) -> String {
        if self.is_test() { String::new() } else { without_tests(&without_comments(&self.text)) }
    }

    /// Whether the whole file is test code.
    pub(crate) fn is_test(&self) -> bool {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        self.path.contains("/tests/") || name == "tests.rs" || name.ends_with("_tests.rs")
    }
}

/// The package's root folder.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The text of one file of the package.
pub(crate) fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|why| panic!("{path}: {why}"))
}

/// All Rust sources below `folder`, in order of their paths.
pub(crate) fn sources(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    collect(&root().join(folder), &mut found);
    found.sort();
    let text = |path: &PathBuf| fs::read_to_string(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    found.iter().map(|path| Source { path: relative(path), text: text(path) }).collect()
}

fn relative(path: &Path) -> String {
    let inside = path.strip_prefix(root()).unwrap_or(path);
    inside.to_string_lossy().replace('\\', "/")
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// `text` with comments and the insides of strings replaced by spaces; lines stay where they are.
pub(crate) fn without_comments(text: &str) -> String {
    let bytes: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while at < bytes.len() {
        let end = match (bytes[at], bytes.get(at + 1)) {
            ('/', Some('/')) => line_end(&bytes, at),
            ('/', Some('*')) => block_end(&bytes, at),
            ('r', Some('"' | '#')) if starts_raw(&bytes, at) => raw_end(&bytes, at),
            ('"', _) => string_end(&bytes, at),
            ('\'', _) => char_end(&bytes, at),
            _ => at,
        };
        if end == at {
            out.push(bytes[at]);
            at += 1;
        } else {
            out.extend(bytes[at..end].iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
            at = end;
        }
    }
    out
}

fn line_end(text: &[char], at: usize) -> usize {
    text[at..].iter().position(|c| *c == '\n').map_or(text.len(), |length| at + length)
}

fn block_end(text: &[char], at: usize) -> usize {
    let (mut depth, mut here) = (0, at);
    while here + 1 < text.len() {
        match (text[here], text[here + 1]) {
            ('/', '*') => (depth, here) = (depth + 1, here + 2),
            ('*', '/') if depth == 1 => return here + 2,
            ('*', '/') => (depth, here) = (depth - 1, here + 2),
            _ => here += 1,
        }
    }
    text.len()
}

fn string_end(text: &[char], at: usize) -> usize {
    let mut here = at + 1;
    while here < text.len() && text[here] != '"' {
        here += if text[here] == '\\' { 2 } else { 1 };
    }
    (here + 1).min(text.len())
}

fn starts_raw(text: &[char], at: usize) -> bool {
    let part_of_word = at > 0 && (text[at - 1].is_alphanumeric() || text[at - 1] == '_');
    let after = text[at + 1..].iter().find(|c| **c != '#');
    !part_of_word && after == Some(&'"')
}

fn raw_end(text: &[char], at: usize) -> usize {
    let hashes = text[at + 1..].iter().take_while(|c| **c == '#').count();
    let closing =
        |here: usize| text[here] == '"' && text[here + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
    (at + hashes + 2..text.len()).find(|here| closing(*here)).map_or(text.len(), |here| here + 1 + hashes)
}

/// The end of a character literal, or `at` where the quote begins a lifetime.
fn char_end(text: &[char], at: usize) -> usize {
    match (text.get(at + 1), text.get(at + 2)) {
        (Some('\\'), _) => (at + 3..text.len()).find(|here| text[*here] == '\'').map_or(text.len(), |here| here + 1),
        (Some(_), Some('\'')) => at + 3,
        _ => at,
    }
}

/// `code` (free of comments) with every item under a `#[cfg(..test..)]` blanked.
fn without_tests(code: &str) -> String {
    let mut out: Vec<char> = code.chars().collect();
    let mut from = 0;
    while let Some(start) = find(&out, "#[cfg(", from) {
        let end = (start..out.len()).find(|at| out[*at] == ']').unwrap_or(out.len());
        let attribute: String = out[start..end].iter().collect();
        let words = attribute.replace("not(test)", "");
        let is_test = words.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == "test");
        let stop = if is_test { item_end(&out, end) } else { start };
        from = blank(&mut out, start, stop).max(end);
    }
    out.into_iter().collect()
}

fn find(text: &[char], what: &str, from: usize) -> Option<usize> {
    let what: Vec<char> = what.chars().collect();
    (from..text.len().saturating_sub(what.len())).find(|at| text[*at..].starts_with(&what))
}

/// Where the item that follows `from` ends: at its `;`, or at the brace that closes its first one.
fn item_end(text: &[char], from: usize) -> usize {
    let mut depth = 0;
    for (at, c) in text.iter().enumerate().skip(from) {
        match c {
            ';' if depth == 0 => return at + 1,
            '{' => depth += 1,
            '}' if depth == 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    text.len().max(from)
}

fn blank(text: &mut [char], from: usize, to: usize) -> usize {
    let to = to.min(text.len());
    text[from..to].iter_mut().filter(|c| **c != '\n').for_each(|c| *c = ' ');
    to
}

/// The words (identifiers and keywords) of one line.
pub(crate) fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}
