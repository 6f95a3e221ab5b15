//! The machine: pinning, its limits measured before anything else, and calibrated work and pauses.
use std::hint::spin_loop;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;

/// The core of the producing thread.
pub const PRODUCER: usize = 0;
/// The core of the consuming thread.
pub const CONSUMER: usize = 1;

static UNPINNED: AtomicBool = AtomicBool::new(false);

/// From here on [`pin`] leaves threads where the kernel puts them.
pub fn leave_unpinned() {
    UNPINNED.store(true, Ordering::Relaxed);
}

/// Whether threads are pinned.
pub fn pinned() -> bool {
    !UNPINNED.load(Ordering::Relaxed)
}

/// Pins the calling thread to a core, where the process may use it.
pub fn pin(core: usize) {
    if pinned() && allowed(core) {
        core_affinity::set_for_current(core_affinity::CoreId { id: core });
    }
}

/// Runs both at once, each on a fresh thread pinned to its core, and gives what they gave.
///
/// The calling thread is never pinned: a thread inherits the affinity of the one that spawns it, and would have to
/// wait for its spinning parent's core before it could move to its own.
pub fn pair<A: Send, B: Send>(produce: impl FnOnce() -> A + Send, consume: impl FnOnce() -> B + Send) -> (A, B) {
    thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            pin(CONSUMER);
            consume()
        });
        let producer = scope.spawn(|| {
            pin(PRODUCER);
            produce()
        });
        (producer.join().expect("the producer panicked"), consumer.join().expect("the consumer panicked"))
    })
}

/// Whether the process may run on this core (it may not under `taskset`).
pub fn allowed(core: usize) -> bool {
    static CORES: OnceLock<Vec<usize>> = OnceLock::new();
    let list = || core_affinity::get_core_ids().unwrap_or_default().into_iter().map(|c| c.id).collect();
    CORES.get_or_init(list).contains(&core)
}

/// Whether producer and consumer share one core, so that waiting must yield to make way.
pub fn one_core() -> bool {
    !(allowed(PRODUCER) && allowed(CONSUMER))
}

static CROWDED: AtomicBool = AtomicBool::new(false);

/// More threads than cores from here on (or no longer): whoever is stuck makes way for another thread.
pub fn crowd(on: bool) {
    CROWDED.store(on, Ordering::Relaxed);
}

/// Gives the core away if threads have to share cores.
#[inline(always)]
pub fn make_way() {
    if CROWDED.load(Ordering::Relaxed) {
        thread::yield_now();
    }
}

/// What a producer does that found no room.
#[cold]
pub fn stuck() {
    make_way();
    spin_loop();
}

/// Spins this many times.
#[inline(always)]
pub fn spin(times: u32) {
    (0..times).for_each(|_| spin_loop());
}

/// One pass of the producer's own work: a chain of dependent operations.
#[inline(always)]
pub fn work(mut x: u64, steps: u32) -> u64 {
    for _ in 0..steps {
        x = (x ^ (x >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    }
    x
}

/// How many steps of [`work`] take about this long here.
pub fn steps_for(time: Duration) -> u32 {
    static PER_STEP: OnceLock<f64> = OnceLock::new();
    let per_step = *PER_STEP.get_or_init(|| per_call(4_000_000, |n| work(n, n as u32)));
    (time.as_nanos() as f64 / per_step).round().max(1.0) as u32
}

/// How many `spin_loop` calls take about this long here.
pub fn spins_for(time: Duration) -> u32 {
    static PER_SPIN: OnceLock<f64> = OnceLock::new();
    let per_spin = *PER_SPIN.get_or_init(|| {
        per_call(400_000, |n| {
            (0..n).for_each(|_| spin_loop());
            n
        })
    });
    (time.as_nanos() as f64 / per_spin).round().max(1.0) as u32
}

fn per_call(calls: u64, all: impl Fn(u64) -> u64) -> f64 {
    (0..5).map(|_| time_of(calls, &all)).fold(f64::MAX, f64::min)
}

fn time_of(calls: u64, all: &impl Fn(u64) -> u64) -> f64 {
    let start = Instant::now();
    std::hint::black_box(all(std::hint::black_box(calls)));
    start.elapsed().as_nanos() as f64 / calls as f64
}

/// The limits of the machine as found just now.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    /// A round trip of two cache lines between the two cores, ns.
    pub round_trip: f64,
    /// `Instant::now`, ns.
    pub instant: f64,
    /// The measuring clock's raw read, ns.
    pub ticks: f64,
    /// The largest gaps a thread saw that only read the clock, p99.9 and largest, ns.
    pub floor: (u64, u64),
}

/// Measures the machine's limits.
pub fn probe() -> Probe {
    let clock = quanta::Clock::new();
    let instant = per_call(200_000, |n| (0..n).fold(0, |x, _| x ^ u64::from(Instant::now().elapsed().subsec_nanos())));
    let ticks = per_call(200_000, |n| (0..n).fold(0, |x, _| x ^ clock.raw()));
    Probe { round_trip: round_trip(100_000), instant: instant / 2.0, ticks, floor: noise_floor(&clock) }
}

/// How long a cache line takes to the other core and back, in nanoseconds, over so many trips.
pub fn round_trip(trips: u64) -> f64 {
    if one_core() {
        return f64::NAN;
    }
    let (ping, pong) = (CachePadded::new(AtomicU64::new(0)), CachePadded::new(AtomicU64::new(0)));
    let ask = || {
        ping.store(1, Ordering::Release);
        while pong.load(Ordering::Acquire) != 1 {}
        let start = Instant::now();
        for n in 2..=trips {
            ping.store(n, Ordering::Release);
            while pong.load(Ordering::Acquire) != n {}
        }
        start.elapsed().as_nanos() as f64 / (trips - 1) as f64
    };
    let answer = || {
        for n in 1..=trips {
            while ping.load(Ordering::Acquire) != n {}
            pong.store(n, Ordering::Release);
        }
    };
    pair(ask, answer).0
}

fn noise_floor(clock: &quanta::Clock) -> (u64, u64) {
    let mut gaps = crate::latency::histogram();
    let end = Instant::now() + Duration::from_millis(200);
    while Instant::now() < end {
        let mut last = clock.raw();
        for _ in 0..1_000 {
            let now = clock.raw();
            gaps.saturating_record(clock.delta_as_nanos(last, now));
            last = now;
        }
    }
    (gaps.value_at_quantile(0.999), gaps.max())
}

impl std::fmt::Display for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (p999, worst) = self.floor;
        writeln!(f, "  core to core and back      {:>8.1} ns", self.round_trip)?;
        writeln!(f, "  Instant::now / raw ticks   {:>8.1} / {:.1} ns", self.instant, self.ticks)?;
        write!(f, "  noise floor p99.9 / worst  {p999:>8} / {worst} ns")
    }
}
