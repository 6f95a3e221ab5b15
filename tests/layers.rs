//! The layer table, held against the sources: who may use whom, where unsafe code may live, and who may name `std`'s
//! threads, locks and clocks.
mod support;

use support::{Source, sources, words};

/// Every module of the crate with its layer. `ring` and `wait` are both layer 1 and do not meet; `time` and `seq` may
/// use `sync`, which uses nothing.
const LAYERS: &[(&str, u8)] = &[
    ("sync", 0),
    ("time", 0),
    ("seq", 0),
    ("ring", 1),
    ("wait", 1),
    ("log", 2),
    ("group", 3),
    ("broker", 4),
    ("adapter", 5),
    ("testing", 6),
];

/// The only files that may say `unsafe`.
const KERNEL: &[&str] = &[
    "src/sync/cell.rs",
    "src/sync/epoch.rs",
    "src/sync/epoch/newest.rs",
    "src/sync/futex.rs",
    "src/sync/hint.rs",
    "src/ring/batch.rs",
    "src/ring/slot.rs",
    "src/ring/storage.rs",
];

/// Names that only the given folders may spell: everybody else goes through the facade or the clock.
const RESERVED: &[(&str, &[&str])] = &[
    ("std::sync", &["src/sync/"]),
    ("core::sync", &["src/sync/"]),
    ("std::thread", &["src/sync/"]),
    ("loom::", &["src/sync/"]),
    ("crossbeam_epoch", &["src/sync/"]),
    ("arc_swap", &["src/sync/"]),
    ("portable_atomic", &["src/sync/"]),
    ("rustix", &["src/sync/"]),
    ("Instant", &["src/sync/", "src/time/"]),
];

/// What everybody may take from there all the same: it is ordered in itself, and std's in a model too.
const FREE: &[&str] = &["std::sync::OnceLock", "std::sync::PoisonError"];

/// The longest file and function, in lines; tests may be half as long again.
const LONGEST_FILE: usize = 400;
const LONGEST_FUNCTION: usize = 70;

fn layer(module: &str) -> Option<u8> {
    LAYERS.iter().find(|(name, _)| *name == module).map(|(_, layer)| *layer)
}

/// The top module a file belongs to; `lib.rs` belongs to none.
fn module_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("src/")?;
    let first = inside.split('/').next()?;
    let name = first.strip_suffix(".rs").unwrap_or(first);
    (name != "lib").then_some(name)
}

/// The first path segments that follow `crate::` in `code`, with their lines.
fn uses(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let foreign = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$');
        if foreign {
            continue;
        }
        let line = code[..at].matches('\n').count() + 1;
        found.extend(heads(&code[at + "crate::".len()..]).into_iter().map(|head| (line, head)));
    }
    found
}

/// The first segments of a path, or of each path of a braced group.
fn heads(rest: &str) -> Vec<String> {
    let Some(group) = rest.strip_prefix('{') else {
        return words(rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default())
            .map(str::to_owned)
            .collect();
    };
    let (mut depth, mut parts, mut part) = (1, Vec::new(), String::new());
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => parts.push(std::mem::take(&mut part)),
            _ => {}
        }
        if depth == 0 {
            break;
        }
        if depth == 1 && c != ',' {
            part.push(c);
        }
    }
    parts.push(part);
    parts.iter().filter_map(|part| words(part).next().map(str::to_owned)).collect()
}

fn upward_uses(source: &Source) -> Vec<String> {
    let Some(module) = module_of(&source.path) else { return Vec::new() };
    let at = |line: usize, what: &str| format!("{}:{line}: {what}", source.path);
    let Some(own) = layer(module) else { return vec![at(1, "a module that the layer table does not know")] };
    let code = source.code();
    let mut wrong = Vec::new();
    for (line, head) in uses(&code) {
        match layer(&head) {
            _ if head == module => {}
            Some(theirs) if theirs < own => {}
            Some(0) if head == "sync" => {}
            Some(theirs) => wrong.push(at(line, &format!("layer {own} ({module}) uses layer {theirs} ({head})"))),
            None => wrong.push(at(line, &format!("`crate::{head}` names no layer: use the module it lives in"))),
        }
    }
    let top = source.path.ends_with("/mod.rs") || source.path.matches('/').count() == 1;
    let climbs = |text: &str| text.contains("super::super::super::") || (top && text.starts_with("use super::"));
    wrong.extend(code.lines().enumerate().filter(|(_, text)| climbs(text)).map(|(n, _)| at(n + 1, "climbs by super")));
    wrong
}

fn unsafe_outside_the_kernel(source: &Source) -> Vec<String> {
    let path = source.path.as_str();
    if KERNEL.contains(&path) {
        return Vec::new();
    }
    let code = support::without_comments(&source.text);
    let said = code.lines().enumerate().filter(|(_, line)| words(line).any(|word| word == "unsafe"));
    let mut wrong: Vec<_> = said.map(|(n, _)| format!("{path}:{}: unsafe outside the kernel files", n + 1)).collect();
    let folder = path.strip_suffix("mod.rs").unwrap_or("-");
    let parent_of_kernel = path == "src/lib.rs" || KERNEL.iter().any(|kernel| kernel.starts_with(folder));
    if !parent_of_kernel && !code.contains("#![forbid(unsafe_code)]") {
        wrong.push(format!("{path}:1: does not say #![forbid(unsafe_code)]"));
    }
    wrong
}

fn reserved_names(source: &Source) -> Vec<String> {
    let code = source.code();
    let mut wrong = Vec::new();
    for (name, homes) in RESERVED {
        if homes.iter().any(|home| source.path.starts_with(home)) {
            continue;
        }
        let says = |text: &str| {
            text.match_indices(name).any(|(at, _)| {
                let whole = |c: char| c.is_alphanumeric() || c == '_';
                let rest = &text[at + name.len()..];
                let ends = name.ends_with(':') || !rest.starts_with(whole);
                !text[..at].ends_with(whole) && ends && !FREE.iter().any(|free| text[at..].starts_with(free))
            })
        };
        let lines = code.lines().enumerate().filter(|(_, line)| says(line)).map(|(n, _)| n + 1);
        let grouped = imports(&code).into_iter().filter(|(_, path)| says(path)).map(|(line, _)| line);
        let all: std::collections::BTreeSet<usize> = lines.chain(grouped).collect();
        wrong.extend(all.iter().map(|line| format!("{}:{line}: `{name}` is for {homes:?}", source.path)));
    }
    wrong
}

/// Every path that the `use` items of `code` bring in, groups written out, with the line of the item.
fn imports(code: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let begins = code[..at].trim_end_matches([' ', '\t']).ends_with(['\n', ')', 'b']) || at == 0;
        if let (true, Some(item)) = (begins, code[at + 4..].split(';').next()) {
            let line = code[..at].matches('\n').count() + 1;
            found.extend(spread("", &item.split_whitespace().collect::<String>()).into_iter().map(|path| (line, path)));
        }
    }
    found
}

/// `a::{b,c::{d}}` as `a::b`, `a::c::d`.
fn spread(before: &str, tree: &str) -> Vec<String> {
    let Some((head, group)) = tree.split_once('{') else { return vec![format!("{before}{tree}")] };
    let (mut depth, mut parts, mut part) = (0, Vec::new(), String::new());
    for c in group.strip_suffix('}').unwrap_or(group).chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        if c == ',' && depth == 0 {
            parts.push(std::mem::take(&mut part));
        } else {
            part.push(c);
        }
    }
    parts.push(part);
    let before = format!("{before}{head}");
    parts.iter().filter(|part| !part.is_empty()).flat_map(|part| spread(&before, part)).collect()
}

fn sequentially_consistent_accesses(source: &Source) -> Vec<String> {
    let code = source.code();
    let bare =
        |line: &str| line.contains("SeqCst") && !line.contains("fence(") && !line.trim_start().starts_with("use ");
    let lines = code.lines().enumerate().filter(|(_, line)| bare(line));
    lines.map(|(n, _)| format!("{}:{}: SeqCst outside a fence", source.path, n + 1)).collect()
}

fn sleeps(source: &Source) -> Vec<String> {
    let code = support::without_comments(&source.text);
    let lines = code.lines().enumerate().filter(|(_, line)| line.contains("thread::sleep"));
    lines.map(|(n, _)| format!("{}:{}: a sleep is not a synchronisation", source.path, n + 1)).collect()
}

fn too_long(source: &Source) -> Vec<String> {
    let mut wrong = Vec::new();
    let tests = source.is_test() || source.path.contains("tests/");
    let more = |limit: usize| if tests { limit + limit / 2 } else { limit };
    let (longest_file, longest_function) = (more(LONGEST_FILE), more(LONGEST_FUNCTION));
    let length = source.text.lines().count();
    if length > longest_file {
        wrong.push(format!("{}: {length} lines, at most {longest_file}", source.path));
    }
    let code = support::without_comments(&source.text);
    let lines: Vec<&str> = code.lines().collect();
    for (n, line) in lines.iter().enumerate().filter(|(_, line)| words(line).any(|word| word == "fn")) {
        let indent = line.len() - line.trim_start().len();
        let closes = |later: &&str| later.len() - later.trim_start().len() == indent && later.trim() == "}";
        let body = lines[n..].iter().position(closes).unwrap_or(0);
        let ends_here = line.trim_end().ends_with(['}', ';']);
        if !ends_here && body > longest_function {
            wrong.push(format!("{}:{}: a function of {body} lines, at most {longest_function}", source.path, n + 1));
        }
    }
    wrong
}

#[track_caller]
fn none(rule: &str, folders: &[&str], check: fn(&Source) -> Vec<String>) {
    let all: Vec<Source> = folders.iter().flat_map(|folder| sources(folder)).collect();
    assert!(!all.is_empty(), "no sources were read");
    let wrong: Vec<String> = all.iter().flat_map(check).collect();
    assert!(wrong.is_empty(), "{rule}:\n  {}", wrong.join("\n  "));
}

#[test]
fn a_file_uses_only_lower_layers_or_its_own_folder() {
    none("a layer looks up", &["src"], upward_uses);
}

#[test]
fn unsafe_code_lives_in_the_kernel_files_only() {
    none("unsafe code", &["src"], unsafe_outside_the_kernel);
}

#[test]
fn only_the_facade_names_threads_locks_and_clocks() {
    none("a name that the facade owns", &["src"], reserved_names);
}

#[test]
fn no_access_is_sequentially_consistent() {
    none("SeqCst", &["src"], sequentially_consistent_accesses);
}

#[test]
fn nothing_waits_by_sleeping() {
    none("a sleep", &["src", "tests", "loom-tests"], |source| {
        if source.path == "tests/layers.rs" { Vec::new() } else { sleeps(source) }
    });
}

#[test]
fn files_and_functions_are_short() {
    none("too long", &["src", "tests", "examples", "loom-tests", "benches", "fuzz"], too_long);
}

mod the_checks_bite {
    use super::{Source, too_long};

    fn wrong(check: fn(&Source) -> Vec<String>, path: &str, text: &str) -> usize {
        check(&Source::new(path, text)).len()
    }

    #[test]
    fn on_uses_of_a_higher_layer() {
        let check = super::upward_uses;
        assert_eq!(wrong(check, "src/ring/mod.rs", "use crate::wait::Event;"), 1, "the two kernels do not meet");
        assert_eq!(wrong(check, "src/log/mod.rs", "use crate::{ring::{Ring, Run}, group::Group};"), 1);
        assert_eq!(wrong(check, "src/log/mod.rs", "use crate::{\n ring::Ring,\n broker::Topic,\n};"), 1);
        assert_eq!(wrong(check, "src/log/mod.rs", "fn f() { crate::adapter::run() }"), 1);
        assert_eq!(wrong(check, "src/log/mod.rs", "use crate::Topic;"), 1, "the root's names are the top layer's");
        assert_eq!(wrong(check, "src/log/mod.rs", "use super::group;"), 1);
        assert_eq!(wrong(check, "src/extra.rs", ""), 1, "a module without a layer");
        assert_eq!(wrong(check, "src/broker/x.rs", "use crate::{sync::Arc, group::Group, broker::Y};"), 0);
        assert_eq!(wrong(check, "src/log/mod.rs", "/// See [`crate::broker`].\n// crate::broker\n"), 0);
        let tests = "#[cfg(all(test, not(ringlog_loom)))]\nmod tests { use crate::broker::B; }\nuse crate::adapter::A;";
        assert_eq!(wrong(check, "src/log/mod.rs", tests), 1, "only the test module is free");
    }

    #[test]
    fn on_unsafe_code() {
        let check = super::unsafe_outside_the_kernel;
        assert_eq!(wrong(check, "src/log/mod.rs", "#![forbid(unsafe_code)]\nfn f() { unsafe { g() } }"), 1);
        assert_eq!(wrong(check, "src/log/mod.rs", "//! unsafe, forbid(unsafe_code)"), 1, "a comment is no attribute");
        assert_eq!(wrong(check, "src/ring/mod.rs", "unsafe impl Send for X {}"), 1, "a kernel's folder is no kernel");
        assert_eq!(wrong(check, "src/ring/mod.rs", "mod slot;"), 0);
        assert_eq!(wrong(check, "src/ring/slot.rs", "unsafe { }"), 0);
        assert_eq!(wrong(check, "src/log/mod.rs", "#![forbid(unsafe_code)]\nlet x = \"unsafe\"; // unsafe"), 0);
    }

    #[test]
    fn on_names_the_facade_owns() {
        let check = super::reserved_names;
        assert_eq!(wrong(check, "src/log/mod.rs", "use std::sync::Arc;"), 1);
        assert_eq!(wrong(check, "src/log/mod.rs", "fn f() { std::thread::spawn(g); }"), 1);
        assert_eq!(wrong(check, "src/log/mod.rs", "use std::time::{Duration, Instant};"), 1);
        assert_eq!(wrong(check, "src/ring/read.rs", "use loom::thread;"), 1);
        assert_eq!(wrong(check, "src/ring/read.rs", "fn bloom() { bloom::thread(); }\nstruct Instantly;"), 0);
        assert_eq!(wrong(check, "src/sync/mod.rs", "use std::sync::Arc;"), 0);
        assert_eq!(
            wrong(check, "src/log/mod.rs", "use std::{\n    fmt,\n    sync::{Arc, OnceLock},\n};"),
            1,
            "in groups"
        );
        assert_eq!(
            wrong(check, "src/log/mod.rs", "pub use std::{fmt, sync::PoisonError};\nuse std::sync::OnceLock;"),
            0
        );
    }

    #[test]
    fn on_sequentially_consistent_accesses() {
        let check = super::sequentially_consistent_accesses;
        assert_eq!(wrong(check, "src/ring/mod.rs", "a.load(Ordering::SeqCst)"), 1);
        assert_eq!(wrong(check, "src/ring/mod.rs", "fence(Ordering::SeqCst); // SeqCst"), 0);
    }

    #[test]
    fn on_length_and_sleeps() {
        let long = format!("fn f() {{\n{}}}\n", "    g();\n".repeat(80));
        assert_eq!(wrong(too_long, "src/x.rs", &long), 1);
        assert_eq!(wrong(too_long, "src/x.rs", &"fn f() {}\n".repeat(401)), 1);
        assert_eq!(wrong(too_long, "src/x.rs", &"fn f() {}\n".repeat(90)), 0);
        assert_eq!(wrong(super::sleeps, "tests/x.rs", "thread::sleep(Duration::MAX)"), 1);
    }
}
