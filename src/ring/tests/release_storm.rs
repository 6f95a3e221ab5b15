//! Prompt rings under threads: every record is dropped once, and none is late.
#![forbid(unsafe_code)]

use crate::ring::{Gate, Options, Peek, Producers, Reader, Ring, Start};
use crate::seq::Capacity;
use crate::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use crate::sync::{Arc, thread};

/// A record with memory of its own, counted when it goes.
struct Heavy(String, Arc<Vec<AtomicU8>>);

impl Heavy {
    fn number(&self) -> usize {
        self.0.parse().unwrap()
    }
}

impl Drop for Heavy {
    fn drop(&mut self) {
        assert_eq!(self.1[self.number()].fetch_add(1, Ordering::Relaxed), 0, "{} was dropped twice", self.0);
    }
}

/// Reads and commits what is there; how many records.
fn run(ring: &Ring<Heavy>, gate: &Gate, reader: &mut Reader<Heavy>) -> u64 {
    let (at, epoch) = gate.snapshot();
    reader.jump(at);
    let (to, read) = match reader.peek(3) {
        Peek::Ready(run) => {
            run.iter().for_each(|record| assert_eq!(record.1[record.number()].load(Ordering::Relaxed), 0));
            (at.plus(run.len() as u64), true)
        }
        Peek::Pending => return 0,
        Peek::Lapped { earliest } => (earliest, false),
    };
    if read {
        reader.advance(to);
    }
    let committed = gate.commit(epoch, at, to);
    ring.release(at, to);
    if committed.is_ok() { to.since(at) } else { 0 }
}

/// Two producers, two groups that stay, and one that comes, is moved and goes.
fn storm(capacity: usize, lossy: bool, each: usize) {
    let options = Options::new(Capacity::new(capacity).unwrap(), Producers::Shared);
    let ring = Ring::<Heavy>::new(Options { prompt: true, lossy, ..options }).unwrap();
    let counts: Arc<Vec<_>> = Arc::new((0..2 * each).map(|_| AtomicU8::new(0)).collect());
    let join = || {
        let gate = if lossy { ring.follow(Start::Earliest, 0) } else { ring.join(Start::Earliest, 0) };
        ring.sweep();
        let reader = ring.reader(gate.position()).covered_by(gate.clone());
        (gate, reader)
    };
    let (stay, over) = ([join(), join()], AtomicBool::new(false));
    let publish = |from: usize| {
        for n in from..from + each {
            let mut value = Heavy(n.to_string(), counts.clone());
            loop {
                match ring.try_push(value) {
                    Ok(at) => break ring.published(at, 1),
                    Err(refused) => value = refused.value,
                }
                thread::yield_now();
            }
        }
    };
    thread::scope(|scope| {
        let publish = &publish;
        let producers = [0, each].map(|from| scope.spawn(move || publish(from)));
        for (gate, mut reader) in stay {
            let (ring, over) = (&ring, &over);
            scope.spawn(move || {
                while !over.load(Ordering::Acquire) || gate.position().precedes(ring.end()) {
                    if run(ring, &gate, &mut reader) == 0 {
                        thread::yield_now();
                    }
                }
            });
        }
        for turn in 0.. {
            if producers.iter().all(|producer| producer.is_finished()) {
                break;
            }
            let (gate, mut reader) = join();
            run(&ring, &gate, &mut reader);
            ring.seek(&gate, if turn % 2 == 0 { ring.end() } else { ring.earliest() });
            ring.sweep();
            run(&ring, &gate, &mut reader);
            ring.leave(&gate);
            ring.sweep();
        }
        over.store(true, Ordering::Release);
    });
    let late = counts.iter().position(|count| count.load(Ordering::Relaxed) != 1);
    assert_eq!(late, None, "not dropped, though everybody is past it");
}

// B-10
#[test]
fn in_a_storm_every_record_is_dropped_once_and_none_is_late() {
    // Where producers wait at each record for groups that wait for a processor, few will do.
    let (capacities, many, few): (&[usize], _, _) =
        if cfg!(miri) { (&[1, 3], 12, 12) } else { (&[1, 2, 3, 64], 5_000, 200) };
    for &capacity in capacities {
        storm(capacity, true, many);
        storm(capacity, false, if capacity < 64 { few } else { many });
    }
}
