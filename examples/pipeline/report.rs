//! The report at the end, as text.
#![forbid(unsafe_code)]

use std::fmt::Write;
use std::time::Duration;

use crate::flights::{Date, Tally};
use crate::summary::{Books, GroupEnd, Summary};
use crate::text::{Style, bar, plural, rate, thousands, time};

/// Routes shown.
const ROUTES_MAX: usize = 10;
/// Carriers shown.
const CARRIERS_MAX: usize = 20;
/// Cells of the longest bar.
const BAR_WIDTH: usize = 28;

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const CARRIERS: [(&str, &str); 16] = [
    ("9E", "Endeavor Air"),
    ("AA", "American Airlines"),
    ("AS", "Alaska Airlines"),
    ("B6", "JetBlue Airways"),
    ("DL", "Delta Air Lines"),
    ("EV", "ExpressJet Airlines"),
    ("F9", "Frontier Airlines"),
    ("FL", "AirTran Airways"),
    ("HA", "Hawaiian Airlines"),
    ("MQ", "Envoy Air"),
    ("OO", "SkyWest Airlines"),
    ("UA", "United Air Lines"),
    ("US", "US Airways"),
    ("VX", "Virgin America"),
    ("WN", "Southwest Airlines"),
    ("YV", "Mesa Airlines"),
];

/// The report in full.
pub(crate) fn full(summary: &Summary, style: Style) -> String {
    let sections = [head, groups, delays, routes, pressure, checks].map(|section| section(summary, style));
    let mut out = String::new();
    for section in sections.iter().filter(|section| !section.is_empty()) {
        let _ = write!(out, "\n{section}");
    }
    out
}

/// The report in one line.
pub(crate) fn short(summary: &Summary) -> String {
    let tally = &summary.tally;
    let retried = summary.groups.iter().map(|group| group.retried).sum();
    let dead = summary.groups.iter().map(|group| group.books.dead).sum();
    format!(
        "{} {}, {} cancelled, {} without a tail number, {} malformed; {} in {}; {} retried, {} dead letters; {}\n",
        thousands(tally.rows),
        plural(tally.rows, "row", "rows"),
        thousands(tally.cancelled),
        thousands(tally.without_tailnum),
        thousands(tally.malformed),
        speed(summary),
        time(summary.elapsed),
        thousands(retried),
        thousands(dead),
        if summary.sound() { "all checks passed" } else { "A CHECK FAILED" },
    )
}

/// The malformed lines that are shown, for stderr; empty if there are none.
pub(crate) fn malformed(tally: &Tally) -> String {
    let mut out = String::new();
    if tally.malformed == 0 {
        return out;
    }
    let count = thousands(tally.malformed);
    let lines = plural(tally.malformed, "line", "lines");
    let shown = tally.shown.len();
    let first = if tally.malformed > shown as u64 { format!("; the first {shown}") } else { String::new() };
    let _ = writeln!(out, "pipeline: {count} malformed {lines}, skipped{first}:");
    for one in &tally.shown {
        let _ = writeln!(out, "  {one}");
    }
    out
}

fn speed(summary: &Summary) -> String {
    format!("{} events a second", rate(summary.published, summary.elapsed))
}

/// A heading, with a remark at the right edge if there is one.
fn heading(style: Style, left: &str, right: &str) -> String {
    if right.is_empty() {
        return format!("{}\n", style.bold(left));
    }
    let pad = 78usize.saturating_sub(left.chars().count() + right.chars().count());
    format!("{}{}{}\n", style.bold(left), " ".repeat(pad), style.dim(right))
}

fn days(first: Date, last: Date) -> String {
    let month = |date: Date| MONTHS[usize::from(date.month.clamp(1, 12)) - 1];
    let full = |date: Date| format!("{} {} {}", date.day, month(date), date.year);
    if first == last {
        return full(first);
    }
    match (first.year == last.year, first.month == last.month) {
        (true, true) => format!("{} to {}", first.day, full(last)),
        (true, false) => format!("{} {} to {}", first.day, month(first), full(last)),
        _ => format!("{} to {}", full(first), full(last)),
    }
}

fn head(summary: &Summary, style: Style) -> String {
    let tally = &summary.tally;
    let when = tally.days.map(|(first, last)| format!(", {}", days(first, last))).unwrap_or_default();
    let mut out = heading(style, &format!("Departures from New York{when}"), "");
    let _ = writeln!(out, "  from       {}", summary.source);
    let _ = writeln!(
        out,
        "  read       {} {}: {} cancelled, {} without a tail number; {} malformed {}",
        thousands(tally.rows),
        plural(tally.rows, "row", "rows"),
        thousands(tally.cancelled),
        thousands(tally.without_tailnum),
        thousands(tally.malformed),
        plural(tally.malformed, "line", "lines"),
    );
    let _ = writeln!(
        out,
        "  published  to `departures`, {} {} of {}, keyed by {}; {} keyless",
        summary.partitions,
        plural(u64::from(summary.partitions), "partition", "partitions"),
        thousands(u64::from(summary.capacity)),
        summary.key,
        thousands(tally.keyless),
    );
    let all = summary.published * summary.groups.len() as u64;
    let _ = writeln!(
        out,
        "  took       {}: {}, {} deliveries a second",
        time(summary.elapsed),
        style.bold(&speed(summary)),
        rate(all, summary.elapsed),
    );
    out
}

fn groups(summary: &Summary, style: Style) -> String {
    let mut out = heading(style, "Groups", "from publish to handler");
    let columns = format!(
        "  {:<8} {:>9} {:>8} {:>6}  {:>9} {:>9} {:>9} {:>9}",
        "", "handled", "retried", "dead", "median", "90 %", "99 %", "longest"
    );
    let _ = writeln!(out, "{}", style.dim(&columns));
    for group in &summary.groups {
        let _ = writeln!(
            out,
            "  {:<8} {:>9} {:>8} {:>6}  {:>9} {:>9} {:>9} {:>9}",
            group.name,
            thousands(group.books.acked),
            thousands(group.retried),
            thousands(group.books.dead),
            quantile(group, 0.5),
            quantile(group, 0.9),
            quantile(group, 0.99),
            quantile(group, 1.0),
        );
    }
    letters(&mut out, summary);
    out
}

/// Why there are dead letters.
fn letters(out: &mut String, summary: &Summary) {
    for group in summary.groups.iter().filter(|group| group.books.dead > 0) {
        let count = thousands(group.books.dead);
        let letters = plural(group.books.dead, "dead letter", "dead letters");
        let reason = group.reason.as_deref().unwrap_or("a line not kept");
        let _ = writeln!(out, "  {count} {letters} in {}, the latest from {reason}", group.name);
    }
}

fn quantile(group: &GroupEnd, quantile: f64) -> String {
    if group.latency.is_empty() {
        return "-".to_owned();
    }
    time(Duration::from_nanos(group.latency.value_at_quantile(quantile)))
}

fn delays(summary: &Summary, style: Style) -> String {
    if summary.delays.is_empty() {
        return String::new();
    }
    let mut out = heading(style, "Mean delay by carrier", "minutes, flights that left");
    let most = summary.delays.iter().map(|(_, mean)| mean.value()).fold(0.0, f64::max);
    for (carrier, mean) in summary.delays.iter().take(CARRIERS_MAX) {
        let name = CARRIERS.iter().find(|(code, _)| *code == carrier.as_str()).map_or("", |(_, name)| name);
        let bar = bar(mean.value(), most, BAR_WIDTH);
        let _ = writeln!(
            out,
            "  {carrier:<3} {name:<21} {:>6.1}  {bar:<BAR_WIDTH$}  {:>12}",
            mean.value(),
            thousands(mean.flights)
        );
    }
    more(&mut out, summary.delays.len(), CARRIERS_MAX, "carriers");
    out
}

fn routes(summary: &Summary, style: Style) -> String {
    let Some((_, most)) = summary.routes.first() else { return String::new() };
    let mut out = heading(style, "Busiest routes", "flights planned");
    for (rank, ((origin, dest), flights)) in summary.routes.iter().take(ROUTES_MAX).enumerate() {
        let bar = bar(*flights as f64, *most as f64, BAR_WIDTH);
        let route = format!("{origin} → {dest}");
        let _ = writeln!(out, "  {:>2}  {route:<27}  {bar:<BAR_WIDTH$}  {:>13}", rank + 1, thousands(*flights));
    }
    more(&mut out, summary.routes.len(), ROUTES_MAX, "routes");
    let notices: Vec<_> =
        summary.notices.iter().map(|(airport, n)| format!("{} from {airport}", thousands(*n))).collect();
    if !notices.is_empty() {
        let _ = writeln!(
            out,
            "  an hour late or more: {}",
            notices.iter().take(5).map(String::as_str).collect::<Vec<_>>().join(", ")
        );
    }
    out
}

fn more(out: &mut String, all: usize, shown: usize, what: &str) {
    if all > shown {
        let _ = writeln!(out, "      and {} {what} more", thousands((all - shown) as u64));
    }
}

fn pressure(summary: &Summary, style: Style) -> String {
    let blocked = &summary.blocked;
    let mut out = heading(style, "Back-pressure", "");
    if blocked.publishes == 0 {
        out.push_str("  no publish had to wait for room\n");
        return out;
    }
    let share = blocked.time.as_secs_f64() / summary.elapsed.as_secs_f64().max(1e-9) * 100.0;
    let _ = writeln!(
        out,
        "  {} of {} publishes waited for room, {} in all, {share:.0} % of the run",
        thousands(blocked.publishes),
        thousands(summary.published),
        time(blocked.time),
    );
    let mut groups: Vec<_> = blocked.by_group.iter().collect();
    groups.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
    for (name, count) in groups {
        let _ = writeln!(out, "  held back by {name:<8} {:>9} {}", thousands(*count), plural(*count, "time", "times"));
    }
    out
}

fn checks(summary: &Summary, style: Style) -> String {
    let mut out = heading(style, "Checks", "");
    let order = &summary.order;
    let text = format!(
        "order: {} rows of {} {} in order, {} out of order, {} without a key",
        thousands(order.checked - order.broken),
        thousands(order.keys),
        plural(order.keys, "key", "keys"),
        thousands(order.broken),
        thousands(order.keyless),
    );
    let _ = writeln!(out, "  {}  {text}", mark(style, summary.order_holds()));
    let audit = &summary.audit;
    let missing = thousands(summary.published.saturating_sub(audit.rows));
    let text =
        format!("audit: {} rows arrived, {missing} missing, {} twice", thousands(audit.rows), thousands(audit.twice));
    let _ = writeln!(out, "  {}  {text}", mark(style, summary.audit_holds()));
    let columns = format!(
        "      {:<8} {:>11}  = {:>11}  + {:>8}  + {:>8}  + {:>6}",
        "books", "published", "acked", "dead", "skipped", "left"
    );
    let _ = writeln!(out, "{}", style.dim(&columns));
    for group in &summary.groups {
        let _ = writeln!(out, "  {}  {}", mark(style, group.sound()), books(group));
    }
    out
}

/// One line of the books, in columns.
fn books(group: &GroupEnd) -> String {
    let Books { published, acked, dead, skipped, left } = group.books;
    let [published, acked, dead, skipped, left] = [published, acked, dead, skipped, left].map(thousands);
    let equals = if group.books.balance() { "=" } else { "≠" };
    format!("{:<8} {published:>11}  {equals} {acked:>11}  + {dead:>8}  + {skipped:>8}  + {left:>6}", group.name)
}

fn mark(style: Style, holds: bool) -> String {
    if holds { style.bold("ok") } else { style.alarm("NO") }
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
