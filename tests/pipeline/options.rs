//! What the options do.
#![forbid(unsafe_code)]

use crate::run::{GOOD, HEADER, Run, on, pipeline, rows, words};

#[test]
fn any_number_of_partitions_and_any_capacity_gives_the_same() {
    for (partitions, capacity) in [("1", "1"), ("1", "2"), ("2", "1"), ("7", "3"), ("256", "1"), ("1", "65536")] {
        let run = on("shapes.csv", rows(300), &["-p", partitions, "-c", capacity, "-q"]).ends(0);
        run.says("300 rows, 0 cancelled, 0 without a tail number, 0 malformed; ");
        run.says("; all checks passed\n");
    }
}

#[test]
fn the_key_may_be_any_column() {
    let text = format!("{HEADER}\n{GOOD}\n{}\n{GOOD}\n", GOOD.replace("1,2,", "1,3,").replace("N14228", "NA"));
    for (key, rows, keys, keyless) in [("carrier", 3, "1 key", 0), ("day", 3, "2 keys", 0), ("tailnum", 2, "1 key", 1)]
    {
        let run = on("key.csv", &text, &["--key", key]).ends(0);
        run.says(&format!("keyed by {key}; {keyless} keyless"));
        run.says(&format!("order: {rows} rows of {keys} in order, 0 out of order, {keyless} without a key"));
    }
}

#[test]
fn a_slow_audit_holds_the_publisher_back_and_is_named() {
    let run = on("slow.csv", rows(200), &["--slow-audit=1000", "--capacity", "4"]).ends(0);
    run.says(" of 200 publishes waited for room, ");
    run.says("  held back by audit ");
}

#[test]
fn a_failure_is_tried_again_and_buried_when_attempts_run_out() {
    let notices = |run: Run| {
        let line = run.out.lines().map(words).find(|line| line.first() == Some(&"notices")).expect("a line for it");
        line[..4].join(" ")
    };
    assert_eq!(notices(on("retry.csv", rows(100), &["--fail-every", "10"]).ends(0)), "notices 100 10 0");
    assert_eq!(notices(on("retry.csv", rows(100), &["--fail-every", "0"]).ends(0)), "notices 100 0 0");
    let run = on("retry.csv", rows(100), &["--fail-every", "10", "--attempts", "1"]).ends(0);
    run.says("10 dead letters in notices, the latest from line 101, the mail gate did not answer");
    assert_eq!(notices(run), "notices 90 0 10");
}

#[test]
fn help_names_every_option_group_and_exit_status() {
    let run = pipeline(&["--help"]).ends(0);
    for said in [
        "Usage: pipeline [OPTIONS] [FILE]",
        "--key <COLUMN>",
        "--partitions <N>",
        "--capacity <N>",
        "--slow-audit[=<MICROSECONDS>]",
        "--fail-every <N>",
        "--attempts <N>",
        "--no-progress",
        "--quiet",
        "Exit status:",
        "January 2013, built in",
    ] {
        run.says(said);
    }
    for group in ["delays", "routes", "notices", "order", "audit"] {
        run.says(&format!("\n  {group} "));
    }
    assert!(run.out.lines().all(|line| line.chars().count() <= 100), "{}", run.out);
    assert_eq!(run.err, "");
}

#[test]
fn a_wrong_option_is_explained_with_status_1() {
    for args in [["--partitions", "0"], ["--capacity", "65537"], ["--attempts", "0"], ["--nonsense", "1"]] {
        let run = pipeline(&args).ends(1);
        run.warns("error: ");
        run.warns(args[0]);
        assert_eq!(run.out, "");
    }
}

#[test]
fn nothing_but_plain_text_is_written_where_no_terminal_is() {
    let run = on("plain-text.csv", rows(1), &["--slow-audit=300000"]).ends(0);
    assert!(!run.out.contains('\x1b') && run.err.is_empty(), "{}{}", run.out, run.err);
    assert!(run.out.lines().all(|line| line.chars().count() <= 80), "{}", run.out);
}
