//! The bounds a row has to keep, and the table it is shown in.
use crate::rounds::{Contender, Figures, Plan, Who, interleave};

/// Which of the two columns of targets a bound belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// What must hold now.
    Foundation,
    /// What the project is after.
    Goal,
}

/// How large our figure may be.
#[derive(Clone, Debug)]
pub enum Limit {
    /// So many nanoseconds.
    Nanos(f64),
    /// So many times the best of these peers, each taken at its lowest round.
    Times(f64, &'static [Who]),
    /// So many times our own contender by this name.
    TimesOwn(f64, String),
}

/// One bound on one of our contenders.
#[derive(Clone, Debug)]
pub struct Bound {
    column: Column,
    ours: String,
    limit: Limit,
}

/// A foundation bound on our contender by this name.
pub fn foundation(ours: &str, limit: Limit) -> Bound {
    Bound { column: Column::Foundation, ours: ours.to_owned(), limit }
}

/// A goal on our contender by this name.
pub fn goal(ours: &str, limit: Limit) -> Bound {
    Bound { column: Column::Goal, ours: ours.to_owned(), limit }
}

/// One table: contenders that run in the same rounds, and what is asked of ours.
#[derive(Debug)]
pub struct Case {
    /// What is measured.
    pub title: String,
    /// Everyone who runs.
    pub contenders: Vec<Contender>,
    /// What is asked.
    pub bounds: Vec<Bound>,
}

/// A bound with what was found.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// Its column.
    pub column: Column,
    /// What was asked and found, as a sentence.
    pub text: String,
    /// Whether it held; nothing when somebody it needs did not run.
    pub holds: Option<bool>,
}

impl Case {
    /// Runs the case and prints its table.
    pub fn run(&self, plan: Plan) -> Vec<Verdict> {
        let figures = interleave(&self.contenders, plan);
        println!("\n### {}\n", self.title);
        print_table(&figures);
        let verdicts: Vec<Verdict> = self.bounds.iter().map(|bound| bound.judge(&figures)).collect();
        println!();
        for verdict in &verdicts {
            println!("- {verdict}");
        }
        verdicts
    }
}

fn print_table(figures: &[Figures]) {
    let ours = figures.iter().find(|f| f.who == Who::Ours);
    let tails = figures.iter().any(|f| f.tail.is_some());
    let (tail_head, tail_rule) = if tails { (" in-run p90 | in-run p99 |", "---:|---:|") } else { ("", "") };
    println!("| {:<44} | {:>9} | {:>9} | {:>9} | {:>9} |{tail_head}", "ns", "median", "p90", "lowest", "x ringlog");
    println!("|:---|---:|---:|---:|---:|{tail_rule}");
    for f in figures {
        let ratio = ours.map_or("-".to_owned(), |ours| format!("{:.2}", f.ratio_to(ours)));
        let tail = f.tail.map_or(String::new(), |(p90, p99)| format!(" {p90:>9.0} | {p99:>9.0} |"));
        println!(
            "| {:<44} | {:>9.2} | {:>9.2} | {:>9.2} | {ratio:>9} |{tail}",
            f.name,
            f.median(),
            f.p90(),
            f.lowest()
        );
    }
}

impl Bound {
    /// Compares our median with the limit.
    fn judge(&self, figures: &[Figures]) -> Verdict {
        let own = figures.iter().find(|f| f.name == self.ours).map(Figures::median);
        let (asked, limit) = self.limit.against(figures);
        let (text, holds) = match (own, limit) {
            (Some(own), Some(limit)) => {
                (format!("{} {own:.2} ns <= {asked} = {limit:.2} ns", self.ours), Some(own <= limit))
            }
            _ => (format!("{} <= {asked}: not measured", self.ours), None),
        };
        Verdict { column: self.column, text, holds }
    }
}

impl Limit {
    fn against(&self, figures: &[Figures]) -> (String, Option<f64>) {
        match self {
            Limit::Nanos(ns) => (format!("{ns} ns"), Some(*ns)),
            Limit::Times(times, peers) => {
                let peers = figures.iter().filter(|f| peers.contains(&f.who));
                let best = peers.min_by(|a, b| a.lowest().total_cmp(&b.lowest()));
                let name = best.map_or("nobody", |f| &f.name);
                (format!("{times} x {name}"), best.map(|f| times * f.lowest()))
            }
            Limit::TimesOwn(times, name) => {
                let own = figures.iter().find(|f| &f.name == name);
                (format!("{times} x {name}"), own.map(|f| times * f.median()))
            }
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let column = match self.column {
            Column::Foundation => "foundation",
            Column::Goal => "goal",
        };
        let found = match self.holds {
            Some(true) => "holds",
            Some(false) => "MISSED",
            None => "-",
        };
        write!(f, "{column}: {} · {found}", self.text)
    }
}
