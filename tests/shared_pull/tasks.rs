//! A task queue by polls, as one would use it: one group, workers that each take a task, each task acknowledged by itself, and
//! visible again when whoever took it has not said so in time.

use super::lab::Lab;
use super::{drain, figures, filled, queue};
use ringlog::{Consumer, Failure, FencedBy, Group, Receipt, Retry, SettleError};
use std::time::Duration;

const LEASE: Duration = Duration::from_secs(30);

/// The next task, with how often it has been tried.
fn take(worker: &mut Consumer<u64>) -> (u64, u32, Receipt) {
    let batch = worker.try_poll(1).unwrap();
    let task = batch.get(0).unwrap();
    (*task, task.attempt(), batch.detach())
}

/// Stragglers, and the member who has what the cursor waits for.
fn stragglers(group: &Group<u64>) -> u64 {
    group.stats().lanes[0].stragglers
}

// B-E5, X8: "individual"
#[test]
fn each_task_is_one_worker_s_acknowledged_out_of_order_and_visible_again_when_its_lease_is_over() {
    let lab = Lab::new(1);
    let retry = Retry::constant(2, Duration::ZERO);
    let (_topic, group) = filled(&lab, queue().retry(retry).lease(LEASE), 6);
    let mut workers: Vec<_> = ["a", "b", "c"].map(|name| group.consumer(name).unwrap()).into();
    // One group: each task is handed to one of them.
    let mut taken: Vec<_> = (0..6).map(|nth| take(&mut workers[nth % 3])).collect();
    assert_eq!(
        taken.iter().map(|(task, attempt, _)| (*task, *attempt)).collect::<Vec<_>>(),
        [0, 1, 2, 3, 4, 5].map(|n| (n, 1))
    );
    assert!(workers.iter_mut().all(|worker| worker.try_poll(1).unwrap().is_empty()), "nobody gets it beside");
    // Out of order, and each by itself: what is before it stays in flight, and keeps its place.
    for nth in [5, 3, 1] {
        taken.remove(nth).2.ack().unwrap();
    }
    assert_eq!((figures(&group), stragglers(&group)), ((0, 3, 3, 3), 3));
    // One fails, and is somebody else's at once; what the others have is theirs.
    taken.remove(1).2.nack(Failure::new("no")).unwrap();
    let (task, attempt, second) = take(&mut workers[0]);
    assert_eq!((task, attempt), (2, 2));
    second.ack().unwrap();
    let late = taken.remove(0).2;
    taken.remove(0).2.ack().unwrap();
    assert_eq!((figures(&group), stragglers(&group)), ((0, 1, 5, 1), 1), "the cursor waits for the first alone");
    // Whoever has it says nothing in time: it is visible again, to another worker, and the late one changes nothing.
    lab.clock.advance(LEASE);
    assert_eq!(drain(&mut workers[1]), [(0, 2)]);
    let Err(SettleError::Fenced { reason, .. }) = late.ack() else { panic!("it was another's") };
    assert_eq!((reason, figures(&group)), (FencedBy::Expired, (6, 0, 6, 0)));
    let stats = group.stats();
    assert_eq!((stats.leases_expired(), stats.retried(), stats.refused(), stats.dead()), (1, 2, 1, 0));
}

// B-E5: what nobody can do is given up, with a letter, and holds up nobody.
#[test]
fn a_task_that_every_worker_fails_or_forgets_is_given_up_and_the_others_are_done() {
    let lab = Lab::new(1);
    let (_topic, group) = filled(&lab, queue().retry(Retry::constant(2, Duration::ZERO)).lease(LEASE), 3);
    let (mut one, mut two) = (group.consumer("one").unwrap(), group.consumer("two").unwrap());
    take(&mut one).2.nack(Failure::new("no")).unwrap();
    let (task, attempt, forgotten) = take(&mut two);
    assert_eq!((task, attempt), (0, 2));
    forgotten.leave_in_flight();
    assert_eq!(drain(&mut one), [(1, 1), (2, 1)]);
    assert_eq!(figures(&group), (0, 1, 2, 1));
    lab.clock.advance(LEASE);
    let letters = group.letters();
    assert_eq!((letters.len(), letters[0].offset(), letters[0].attempts(), letters[0].kind()), (1, 0, 2, "expired"));
    assert_eq!((figures(&group), drain(&mut two)), ((3, 0, 2, 0), Vec::new()));
}
