//! Topics that drop their oldest record: what goes, who hears of it, where, and how it is counted. Single-stepped, where
//! nothing has to be stuck.
mod in_hand;
#[path = "../lab/mod.rs"]
mod lab;

use lab::{Lab, balanced};
use ringlog::{Batch, Gap, Group, GroupConfig, Member, Record, Retain, SeekTo, Topic, TopicConfig};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const CAPACITIES: [u64; 5] = [1, 2, 3, 4, 1_024];

fn lossy(lab: &Lab, capacity: u64) -> Topic<u64> {
    lab.broker.create_topic("ticks", TopicConfig::new().capacity(capacity as usize).drop_oldest()).unwrap()
}

/// What a group saw, in order.
#[derive(Clone, Debug, PartialEq)]
enum Seen {
    Record { offset: u64, attempt: u32, lost_before: u64 },
    Lost { from: u64, to: u64, overwritten: u64 },
}

#[derive(Clone, Default)]
struct Watch(Arc<Mutex<Vec<Seen>>>);

impl Watch {
    fn gap(&self, gap: &Gap) {
        assert_eq!((gap.lost(), gap.expired), (gap.overwritten, 0));
        self.0.lock().unwrap().push(Seen::Lost { from: gap.from, to: gap.to, overwritten: gap.overwritten });
    }

    fn record(&self, record: &Record<'_, u64>) {
        assert_eq!(**record, record.offset(), "records hold their offsets");
        let (offset, attempt, lost_before) = (record.offset(), record.attempt(), record.lost_before());
        self.0.lock().unwrap().push(Seen::Record { offset, attempt, lost_before });
    }

    fn config(&self) -> GroupConfig<u64> {
        let watch = self.clone();
        GroupConfig::earliest().on_gap(move |gap| watch.gap(gap))
    }

    fn join(&self, group: &Group<u64>, name: &str, lab: &Lab) -> Member<u64> {
        let watch = self.clone();
        group.member(name).run(&lab.manual).subscribe(move |record| watch.record(record)).unwrap()
    }

    fn take(&self) -> Vec<Seen> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

const fn lost(from: u64, to: u64) -> Seen {
    Seen::Lost { from, to, overwritten: to - from }
}

/// The records from `from` on, of which the first has a gap of `lost_before` before it.
fn records(from: u64, to: u64, lost_before: u64) -> impl Iterator<Item = Seen> {
    let before = move |offset| if offset == from { lost_before } else { 0 };
    (from..to).map(move |offset| Seen::Record { offset, attempt: 1, lost_before: before(offset) })
}

/// Publishes as many more; none of them is refused, and none waits.
fn publish(topic: &Topic<u64>, more: u64) {
    let next = topic.end(0).unwrap();
    for n in next..next + more {
        assert_eq!(topic.publish(n).unwrap().offset(), n, "dense");
    }
    assert_eq!((topic.counts().blocked, topic.counts().rejected), (0, 0));
}

fn dropped(topic: &Topic<u64>) -> u64 {
    topic.partition_stats(0).unwrap().dropped
}

// X27, X18, A-52
#[test]
fn a_full_partition_sheds_exactly_one_record_for_each_publish() {
    for capacity in CAPACITIES {
        for retain in [Retain::Recent, Retain::Backlog] {
            let lab = Lab::new(0);
            let config = TopicConfig::new().capacity(capacity as usize).retain(retain).drop_oldest();
            let topic = lab.broker.create_topic("ticks", config).unwrap();
            for n in 0..3 * capacity + 2 {
                publish(&topic, 1);
                let stats = topic.partition_stats(0).unwrap();
                let shed = (n + 1).saturating_sub(capacity);
                assert_eq!((stats.earliest, stats.end, stats.dropped, stats.expired), (shed, n + 1, shed, 0));
                assert_eq!((stats.retained(), topic.len(0)), (n + 1 - shed, Some(n + 1 - shed)));
                assert_eq!((stats.blocked, stats.rejected), (0, 0));
            }
        }
    }
}

// A-46, X27
#[test]
fn an_exclusive_producer_sheds_likewise_whatever_way_it_publishes() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let config = TopicConfig::new().capacity(capacity as usize).drop_oldest();
        let (topic, mut producer) = lab.broker.create_exclusive("ticks", config).unwrap();
        let watch = Watch::default();
        let group = topic.group("g", watch.config()).unwrap();
        watch.join(&group, "m", &lab);
        for n in 0..capacity {
            producer.publish(n).unwrap();
        }
        producer.publish_batch(capacity..2 * capacity).unwrap();
        producer.publish_in_place(0, || 0, |slot| *slot = 2 * capacity).unwrap();
        let gone = capacity + 1;
        assert_eq!((topic.earliest(0), dropped(&topic)), (Some(gone), gone));
        lab.settle();
        let expected: Vec<_> = [lost(0, gone)].into_iter().chain(records(gone, gone + capacity, gone)).collect();
        assert_eq!(watch.take(), expected);
        assert_eq!((balanced(&group).skipped(), group.lag()), (gone, 0));
    }
}

// A-T14, A-46, A-55, A-50, X27, B-E3
#[test]
fn a_slow_group_is_taken_to_the_earliest_record_and_counts_what_it_missed() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lossy(&lab, capacity);
        let watch = Watch::default();
        let group = topic.group("slow", watch.config()).unwrap();
        publish(&topic, capacity);
        assert_eq!((balanced(&group).skipped(), group.lag()), (0, capacity));
        publish(&topic, 3);
        assert_eq!((balanced(&group).skipped(), group.lag()), (3, capacity), "at once, noticed or not");
        watch.join(&group, "m", &lab);
        lab.settle();
        assert_eq!(watch.take(), [lost(0, 3)].into_iter().chain(records(3, capacity + 3, 3)).collect::<Vec<_>>());
        let stats = balanced(&group);
        assert_eq!((stats.skipped(), stats.expired(), stats.acked(), stats.lag()), (3, 0, capacity, 0));
        assert_eq!(dropped(&topic), 3);
        publish(&topic, 1);
        lab.settle();
        assert_eq!(watch.take(), records(capacity + 3, capacity + 4, 0).collect::<Vec<_>>(), "it has caught up");
        assert_eq!(
            (balanced(&group).skipped(), dropped(&topic)),
            (3, 3),
            "what all have done is reclaimed, not dropped"
        );
    }
}

// X27, A-37, A-6
#[test]
fn each_group_counts_its_own_losses_and_the_partition_counts_each_record_once() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lossy(&lab, capacity);
        let [fast, slow, idle] = ["fast", "slow", "idle"].map(|name| {
            let watch = Watch::default();
            (topic.group(name, watch.config()).unwrap(), watch)
        });
        fast.1.join(&fast.0, "m", &lab);
        for _ in 0..2 * capacity + 1 {
            publish(&topic, 1);
            lab.settle();
        }
        slow.1.join(&slow.0, "m", &lab);
        lab.settle();
        let skips = |group: &Group<u64>| balanced(group).skipped();
        let gone = capacity + 1;
        assert_eq!([skips(&fast.0), skips(&slow.0), skips(&idle.0)], [0, gone, gone]);
        assert_eq!(dropped(&topic), gone);
        idle.0.delete();
        for _ in 0..capacity {
            publish(&topic, 1);
            lab.settle();
        }
        assert_eq!([skips(&fast.0), skips(&slow.0)], [0, gone], "who keeps up loses nothing");
        assert_eq!(dropped(&topic), gone, "and what everybody has done is not dropped");
    }
}

// X27: without a group nobody has done it
#[test]
fn what_goes_while_there_is_no_group_is_dropped_and_a_late_group_misses_nothing_of_its_own() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lossy(&lab, capacity);
        publish(&topic, capacity + 5);
        assert_eq!(dropped(&topic), 5);
        let watch = Watch::default();
        let group = topic.group("late", watch.config()).unwrap();
        watch.join(&group, "m", &lab);
        lab.settle();
        assert_eq!(watch.take(), records(5, capacity + 5, 0).collect::<Vec<_>>(), "it began at the earliest record");
        assert_eq!(balanced(&group).lanes[0].start, 5);
        group.delete();
        publish(&topic, capacity);
        assert_eq!(dropped(&topic), 5, "the last group had it done");
        publish(&topic, capacity);
        assert_eq!(dropped(&topic), 5 + capacity, "and this nobody has had");
    }
}

// B-10, B-15, X2, X4
#[test]
fn what_all_groups_have_done_is_gone_on_a_topic_that_keeps_nothing_else() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let config = TopicConfig::new().capacity(capacity as usize).retain(Retain::Unacked).drop_oldest();
        let topic = lab.broker.create_topic("ticks", config).unwrap();
        assert!(!topic.publish(0).unwrap().kept, "nobody listens");
        assert_eq!((topic.earliest(0), topic.len(0)), (Some(1), Some(0)));
        let watch = Watch::default();
        let group = topic.group("g", watch.config()).unwrap();
        assert!(topic.publish(1).unwrap().kept);
        assert_eq!((topic.earliest(0), topic.len(0)), (Some(1), Some(1)));
        watch.join(&group, "m", &lab);
        lab.settle();
        assert_eq!((topic.earliest(0), topic.len(0)), (Some(2), Some(0)));
        publish(&topic, capacity + 2);
        assert_eq!((topic.earliest(0), topic.len(0)), (Some(4), Some(capacity)));
        lab.settle();
        assert_eq!((balanced(&group).skipped(), topic.len(0)), (2, Some(0)));
    }
}

// X27
#[test]
fn batches_are_told_what_is_missing_before_them() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lossy(&lab, capacity);
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = seen.clone();
        let handler = move |batch: &Batch<'_, u64>| {
            let missing = batch.lost_before();
            noted.lock().unwrap().push((batch.offset(), missing));
            assert_eq!(batch.get(0).lost_before(), missing);
            assert!(batch.iter().skip(1).all(|record| record.lost_before() == 0));
        };
        group.member("m").run(&lab.manual).subscribe_batch(handler).unwrap();
        publish(&topic, capacity + 7);
        lab.settle();
        let seen = seen.lock().unwrap();
        assert_eq!(seen[0], (7, 7));
        assert!(seen[1..].iter().all(|(_, missing)| *missing == 0));
    }
}

//
#[test]
fn a_paused_group_loses_and_is_told_when_it_reads_on() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lossy(&lab, capacity);
        let watch = Watch::default();
        let group = topic.group("g", watch.config()).unwrap();
        watch.join(&group, "m", &lab);
        publish(&topic, 1);
        lab.settle();
        group.pause();
        let mut before = 0;
        for more in 1..2 * capacity + 3 {
            publish(&topic, 1);
            lab.settle();
            let stats = balanced(&group);
            assert_eq!((stats.lag(), stats.skipped()), (more.min(capacity), more.saturating_sub(capacity)));
            assert!(stats.skipped() >= before, "it only grows");
            before = stats.skipped();
        }
        assert_eq!(watch.take(), records(0, 1, 0).collect::<Vec<_>>());
        group.resume();
        lab.settle();
        let (from, end) = (capacity + 3, 2 * capacity + 3);
        assert_eq!(watch.take(), [lost(1, from)].into_iter().chain(records(from, end, from - 1)).collect::<Vec<_>>());
    }
}

//
#[test]
fn a_loss_without_a_member_is_told_to_the_next_one_once() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lossy(&lab, capacity);
        let watch = Watch::default();
        let group = topic.group("g", watch.config()).unwrap();
        let first = watch.join(&group, "a", &lab);
        lab.settle();
        assert!(first.leave());
        lab.settle();
        publish(&topic, capacity + 2);
        assert!(lab.broker.drain(Duration::ZERO).is_ok(), "a lane without a member holds up no drain");
        assert_eq!((balanced(&group).skipped(), group.lag()), (2, capacity));
        let second = watch.join(&group, "b", &lab);
        lab.settle();
        assert_eq!(watch.take(), [lost(0, 2)].into_iter().chain(records(2, capacity + 2, 2)).collect::<Vec<_>>());
        publish(&topic, capacity + 1);
        assert!(lab.manual.kill("g", "b"));
        second.leave();
        watch.join(&group, "c", &lab);
        lab.settle();
        let (from, end) = (capacity + 3, 2 * capacity + 3);
        assert_eq!(
            watch.take(),
            [lost(capacity + 2, from)].into_iter().chain(records(from, end, 1)).collect::<Vec<_>>()
        );
        assert_eq!(balanced(&group).skipped(), 3);
    }
}

// X33
#[test]
fn a_seek_counts_what_it_passes_and_tells_nobody() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lossy(&lab, capacity);
        let watch = Watch::default();
        let group = topic.group("g", watch.config()).unwrap();
        publish(&topic, capacity + 2);
        assert_eq!(group.seek(0, SeekTo::Offset(0)), Ok(2), "what is gone does not come back");
        assert_eq!((balanced(&group).skipped(), group.lag()), (2, capacity));
        assert_eq!(dropped(&topic), 2);
        watch.join(&group, "m", &lab);
        lab.settle();
        assert_eq!(watch.take(), records(2, capacity + 2, 0).collect::<Vec<_>>());
        assert_eq!(group.seek(0, SeekTo::Earliest), Ok(2));
        publish(&topic, 1);
        assert_eq!((balanced(&group).replayed(), balanced(&group).skipped()), (capacity, 3), "lost once more");
        assert_eq!(group.seek(0, SeekTo::Latest), Ok(capacity + 3));
        assert_eq!((balanced(&group).skipped(), group.lag()), (capacity + 3, 0));
        lab.settle();
        assert_eq!(watch.take(), []);
    }
}

// A-69, C-30
#[test]
fn a_group_without_members_holds_nobody_up_and_the_account_says_what_it_missed() {
    for capacity in CAPACITIES {
        let lab = Lab::new(0);
        let topic = lossy(&lab, capacity);
        let (manned, unmanned) = (Watch::default(), Watch::default());
        let group = topic.group("manned", manned.config()).unwrap();
        topic.group("unmanned", unmanned.config()).unwrap();
        manned.join(&group, "m", &lab);
        publish(&topic, 5 * capacity);
        lab.settle();
        assert!(lab.broker.drain(Duration::ZERO).is_ok());
        let account = lab.broker.close(Some(Duration::ZERO));
        let left = account.group("ticks", "unmanned").unwrap();
        assert_eq!((left.acked(), left.skipped(), left.lag()), (0, 4 * capacity, capacity));
        assert_eq!((account.skipped(), account.expired()), (8 * capacity, 0));
        let said = account.to_string();
        assert!(said.contains(&format!("{capacity} left, {} skipped, 0 expired", 8 * capacity)), "{said}");
    }
}

// B-E3, A-32
#[test]
fn of_block_and_drop_oldest_what_was_said_last_counts() {
    let lab = Lab::new(0);
    let config = || TopicConfig::<u64>::new().capacity(1);
    let dropping = lab.broker.create_topic("a", config().block(None).drop_oldest()).unwrap();
    let blocking = lab.broker.create_topic("b", config().drop_oldest().block(Some(Duration::ZERO))).unwrap();
    for topic in [&dropping, &blocking] {
        topic.group("g", GroupConfig::earliest()).unwrap();
        topic.publish(1).unwrap();
    }
    assert!(dropping.publish(2).is_ok());
    assert!(blocking.publish(2).is_err());
}
