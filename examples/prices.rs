//! One feed and four readers, each with its own idea of what may be lost.
//!
//! ```text
//!                         ┌▶ screen    takes 3 ms for each quote   Overflow::latest_by(64, carrier)   the latest of each carrier
//!   quotes ──▶ topic ─────┼▶ chart     a point each millisecond    Overflow::drop_oldest(256)         the last ones
//!              `prices`   ├▶ sampler   looks at each for 5 ms      Overflow::drop_newest(16)          a few, from time to time
//!                         └▶ risk      as fast as it can           Overflow::block(1024)              all of them, or the feed waits
//! ```
//! The series is real: departures from New York in January 2013, where a carrier's quote is the delay of its last flight, in minutes.
//!
//! `cargo run --release --example prices` replays it; `-- --help` says what else it does.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use clap::{Parser, ValueHint, value_parser};
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use ringlog::{Broker, Group, GroupConfig, GroupStats, Overflow, Record, Topic, TopicConfig};

#[allow(dead_code)]
#[path = "pipeline/input.rs"]
mod input;

/// Replays a series of quotes to four readers of one topic, and shows what each received and lost.
///
/// The screen wants the latest quote of each carrier, the chart the last ones, the sampler a few; the risk check wants all of them,
/// and is what the feed waits for, if for anything.
#[derive(Debug, Parser)]
#[command(name = "prices")]
pub(crate) struct Args {
    /// A CSV file with the columns `carrier` and `dep_delay`, plain or zipped [default: January 2013, built in]
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,

    /// Quotes a second; 0: as fast as they go
    #[arg(short, long, value_name = "N", default_value_t = 5_000)]
    rate: u32,

    /// How long the risk check takes for each quote, in microseconds
    #[arg(long, value_name = "MICROS", default_value_t = 0, value_parser = value_parser!(u64).range(0..=1_000_000))]
    risk: u64,

    /// Shows no progress (nor is any shown without a terminal)
    #[arg(short, long)]
    quiet: bool,
}

/// How long the screen takes for one carrier.
const DRAWING: Duration = Duration::from_millis(3);

/// The latest word on a carrier.
#[derive(Clone, Debug)]
pub(crate) struct Quote {
    carrier: Arc<str>,
    minutes: i64,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(Report { text, quotes, groups }) => {
            println!("{text}");
            let adds_up = |group: &GroupStats| group.acked() + group.dropped() + group.conflated() == quotes;
            if groups.iter().all(adds_up) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(trouble) => {
            eprintln!("prices: {trouble}");
            ExitCode::FAILURE
        }
    }
}

/// How it went, in words and in figures.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) quotes: u64,
    pub(crate) groups: Vec<GroupStats>,
}

/// Replays everything.
pub(crate) fn run(args: &Args) -> Result<Report, Box<dyn std::error::Error>> {
    let quotes = quotes(args)?;
    let broker = Broker::new();
    let prices = broker.create_topic("prices", TopicConfig::new().block(None))?;
    let screen = Screen::default();
    let groups = readers(&prices, args, &screen)?;
    let board = Board::new(&groups, quotes.len() as u64, args.quiet);

    let (begun, count) = (Instant::now(), quotes.len() as u64);
    let mut shown = begun;
    for (nth, quote) in (0..).zip(quotes) {
        if let Some(early) = due(begun, nth, args.rate).checked_duration_since(Instant::now()) {
            thread::sleep(early);
        }
        prices.publish(quote)?;
        if nth % 64 == 0 && shown.elapsed() > Duration::from_millis(100) {
            board.show(&groups, nth);
            shown = Instant::now();
        }
    }
    let took = begun.elapsed();
    broker.drain(Duration::MAX)?;
    board.finish();
    broker.close(Some(Broker::CLOSE_LIMIT));
    let stats: Vec<GroupStats> = groups.iter().map(Group::stats).collect();
    Ok(Report { text: summary(&stats, &screen, count, took), quotes: count, groups: stats })
}

/// When the `nth` quote is due.
fn due(begun: Instant, nth: u64, rate: u32) -> Instant {
    let wait = nth.saturating_mul(1_000_000_000).checked_div(u64::from(rate)).unwrap_or(0);
    begun + Duration::from_nanos(wait)
}

/// The series, in the order of the file. Flights that were cancelled have no delay, and are no quotes.
fn quotes(args: &Args) -> Result<Vec<Quote>, Box<dyn std::error::Error>> {
    let mut carriers: BTreeMap<String, Arc<str>> = BTreeMap::new();
    let quotes = input::read(args.file.as_deref(), |source, bytes| {
        let mut lines = csv::Reader::from_reader(bytes);
        let header = lines.headers().cloned().unwrap_or_default();
        let column = |name: &str| {
            let missing = || input::Trouble::Column {
                name: source.name.clone(),
                column: name.to_owned(),
                found: header.iter().collect::<Vec<_>>().join(", "),
            };
            header.iter().position(|column| column == name).ok_or_else(missing)
        };
        let (carrier, delay) = (column("carrier")?, column("dep_delay")?);
        let quote = |line: csv::StringRecord| {
            let name = line.get(carrier)?.to_owned();
            let minutes = line.get(delay)?.parse().ok()?;
            let carrier = carriers.entry(name).or_insert_with_key(|name| name.as_str().into()).clone();
            Some(Quote { carrier, minutes })
        };
        Ok(lines.records().filter_map(Result::ok).filter_map(quote).collect())
    })?;
    Ok(quotes)
}

/// What the screen shows.
type Screen = Arc<Mutex<BTreeMap<Arc<str>, i64>>>;

fn readers(
    prices: &Topic<Quote>,
    args: &Args,
    screen: &Screen,
) -> Result<Vec<Group<Quote>>, Box<dyn std::error::Error>> {
    let (shown, risk) = (screen.clone(), Duration::from_micros(args.risk));
    let draw = move |quote: &Record<'_, Quote>| {
        shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).insert(quote.carrier.clone(), quote.minutes);
        thread::sleep(DRAWING); // that a screen is slow is what this is about
    };
    let by_carrier = Overflow::latest_by(64, |quote: &Quote| quote.carrier.clone());
    let slowly = |time: Duration| {
        move |_: &Record<'_, Quote>| {
            if !time.is_zero() {
                thread::sleep(time)
            }
        }
    };
    let group = |name, rule| prices.group(name, GroupConfig::latest().overflow(rule));
    let (screen, chart) = (group("screen", by_carrier)?, group("chart", Overflow::drop_oldest(256))?);
    let (sampler, check) = (group("sampler", Overflow::drop_newest(16))?, group("risk", Overflow::block(1_024))?);
    screen.subscribe("screen", draw)?;
    chart.subscribe("chart", slowly(Duration::from_millis(1)))?;
    sampler.subscribe("sampler", slowly(Duration::from_millis(5)))?;
    check.subscribe("risk", slowly(risk))?;
    Ok(vec![screen, chart, sampler, check])
}

/// A line for each reader, on stderr, if that is a terminal.
struct Board(Vec<ProgressBar>);

impl Board {
    fn new(groups: &[Group<Quote>], quotes: u64, quiet: bool) -> Self {
        let target = if quiet { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr_with_hz(10) };
        let all = MultiProgress::with_draw_target(target);
        let style = ProgressStyle::with_template("{prefix:>8} {bar:24} {msg}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = |group: &Group<Quote>| {
            let bar = all.add(ProgressBar::new(quotes).with_style(style.clone()));
            bar.set_prefix(group.name().to_owned());
            bar
        };
        Board(groups.iter().map(bar).collect())
    }

    fn show(&self, groups: &[Group<Quote>], published: u64) {
        for (bar, group) in self.0.iter().zip(groups) {
            let stats = group.stats();
            let lost = stats.dropped() + stats.conflated();
            bar.set_position(stats.acked());
            bar.set_message(format!("{} of {published}, lost {lost}, {} waiting", stats.acked(), stats.lag()));
        }
    }

    fn finish(&self) {
        self.0.iter().for_each(ProgressBar::finish_and_clear);
    }
}

fn summary(groups: &[GroupStats], screen: &Screen, quotes: u64, took: Duration) -> String {
    let rate = quotes as f64 / took.as_secs_f64().max(f64::MIN_POSITIVE);
    let mut text = format!("{quotes} quotes in {:.1} s, {rate:.0} a second\n", took.as_secs_f64());
    text += "\n            received   dropped  conflated\n";
    for group in groups {
        let (received, dropped, conflated) = (group.acked(), group.dropped(), group.conflated());
        text += &format!("  {:8} {received:>10} {dropped:>9} {conflated:>10}", group.group);
        text += if group.balances() && received + dropped + conflated == quotes { "\n" } else { "  does not add up\n" };
    }
    let screen = screen.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let last: Vec<String> = screen.iter().map(|(carrier, minutes)| format!("{carrier} {minutes:+}")).collect();
    text += &format!("\n  on the screen, in minutes: {}", last.join("  "));
    text
}
