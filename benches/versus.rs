//! ringlog against its peers: `cargo bench -p ringlog-benches --bench versus -- P1 P2 --rounds 9`.
//!
//! Ids choose scenarios (all without any). `--rounds`, `--repeats`, `--messages` set the size, `--unpinned` leaves the
//! threads to the kernel, `--calm NS` makes runs again beside which a cache line took longer to the other core and back,
//! `--only TEXT` runs the contenders whose name has it, `--list` names the scenarios, `--strict` exits with 1 when a foundation bound is missed.
use std::process::ExitCode;

use ringlog_benches::judge::{Column, Verdict};
use ringlog_benches::machine;
use ringlog_benches::rounds::Plan;
use ringlog_benches::scenarios::{Scale, Scenario, all};

struct Args {
    plan: Plan,
    scale: Scale,
    ids: Vec<String>,
    list: bool,
    strict: bool,
    only: String,
}

fn main() -> ExitCode {
    let args = match parse(std::env::args().skip(1)) {
        Ok(args) => args,
        Err(what) => {
            eprintln!("versus: {what}");
            return ExitCode::from(2);
        }
    };
    let chosen: Vec<Scenario> = all().into_iter().filter(|s| wanted(&args.ids, s.id)).collect();
    if args.list {
        chosen.iter().for_each(|s| println!("{:<5} {}", s.id, s.title));
        return ExitCode::SUCCESS;
    }
    let missed = run(&args, &chosen);
    if args.strict && missed > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

fn wanted(ids: &[String], id: &str) -> bool {
    ids.is_empty() || ids.iter().any(|wanted| wanted.eq_ignore_ascii_case(id))
}

fn run(args: &Args, chosen: &[Scenario]) -> usize {
    let pins = if machine::pinned() { "producer on core 0, consumer on core 1" } else { "threads not pinned" };
    println!("{} rounds (and one dropped) of {} runs, {pins}", args.plan.rounds, args.plan.repeats);
    println!("{}", machine::probe());
    let mut verdicts = Vec::new();
    for scenario in chosen {
        println!("\n## {}: {}", scenario.id, scenario.title);
        for mut case in (scenario.cases)(args.scale) {
            case.contenders.retain(|c| c.name().contains(&args.only));
            verdicts.extend(case.run(args.plan));
        }
    }
    summary(&verdicts)
}

fn summary(verdicts: &[Verdict]) -> usize {
    let count = |column, holds| verdicts.iter().filter(|v| v.column == column && v.holds == Some(holds)).count();
    println!();
    for (name, column) in [("foundation", Column::Foundation), ("goal", Column::Goal)] {
        println!("{name}: {} hold, {} missed", count(column, true), count(column, false));
    }
    count(Column::Foundation, false)
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let (plan, scale) = (Plan { rounds: 9, repeats: 3, calm: f64::INFINITY }, Scale { messages: 400_000 });
    let mut args = Args { plan, scale, ids: Vec::new(), list: false, strict: false, only: String::new() };
    while let Some(word) = words.next() {
        let number = |next: Option<String>| {
            let number = next.and_then(|n| n.parse::<u64>().ok()).filter(|n| *n > 0);
            number.ok_or_else(|| format!("{word} wants a number above 0"))
        };
        match word.as_str() {
            "--bench" => {}
            "--list" => args.list = true,
            "--strict" => args.strict = true,
            "--only" => args.only = words.next().unwrap_or_default(),
            "--unpinned" => machine::leave_unpinned(),
            "--calm" => args.plan.calm = number(words.next())? as f64,
            "--rounds" => args.plan.rounds = number(words.next())? as usize,
            "--repeats" => args.plan.repeats = number(words.next())? as usize,
            "--messages" => args.scale.messages = number(words.next())?,
            flag if flag.starts_with('-') => return Err(format!("{flag} is unknown; see the head of versus.rs")),
            id => args.ids.push(id.to_owned()),
        }
    }
    Ok(args)
}
