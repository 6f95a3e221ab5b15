//! Claims: what it costs members of a group to take records in turn and to acknowledge them one by one. No payload is looked at;
//! the records are there before the clock runs.
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use ringlog::internals::group::claims::{Claims, share};
use ringlog::internals::ring::{Options, Producers, Ring, Start};
use ringlog::internals::seq::{Capacity, Seq};

use crate::machine;

/// What members share.
struct Lane {
    claims: Claims,
    /// Where the records end that are there.
    end: CachePadded<AtomicU64>,
    /// What was claimed, added up: each record once.
    sum: CachePadded<AtomicU64>,
}

impl Lane {
    /// Claims and acknowledges until nothing is left to claim.
    fn work(&self, members: usize, most: usize) {
        let (end, mut sum) = (Seq::new(self.end.load(Ordering::Acquire)), 0_u64);
        while let Some(place) = self.claims.upcoming() {
            let ready = end.lag_behind(place.at());
            if ready == 0 {
                break;
            }
            let Some(claim) = self.claims.claim(place, share(ready, members, most)) else { continue };
            sum += (claim.first().get()..claim.end().get()).sum::<u64>();
            assert_eq!(self.claims.settle(claim, |_| ()), claim.len() as u64, "nobody else has them");
            self.claims.advance();
        }
        self.sum.fetch_add(sum, Ordering::AcqRel);
    }
}

/// Nanoseconds for each record, claimed in runs of at most `most` by one member or two, over a ring of `capacity`.
pub fn claimed(messages: u64, capacity: u64, members: usize, most: usize) -> f64 {
    let of = Options::new(Capacity::new(capacity as usize).expect("a capacity"), Producers::Shared);
    let ring = Ring::<u64>::new(of).expect("memory");
    let gate = ring.join(Start::Earliest, 1);
    let claims = Claims::new(capacity, gate.clone());
    let [end, sum] = std::array::from_fn(|_| CachePadded::new(AtomicU64::new(0)));
    let lane = Lane { claims, end, sum };
    let laps = messages.div_ceil(capacity).max(1);
    let (lap, done) = (CachePadded::new(AtomicU64::new(0)), CachePadded::new(AtomicU64::new(0)));
    let lead = || {
        let mut timed = Duration::ZERO;
        for nth in 1..=laps {
            (0..capacity).for_each(|n| assert!(ring.try_push(n).is_ok(), "there is room"));
            lane.end.store(nth * capacity, Ordering::Release);
            let start = Instant::now();
            lap.store(nth, Ordering::Release);
            lane.work(members, most);
            wait_until(&done, nth * (members as u64 - 1));
            timed += start.elapsed();
            assert_eq!(gate.position().get(), nth * capacity, "the cursor is past them all");
        }
        timed
    };
    let follow = || {
        for nth in 1..=laps {
            if members > 1 {
                wait_until(&lap, nth);
                lane.work(members, most);
                done.fetch_add(1, Ordering::AcqRel);
            }
        }
    };
    let (timed, ()) = machine::pair(lead, follow);
    let total = laps * capacity;
    assert_eq!(lane.sum.load(Ordering::Acquire), total * (total - 1) / 2, "each record once");
    timed.as_nanos() as f64 / total as f64
}

fn wait_until(reached: &AtomicU64, goal: u64) {
    while reached.load(Ordering::Acquire) < goal {
        machine::make_way();
        spin_loop();
    }
}
