//! The newest of what is offered: order, counts, and when old values go.
#![forbid(unsafe_code)]

use super::{Fresh, Newest, Yard};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Weak};
use std::thread;

type Text = (u64, String);

fn newer(new: &mut Text, old: &Text) -> bool {
    new.0 > old.0
}

fn text(n: u64) -> Text {
    (n, n.to_string())
}

#[test]
fn the_highest_stays_whatever_order_it_comes_in() {
    let cell = Newest::new(Yard::new());
    assert!(cell.get().is_none() && cell.peek(|_| ()).is_none());
    for n in [3, 1, 4, 1, 5, 2] {
        if let Err(back) = cell.offer(Fresh::new(text(n)), newer) {
            assert_eq!(back.1, n.to_string(), "what was not taken comes back");
        }
    }
    assert_eq!((cell.get().unwrap().1.as_str(), cell.peek(|now| now.0)), ("5", Some(5)));
}

#[test]
fn a_value_stays_for_whom_it_was_given_to() {
    let (yard, alive) = (Yard::new(), Arc::new(()));
    let cell = Newest::new(yard.clone());
    cell.offer(Fresh::new((1, alive.clone())), |_, _| true).unwrap();
    let mine = cell.get().unwrap();
    cell.offer(Fresh::new((2, Arc::new(()))), |_, _| true).unwrap();
    drop((cell, yard));
    assert_eq!((mine.0, Arc::strong_count(&alive)), (1, 2));
    drop(mine);
    assert_eq!(Arc::strong_count(&alive), 1);
}

#[test]
fn old_values_go_a_few_at_a_time_and_all_with_the_yard() {
    let (yard, counted) = (Yard::new(), Arc::new(()));
    let cell = Newest::new(yard.clone());
    // Other tests of this process pin too: now and then they keep the collector from getting on.
    let few = (0..100_000).find(|n| {
        cell.offer(Fresh::new((*n, counted.clone())), |_, _| true).unwrap();
        drop(yard.sweep());
        *n > 100 && Arc::strong_count(&counted) < 36
    });
    assert!(few.is_some(), "{} are left", Arc::strong_count(&counted));
    drop((cell, yard));
    assert_eq!(Arc::strong_count(&counted), 1);
}

#[test]
fn nothing_is_dropped_while_somebody_may_be_about_to_count_it() {
    let (yard, counted) = (Yard::new(), Arc::new(()));
    let cell = Newest::new(yard.clone());
    cell.offer(Fresh::new((0, counted.clone())), |_, _| true).unwrap();
    let look = crossbeam_epoch::pin();
    for n in 1..200 {
        cell.offer(Fresh::new((n, counted.clone())), |_, _| true).unwrap();
        drop(yard.sweep());
    }
    assert_eq!(Arc::strong_count(&counted), 201, "one was dropped under a guard");
    drop(look);
}

/// What it holds is dropped where it is swept: not in the collector, which would do it on any thread.
struct Homing(thread::ThreadId, Weak<AtomicUsize>);

impl Drop for Homing {
    fn drop(&mut self) {
        if let Some(strangers) = self.1.upgrade() {
            strangers.fetch_add(usize::from(thread::current().id() != self.0), SeqCst);
        }
    }
}

#[test]
fn values_are_dropped_by_those_who_sweep() {
    let (strangers, stop) = (Arc::new(AtomicUsize::new(0)), AtomicBool::new(false));
    let yard = Yard::new();
    let cell = Newest::new(yard.clone());
    thread::scope(|s| {
        s.spawn(|| {
            while !stop.load(SeqCst) {
                crossbeam_epoch::pin().flush();
                cell.peek(|_| ());
            }
        });
        for _ in 0..if cfg!(miri) { 20 } else { 5_000 } {
            let homing = Homing(thread::current().id(), Arc::downgrade(&strangers));
            cell.offer(Fresh::new(homing), |_, _| true).unwrap_or_else(|_| panic!("it is newer"));
            drop(yard.sweep());
        }
        stop.store(true, SeqCst);
    });
    drop((cell, yard));
    assert_eq!(strangers.load(SeqCst), 0);
}

#[test]
fn readers_beside_several_publishers_see_whole_values_that_never_go_back() {
    let (rounds, publishers) = (if cfg!(miri) { 12 } else { 20_000 }, 3);
    let (yard, stop, next) = (Yard::new(), AtomicBool::new(false), AtomicUsize::new(1));
    let cell = Newest::new(yard.clone());
    thread::scope(|s| {
        let publishing: Vec<_> = (0..publishers)
            .map(|_| {
                s.spawn(|| {
                    for _ in 0..rounds {
                        let n = next.fetch_add(1, SeqCst) as u64;
                        let overtaken = cell.offer(Fresh::new(text(n)), newer).err();
                        assert!(cell.get().unwrap().0 >= n);
                        drop((overtaken, yard.sweep()));
                    }
                })
            })
            .collect();
        s.spawn(|| {
            let mut before = 0;
            while !stop.load(SeqCst) {
                if let Some(now) = cell.get() {
                    assert_eq!(now.1, now.0.to_string());
                    assert!(now.0 >= before, "went back from {before} to {}", now.0);
                    before = now.0;
                }
            }
        });
        let done: Vec<_> = publishing.into_iter().map(|thread| thread.join()).collect();
        stop.store(true, SeqCst);
        assert!(done.iter().all(Result::is_ok));
    });
    assert_eq!(cell.get().unwrap().0, publishers * rounds);
}
