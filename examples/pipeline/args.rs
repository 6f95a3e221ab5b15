//! The command line.
#![forbid(unsafe_code)]

use std::path::PathBuf;

use clap::{Parser, ValueHint, value_parser};

const ABOUT: &str = "\
Sends departures from New York through a broker and reports what five groups made of them.

Each row of the file is published to one topic, keyed so that rows of one aircraft stay in order.
Five groups handle every row, each at its own pace. With no FILE, the departures of January 2013
are used, which are built in.";

const AFTER: &str = "\
The groups, side by side on the one topic `departures`:
  delays    mean delay by carrier; rejects cancelled flights, which become dead letters
  routes    the busiest routes
  notices   delays of an hour and more; fails once at every n-th row and is tried again
  order     row numbers of one key only rise
  audit     every row arrives, and none twice; slow if asked

Examples:
  pipeline                              January 2013, built in
  pipeline flights.csv.zip              another file, plain or zipped
  pipeline --slow-audit --capacity 64   watch one slow group hold the publisher back
  pipeline --attempts 1 --fail-every 9  no second try: each failure is a dead letter

Exit status:
  0  all rows read, all checks passed
  1  the input could not be opened, understood or read to its end; or a wrong option
  2  some lines were malformed; they are listed, the others were read
  3  a check failed: order, audit or books";

/// The command line.
#[derive(Debug, Parser)]
#[command(name = "pipeline", about = ABOUT, after_help = AFTER)]
pub(crate) struct Args {
    /// Departures to read: a CSV file, or a zip archive with one in it
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub(crate) file: Option<PathBuf>,

    /// Key column; rows without one go round robin
    #[arg(short, long, value_name = "COLUMN", default_value = "tailnum")]
    pub(crate) key: String,

    /// Partitions of the topic
    #[arg(short, long, value_name = "N", default_value_t = 4, value_parser = value_parser!(u32).range(1..=256))]
    pub(crate) partitions: u32,

    /// Records a partition holds before it blocks
    #[arg(short, long, value_name = "N", default_value_t = 1024, value_parser = value_parser!(u32).range(1..=65_536))]
    pub(crate) capacity: u32,

    /// Lets `audit` take this long over each row [no value: 200]
    #[arg(
        long,
        value_name = "MICROSECONDS",
        num_args = 0..=1,
        require_equals = true,
        default_value_t = 0,
        default_missing_value = "200",
        hide_default_value = true,
        value_parser = value_parser!(u64).range(0..=60_000_000)
    )]
    pub(crate) slow_audit: u64,

    /// Lets `notices` fail once every N rows; 0: never
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) fail_every: u64,

    /// Attempts before a row becomes a dead letter
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..=100))]
    pub(crate) attempts: u32,

    /// Shows no progress (nor is any shown without a terminal)
    #[arg(long)]
    pub(crate) no_progress: bool,

    /// Shows no progress, and a report of one line
    #[arg(short, long)]
    pub(crate) quiet: bool,
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, Parser};

    use super::Args;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn slow_audit_never_swallows_the_file() {
        let args = Args::parse_from(["pipeline", "--slow-audit", "flights.csv"]);
        assert_eq!((args.slow_audit, args.file.as_deref()), (200, Some("flights.csv".as_ref())));
        assert_eq!(Args::parse_from(["pipeline", "--slow-audit=7"]).slow_audit, 7);
        assert_eq!(Args::parse_from(["pipeline"]).slow_audit, 0);
    }
}
