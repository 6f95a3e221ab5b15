//! A month of departures through a broker: one topic, five groups, and a report.
//!
//! ```text
//!   lines ──▶ flights ──▶ topic `departures` ──┬──▶ delays    jobs.rs: what each group does
//!   input.rs   flights.rs   flow.rs            ├──▶ routes    station.rs: what is measured about it
//!                                              ├──▶ notices
//!                                              ├──▶ order     progress.rs: shown meanwhile
//!                                              └──▶ audit     summary.rs, report.rs: said at the end
//! ```
//!
//! `cargo run --release --example pipeline` runs January 2013, which is built in; `-- --help` says what else there is.
#![forbid(unsafe_code)]

mod args;
mod flights;
mod flow;
mod input;
mod jobs;
mod lines;
mod progress;
mod report;
mod station;
mod summary;
mod text;

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use clap::Parser;

use crate::args::Args;
use crate::flights::Flights;
use crate::input::Trouble;
use crate::text::Style;

/// The input could not be opened, understood, or read to its end; or an option is wrong.
const EXIT_TROUBLE: u8 = 1;
/// Some lines were malformed.
const EXIT_MALFORMED: u8 = 2;
/// Order, audit or books did not hold.
const EXIT_UNSOUND: u8 = 3;

fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(EXIT_TROUBLE) } else { ExitCode::SUCCESS };
        }
    };
    run(&args).unwrap_or_else(|trouble| {
        eprintln!("pipeline: {trouble}");
        ExitCode::from(EXIT_TROUBLE)
    })
}

/// Reads, publishes, reports; and says how it went.
fn run(args: &Args) -> Result<ExitCode, Trouble> {
    input::read(args.file.as_deref(), |source, reader| {
        let mut flights = Flights::open(&source.name, reader, &args.key)?;
        let (summary, trouble) = flow::run(args, &source, &mut flights)?;
        let text = if args.quiet { report::short(&summary) } else { report::full(&summary, Style::of_stdout()) };
        print(&text);
        eprint!("{}", report::malformed(&summary.tally));
        if !summary.sound() {
            eprintln!("pipeline: a check failed: see the report");
        }
        match trouble {
            Some(trouble) => Err(trouble),
            None if !summary.sound() => Ok(ExitCode::from(EXIT_UNSOUND)),
            None if summary.tally.malformed > 0 => Ok(ExitCode::from(EXIT_MALFORMED)),
            None => Ok(ExitCode::SUCCESS),
        }
    })
}

/// Writes to stdout. That a reader has gone, as `head` does, is no error of ours.
fn print(text: &str) {
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        if error.kind() != ErrorKind::BrokenPipe {
            eprintln!("pipeline: the report could not be written: {error}");
        }
    }
}
