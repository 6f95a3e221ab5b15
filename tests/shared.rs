//! Order shared: a work queue, single-stepped on a manual clock.
mod lab;

use lab::{CAPACITIES, Inbox, Lab, balanced};
use ringlog::{
    BatchOutcome, Delivery, Group, GroupConfig, GroupError, Order, Outcome, Pick, Position, Record, Retain, Retry,
    SeekTo, Standing, TopicConfig,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn at(offset: u64) -> Position {
    Position { partition: 0, offset }
}

fn queue() -> GroupConfig<u64> {
    GroupConfig::earliest().order(Order::Shared)
}

/// Adds a member that notes what it sees and says what `answer` makes of it.
fn join(
    lab: &Lab,
    group: &Group<u64>,
    name: &str,
    answer: impl Fn(&Record<'_, u64>) -> Outcome + Send + 'static,
) -> Inbox {
    let inbox = Inbox::default();
    let seen = inbox.clone();
    let handler = move |record: &Record<'_, u64>| {
        seen.note(record);
        answer(record)
    };
    group.member(name).run(&lab.manual).subscribe(handler).unwrap();
    inbox
}

fn sorted(inboxes: &[Inbox]) -> Vec<u64> {
    let mut all: Vec<u64> = inboxes.iter().flat_map(|inbox| inbox.offsets(0)).collect();
    all.sort_unstable();
    all
}

// B-E5
#[test]
fn members_share_a_partition_and_each_record_is_handed_over_once() {
    for (seed, capacity) in (1..).zip(CAPACITIES) {
        let lab = Lab::new(seed);
        let topic = lab.topic(1, capacity);
        let group = topic.group("g", queue()).unwrap();
        let inboxes = ["a", "b", "c"].map(|name| join(&lab, &group, name, |_| Outcome::Ack));
        lab.feed(&topic, 0, 0..300);
        lab.settle();
        assert_eq!(sorted(&inboxes), (0..300).collect::<Vec<_>>());
        assert!(capacity < 3 || inboxes.iter().all(|inbox| inbox.len() > 0), "somebody got nothing");
        let stats = balanced(&group);
        assert_eq!((stats.acked(), stats.lag(), stats.lanes[0].committed, stats.refused()), (300, 0, 300, 0));
    }
}

// B-31, X7, X8: done one by one, in whatever order
#[test]
fn a_record_that_fails_holds_up_nobody_and_comes_again_when_its_wait_is_over() {
    for capacity in CAPACITIES {
        let lab = Lab::new(capacity as u64);
        let topic = lab.topic(1, capacity);
        let config = queue().retry(Retry::constant(3, ms(10))).bury_cloned();
        let group = topic.group("g", config).unwrap();
        let fails = |record: &Record<'_, u64>| if **record == 1 { Outcome::retry("no") } else { Outcome::Ack };
        let inboxes = ["a", "b"].map(|name| join(&lab, &group, name, fails));
        lab.feed(&topic, 0, 0..2.min(capacity as u64 + 1));
        lab.settle();
        lab.feed(&topic, 0, 2..(capacity as u64 + 1).clamp(2, 40));
        lab.settle();
        let stats = balanced(&group);
        assert_eq!((stats.lanes[0].committed, stats.lag(), stats.retried()), (1, 1, 1), "all others are done");
        let delivery = group.delivery(at(1)).unwrap();
        assert_eq!(delivery, Delivery::RetryScheduled { attempts: 1, wait: ms(10) });
        assert_eq!(group.standing(0).unwrap(), Standing::Retrying { attempts: 1, wait: ms(10) });
        lab.clock.advance(ms(10) - Duration::from_nanos(1));
        lab.settle();
        assert_eq!(balanced(&group).retried(), 1, "not before its time");
        lab.finish();
        let mut tries: Vec<_> = inboxes.iter().flat_map(Inbox::take).filter(|seen| seen.1 == 1).collect();
        tries.sort_unstable();
        assert_eq!(tries, [(0, 1, 1), (0, 1, 2), (0, 1, 3)]);
        let stats = balanced(&group);
        assert_eq!((stats.dead(), stats.lag(), stats.retried()), (1, 0, 2));
        let letters = group.letters();
        assert_eq!((letters[0].offset(), letters[0].attempts(), letters[0].payload::<u64>()), (1, 3, Some(&1)));
        assert_eq!(group.delivery(at(1)).unwrap(), Delivery::Dead);
    }
}

#[test]
fn what_is_rejected_is_buried_at_once_and_comes_back_when_it_is_redriven() {
    let lab = Lab::new(3);
    let topic = lab.topic(1, 64);
    let group = topic.group("g", queue().bury_cloned()).unwrap();
    let open = Arc::new(Mutex::new(false));
    let inboxes = ["a", "b"].map(|name| {
        let open = open.clone();
        let answer = move |record: &Record<'_, u64>| match **record % 5 {
            0 if !*open.lock().unwrap() => Outcome::reject("no"),
            _ => Outcome::Ack,
        };
        join(&lab, &group, name, answer)
    });
    lab.feed(&topic, 0, 0..20);
    lab.settle();
    assert_eq!((balanced(&group).dead(), balanced(&group).acked(), group.lag()), (4, 16, 0));
    *open.lock().unwrap() = true;
    assert_eq!(group.redrive(Pick::all()).unwrap().queued, 4);
    lab.settle();
    let stats = balanced(&group);
    assert_eq!((stats.acked(), stats.dead(), stats.replayed(), group.letters().len()), (20, 4, 4, 0));
    assert_eq!(sorted(&inboxes).len(), 24);
}

#[test]
fn a_panic_is_a_failure_of_its_record_alone() {
    let lab = Lab::new(9);
    let topic = lab.topic(1, 64);
    let group = topic.group("g", queue().retry(Retry::never())).unwrap();
    let inboxes = ["a", "b"].map(|name| join(&lab, &group, name, |_| Outcome::Ack));
    lab.manual.panic_at("g", 0, 7);
    lab.feed(&topic, 0, 0..20);
    lab.settle();
    assert_eq!((balanced(&group).dead(), balanced(&group).acked()), (1, 19));
    assert_eq!((group.letters()[0].offset(), group.letters()[0].kind()), (7, "panic"));
    assert_eq!(sorted(&inboxes).len(), 19);
}

#[test]
fn a_batch_of_which_nobody_knows_what_failed_comes_again_one_by_one() {
    let lab = Lab::new(4);
    let topic = lab.topic(1, 64);
    let group = topic.group("g", queue().retry(Retry::never())).unwrap();
    let sizes = Arc::new(Mutex::new(Vec::new()));
    for name in ["a", "b"] {
        let sizes = sizes.clone();
        let handler = move |batch: &ringlog::Batch<'_, u64>| {
            sizes.lock().unwrap().push((batch.len(), batch.iter().any(|record| *record == 5)));
            let fails = batch.iter().any(|record| *record == 5);
            if fails { Err("five") } else { Ok(()) }
        };
        group.member(name).run(&lab.manual).subscribe_batch(handler).unwrap();
    }
    lab.feed(&topic, 0, 0..20);
    lab.settle();
    let stats = balanced(&group);
    assert_eq!((stats.acked(), stats.dead(), group.letters()[0].offset()), (19, 1, 5));
    assert!(sizes.lock().unwrap().contains(&(1, true)));
    let named = topic.group("named", queue().retry(Retry::never())).unwrap();
    let first_done = |_: &ringlog::Batch<'_, u64>| BatchOutcome::after(1, Outcome::reject("the second"));
    named.member("m").run(&lab.manual).subscribe_batch(first_done).unwrap();
    lab.settle();
    assert_eq!(balanced(&named).lag(), 0);
    assert_eq!(balanced(&named).acked() + balanced(&named).dead(), 20);
}

#[test]
fn paused_nothing_is_handed_over_and_resumed_everything_is() {
    let lab = Lab::new(5);
    let topic = lab.topic(2, 64);
    let group = topic.group("g", queue()).unwrap();
    let inboxes = ["a", "b"].map(|name| join(&lab, &group, name, |_| Outcome::Ack));
    group.pause();
    lab.feed(&topic, 0, 0..10);
    lab.feed(&topic, 1, 0..10);
    lab.settle();
    assert_eq!(inboxes.iter().map(Inbox::len).sum::<usize>(), 0);
    group.pause_partition(1).unwrap();
    group.resume();
    lab.settle();
    assert_eq!((balanced(&group).acked(), group.lag_of(1).unwrap()), (10, 10));
    group.resume_partition(1).unwrap();
    lab.settle();
    assert_eq!(balanced(&group).acked(), 20);
}

// A member stops in the middle of its run when its group is paused by its own handler; the rest goes back.
#[test]
fn what_a_paused_member_has_not_begun_is_given_back() {
    let lab = Lab::new(5);
    let topic = lab.topic(1, 64);
    let group = topic.group("g", queue()).unwrap();
    let control = group.clone();
    let inbox = join(&lab, &group, "a", move |record| {
        if **record == 0 {
            control.pause();
        }
        Outcome::Ack
    });
    lab.feed(&topic, 0, 0..10);
    lab.settle();
    assert!(inbox.len() <= 2, "one more at most");
    let done = inbox.len() as u64;
    assert_eq!(
        (balanced(&group).acked(), balanced(&group).lag(), balanced(&group).lanes[0].in_flight),
        (done, 10 - done, 0)
    );
    group.resume();
    lab.settle();
    assert_eq!((sorted(&[inbox]), balanced(&group).retried()), ((0..10).collect(), 0));
}

#[test]
fn a_seek_moves_the_queue_and_the_books_stay_right() {
    for seed in 1..20 {
        let lab = Lab::new(seed);
        let topic = lab.topic(1, 64);
        let group = topic.group("g", queue().retry(Retry::constant(9, ms(5)))).unwrap();
        let fails = |record: &Record<'_, u64>| match (**record % 7, record.attempt()) {
            (3, 1) => Outcome::retry("once"),
            _ => Outcome::Ack,
        };
        let inboxes = ["a", "b"].map(|name| join(&lab, &group, name, fails));
        lab.feed(&topic, 0, 0..30);
        lab.manual.run(seed as usize * 3);
        let committed = balanced(&group).lanes[0].committed;
        let to = [0, committed, committed + 2, 29, 30][seed as usize % 5];
        assert_eq!(group.seek(0, SeekTo::Offset(to)).unwrap(), to);
        balanced(&group);
        lab.finish();
        let stats = balanced(&group);
        assert_eq!((stats.lag(), stats.lanes[0].committed), (0, 30));
        let seen: std::collections::BTreeSet<u64> = sorted(&inboxes).into_iter().collect();
        assert!((to..30).all(|offset| seen.contains(&offset)), "from there on, all of them");
    }
}

#[test]
fn a_deleted_queue_acknowledges_nothing_and_holds_nobody_back() {
    let lab = Lab::new(6);
    let topic = lab.topic(1, 4);
    let group = topic.group("g", queue()).unwrap();
    let control = group.clone();
    let inbox = join(&lab, &group, "a", move |_| {
        control.delete();
        Outcome::Ack
    });
    lab.feed(&topic, 0, 0..4);
    lab.settle();
    assert_eq!((inbox.len(), balanced(&group).acked(), balanced(&group).refused()), (1, 0, 1));
    (0..8).for_each(|value| topic.publish(value).map(drop).unwrap());
}

#[test]
fn a_member_that_leaves_gives_back_what_it_has_not_begun() {
    let lab = Lab::new(2);
    let topic = lab.topic(1, 64);
    let group = topic.group("g", queue()).unwrap();
    let handle: Arc<Mutex<Option<ringlog::Member<u64>>>> = Arc::default();
    let own = handle.clone();
    let member = group.member("a").run(&lab.manual).subscribe(move |_| {
        if let Some(member) = own.lock().unwrap().take() {
            member.leave();
        }
    });
    *handle.lock().unwrap() = Some(member.unwrap());
    lab.feed(&topic, 0, 0..20);
    lab.settle();
    let done = balanced(&group).acked();
    assert!((1..=2).contains(&done), "{done}");
    let other = join(&lab, &group, "b", |_| Outcome::Ack);
    lab.settle();
    assert_eq!((other.len() as u64, balanced(&group).lag(), balanced(&group).retried()), (20 - done, 0, 0));
    assert!(lab.manual.kill("g", "b"));
    lab.feed(&topic, 0, 0..5);
    lab.settle();
    assert_eq!((balanced(&group).lag(), group.standing(0).unwrap()), (5, Standing::NoMember));
}

#[test]
fn on_a_topic_that_may_lose_records_there_is_no_queue() {
    let lab = Lab::new(1);
    let lossy = lab.broker.create_topic("lossy", TopicConfig::<u64>::new().drop_oldest()).unwrap();
    assert!(matches!(lossy.group("g", queue()), Err(GroupError::Sheds { .. })));
    let aged = lab.broker.create_topic("aged", TopicConfig::<u64>::new().max_age(LONG)).unwrap();
    assert!(matches!(aged.group("g", queue()), Err(GroupError::Sheds { .. })));
}

struct Counted(Arc<std::sync::atomic::AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
}

#[test]
fn where_done_records_are_dropped_at_once_they_are_as_soon_as_the_cursor_is_past() {
    let (lab, gone) = (Lab::new(8), Arc::new(std::sync::atomic::AtomicUsize::new(0)));
    let config = TopicConfig::new().capacity(64).retain(Retain::Unacked);
    let topic = lab.broker.create_topic("prompt", config).unwrap();
    let config = GroupConfig::earliest().order(Order::Shared).retry(Retry::constant(2, ms(1)));
    let group = topic.group("g", config).unwrap();
    for name in ["a", "b"] {
        let answer = |record: &Record<'_, Counted>| match (record.offset(), record.attempt()) {
            (4, 1) => Outcome::retry("once"),
            _ => Outcome::Ack,
        };
        group.member(name).run(&lab.manual).subscribe(answer).unwrap();
    }
    let dropped = || gone.load(std::sync::atomic::Ordering::SeqCst);
    (0..10).for_each(|_| topic.publish(Counted(Arc::clone(&gone))).map(drop).unwrap());
    lab.settle();
    assert_eq!((dropped(), group.lag()), (4, 1));
    lab.finish();
    assert_eq!((dropped(), group.lag()), (10, 0));
    assert!(group.stats().balances());
}
