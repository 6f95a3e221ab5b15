//! Interleaved rounds: every contender once, then every contender again, so that a slow minute hits them all.

use crate::machine;

/// Who a contender is, to the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// ringlog.
    Ours,
    /// `disruptor` with a single producer.
    DisruptorSingle,
    /// `disruptor` with many producers.
    DisruptorMulti,
    /// `rtrb`.
    Rtrb,
    /// `crossbeam-channel`.
    Crossbeam,
    /// `tokio::sync::broadcast`.
    Broadcast,
    /// `tokio::sync::mpsc` with a task for each.
    Tasks,
    /// Shown beside the others, never a measure for a bound.
    Aside,
}

/// What one run of a contender gave.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// The figure that counts, in nanoseconds.
    pub figure: f64,
    /// For latencies: p90 and p99 beside the figure, which is then the p50.
    pub tail: Option<(f64, f64)>,
}

impl From<f64> for Sample {
    fn from(figure: f64) -> Self {
        Sample { figure, tail: None }
    }
}

/// One line of a table: a name and the way to run it once.
pub struct Contender {
    name: String,
    who: Who,
    run: Box<dyn Fn() -> Sample>,
}

impl std::fmt::Debug for Contender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Contender").field("name", &self.name).field("who", &self.who).finish_non_exhaustive()
    }
}

impl Contender {
    /// A contender by this name.
    pub fn new<S: Into<Sample>>(who: Who, name: impl Into<String>, run: impl Fn() -> S + 'static) -> Self {
        Contender { name: name.into(), who, run: Box::new(move || run().into()) }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// How often everything runs.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Rounds that count; one more runs before them and is dropped.
    pub rounds: usize,
    /// Runs within a round; the round's figure is their median.
    pub repeats: usize,
    /// Runs before or after which a cache line takes more nanoseconds than this to the other core and back are made again,
    /// whoever ran: on a host with moods they say nothing about anybody.
    pub calm: f64,
}

/// How often a run is made again; then it counts, whatever the machine was like.
const AGAIN: usize = 200;

/// The round medians of one contender.
#[derive(Clone, Debug)]
pub struct Figures {
    /// The contender's name.
    pub name: String,
    /// Who it is.
    pub who: Who,
    /// The median of each round that counts.
    pub rounds: Vec<f64>,
    /// The medians of the tails, for latencies.
    pub tail: Option<(f64, f64)>,
}

impl Figures {
    /// The median of the round medians.
    pub fn median(&self) -> f64 {
        quantile(&self.rounds, 0.5)
    }

    /// The 90th percentile of the round medians.
    pub fn p90(&self) -> f64 {
        quantile(&self.rounds, 0.9)
    }

    /// The lowest round median: what counts for a peer.
    pub fn lowest(&self) -> f64 {
        quantile(&self.rounds, 0.0)
    }

    /// The median of the ratios to `other`, round by round.
    pub fn ratio_to(&self, other: &Figures) -> f64 {
        let ratios: Vec<f64> = self.rounds.iter().zip(&other.rounds).map(|(a, b)| a / b).collect();
        quantile(&ratios, 0.5)
    }
}

/// Runs the contenders in rounds.
pub fn interleave(contenders: &[Contender], plan: Plan) -> Vec<Figures> {
    let mut samples: Vec<Vec<Sample>> = vec![Vec::new(); contenders.len()];
    for round in 0..=plan.rounds {
        for (contender, all) in contenders.iter().zip(&mut samples) {
            let sample = middle((0..plan.repeats).map(|_| calmly(&contender.run, plan.calm)).collect());
            if round > 0 {
                all.push(sample);
            }
        }
    }
    contenders.iter().zip(samples).map(|(contender, all)| figures(contender, &all)).collect()
}

/// One run between two moments in which the machine is in its usual mood.
fn calmly(run: &dyn Fn() -> Sample, calm: f64) -> Sample {
    if calm.is_infinite() {
        return run();
    }
    let is_calm = || machine::round_trip(2_000) <= calm;
    let mut sample = None;
    for _ in 0..AGAIN {
        if is_calm() {
            sample = Some(run());
            if is_calm() {
                break;
            }
        } else {
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    }
    sample.unwrap_or_else(run)
}

fn figures(contender: &Contender, all: &[Sample]) -> Figures {
    let tails = |pick: fn((f64, f64)) -> f64| -> Vec<f64> { all.iter().filter_map(|s| s.tail.map(pick)).collect() };
    let (p90, p99) = (tails(|t| t.0), tails(|t| t.1));
    Figures {
        name: contender.name.clone(),
        who: contender.who,
        rounds: all.iter().map(|s| s.figure).collect(),
        tail: (!p90.is_empty()).then(|| (quantile(&p90, 0.5), quantile(&p99, 0.5))),
    }
}

fn middle(mut samples: Vec<Sample>) -> Sample {
    samples.sort_by(|a, b| a.figure.total_cmp(&b.figure));
    samples[(samples.len() - 1) / 2]
}

fn quantile(values: &[f64], at: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(((sorted.len().saturating_sub(1)) as f64 * at).round() as usize).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::{Contender, Plan, Who, interleave, quantile};
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn the_first_round_is_dropped_and_each_round_counts_by_its_median() {
        let runs = Rc::new(Cell::new(0.0));
        let counter = Rc::clone(&runs);
        let next = move || {
            counter.set(counter.get() + 1.0);
            counter.get()
        };
        let figures = interleave(
            &[Contender::new(Who::Ours, "counter", next)],
            Plan { rounds: 2, repeats: 3, calm: f64::INFINITY },
        );
        assert_eq!(figures[0].rounds, [5.0, 8.0]);
        assert_eq!(runs.get(), 9.0);
    }

    #[test]
    fn contenders_take_turns() {
        let log = Rc::new(std::cell::RefCell::new(String::new()));
        let by = |name: char| {
            let log = Rc::clone(&log);
            Contender::new(Who::Aside, name, move || {
                log.borrow_mut().push(name);
                1.0
            })
        };
        interleave(&[by('a'), by('b')], Plan { rounds: 2, repeats: 1, calm: f64::INFINITY });
        assert_eq!(*log.borrow(), "ababab");
    }

    #[test]
    fn quantiles_are_values_that_occurred() {
        assert_eq!([0.0, 0.5, 0.9].map(|q| quantile(&[5.0, 1.0, 3.0], q)), [1.0, 3.0, 5.0]);
    }
}
