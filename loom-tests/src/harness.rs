//! The model runner. Its own counters are std's, so that loom does not see them.
use std::collections::BTreeMap;
use std::fmt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Names the test whose failing twin this child process has to run.
const TWIN: &str = "RINGLOG_MODEL_TWIN";
/// Overrides [`Model::within`], in seconds.
const SECONDS: &str = "RINGLOG_MODEL_SECONDS";
/// Overrides where models are cut that are cut.
const CUT: &str = "RINGLOG_MODEL_CUT";
/// loom's own variable, which wins over a model's bound.
const PREEMPTIONS: &str = "LOOM_MAX_PREEMPTIONS";

/// Counts what the executions of one model ended in. Cheap to clone into the actors.
#[derive(Clone)]
pub struct Tally {
    shared: Arc<Shared>,
}

struct Shared {
    allowed: &'static [&'static str],
    executions: AtomicU64,
    seen: Mutex<BTreeMap<&'static str, u64>>,
}

impl Tally {
    fn new(allowed: &'static [&'static str]) -> Self {
        let (executions, seen) = (AtomicU64::new(0), Mutex::new(BTreeMap::new()));
        Self { shared: Arc::new(Shared { allowed, executions, seen }) }
    }

    /// Counts one occurrence of `outcome` in this execution.
    ///
    /// # Panics
    /// When the model does not list `outcome`.
    #[track_caller]
    pub fn saw(&self, outcome: &'static str) {
        assert!(self.shared.allowed.contains(&outcome), "outcome `{outcome}` is not one this model allows");
        *self.seen().entry(outcome).or_insert(0) += 1;
    }

    /// How many executions have begun.
    pub fn executions(&self) -> u64 {
        self.shared.executions.load(Ordering::Relaxed)
    }

    fn seen(&self) -> std::sync::MutexGuard<'_, BTreeMap<&'static str, u64>> {
        self.shared.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} executions", self.executions())?;
        self.seen().iter().try_for_each(|(name, times)| write!(f, ", {name} {times}"))
    }
}

/// A model's name and bounds. [`model`] is the short form.
#[derive(Clone, Debug)]
pub struct Model {
    name: &'static str,
    preemptions: usize,
    at_least: u64,
    branches: usize,
    within: Duration,
    cut_at: Option<usize>,
}

impl Model {
    /// A model called `name` with a preemption bound of 2, at least 10 executions, 20,000 branches an execution and a
    /// limit of ten minutes.
    pub fn new(name: &'static str) -> Self {
        let within = Duration::from_secs(number(SECONDS).unwrap_or(600));
        Self { name, preemptions: 2, at_least: 10, branches: 20_000, within, cut_at: None }
    }

    /// Sets the preemption bound. `LOOM_MAX_PREEMPTIONS` in the environment wins.
    #[must_use]
    pub fn preemptions(self, preemptions: usize) -> Self {
        Self { preemptions, ..self }
    }

    /// Sets the number of executions below which the model has explored too little and fails.
    #[must_use]
    pub fn at_least(self, at_least: u64) -> Self {
        Self { at_least, ..self }
    }

    /// Sets how many branch points one execution may have before loom gives up on it.
    #[must_use]
    pub fn branches(self, branches: usize) -> Self {
        Self { branches, ..self }
    }

    /// Looks at so many executions and no more: for models that are too large to be looked through, where the first part of
    /// the schedules is worth more than a smaller model. What is printed says so. `RINGLOG_MODEL_CUT` in the environment wins.
    #[must_use]
    pub fn cut_at(self, executions: usize) -> Self {
        Self { cut_at: Some(number(CUT).unwrap_or(executions)), ..self }
    }

    /// Sets the time after which the model fails as too large. `RINGLOG_MODEL_SECONDS` in the environment sets it for
    /// all models that do not call this.
    #[must_use]
    pub fn within(self, within: Duration) -> Self {
        Self { within, ..self }
    }

    /// Explores `body`, and fails unless each of `outcomes`, and none other, occurred.
    ///
    /// # Panics
    /// When an execution panics, or the run does not keep what the model promises.
    pub fn run(self, outcomes: &'static [&'static str], body: impl Fn(&Tally) + Send + Sync + 'static) {
        let (tally, started) = (Tally::new(outcomes), Instant::now());
        let inner = tally.clone();
        let (name, within) = (self.name, self.within);
        self.builder().check(move || {
            inner.shared.executions.fetch_add(1, Ordering::Relaxed);
            assert!(started.elapsed() < within, "model {name}: not done after {within:?} ({inner:?}): make it smaller");
            body(&inner);
        });
        let cut = if self.cut_at.is_some_and(|cut| tally.executions() + 1 >= cut as u64) { " (CUT)" } else { "" };
        println!("model {name}: {tally:?}, {:.2?}{cut}", started.elapsed());
        self.judge(&tally, outcomes);
    }

    fn builder(&self) -> loom::model::Builder {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(number(PREEMPTIONS).unwrap_or(self.preemptions));
        builder.max_branches = self.branches;
        builder.max_permutations = self.cut_at;
        // loom counts them only so often.
        builder.checkpoint_interval = self.cut_at.unwrap_or(builder.checkpoint_interval).max(1);
        builder.max_threads = 5;
        builder
    }

    fn judge(&self, tally: &Tally, outcomes: &[&'static str]) {
        let seen = tally.seen();
        let missing: Vec<_> = outcomes.iter().filter(|outcome| !seen.contains_key(*outcome)).collect();
        assert!(missing.is_empty(), "model {}: never saw {missing:?}", self.name);
        let (ran, floor) = (tally.executions(), self.at_least);
        assert!(ran >= floor, "model {}: only {ran} executions, expected at least {floor}", self.name);
    }
}

fn number<N: std::str::FromStr>(variable: &str) -> Option<N> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Explores `body` with a preemption bound of `bound`, and fails unless each of `outcomes`, and none other, occurred.
///
/// # Panics
/// See [`Model::run`].
pub fn model(
    name: &'static str,
    bound: usize,
    outcomes: &'static [&'static str],
    body: impl Fn(&Tally) + Send + Sync + 'static,
) {
    Model::new(name).preemptions(bound).run(outcomes, body);
}

/// Demands that exploring `body` fails: a broken twin of a model, with `says` somewhere in what it prints (for instance
/// `"deadlock"`; empty for any failure).
///
/// `test` is the path of the calling test as libtest prints it. The exploration runs in a child process, because loom
/// aborts the whole process when it panics over a live lock guard.
///
/// # Panics
/// When the twin passes, or fails without saying `says`.
pub fn must_fail(test: &'static str, bound: usize, says: &str, body: impl Fn(&Tally) + Send + Sync + 'static) {
    if std::env::var_os(TWIN).is_some_and(|twin| twin == test) {
        return Model::new(test).preemptions(bound).at_least(1).run(&[], body);
    }
    let child = Command::new(std::env::current_exe().expect("the test binary knows its own path"))
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(TWIN, test)
        .stdin(Stdio::null())
        .output()
        .expect("the test binary starts again");
    let printed = [child.stdout, child.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(printed.contains("running 1 test"), "twin {test}: no test of that name:\n{printed}");
    assert!(!child.status.success(), "twin {test} passed: the model cannot see what it exists for");
    assert!(printed.contains(says), "twin {test} failed, but not with `{says}`:\n{printed}");
    println!("twin {test}: failed as it must");
}
