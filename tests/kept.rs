//! What a partition keeps and what goes: room follows the slowest group, what all have acknowledged stays readable until
//! its place is needed, and nothing that was passed comes back.
mod lab;

use lab::{CAPACITIES, Inbox, Lab, balanced};
use ringlog::{
    Batch, BatchOutcome, Group, GroupConfig, Outcome, PublishError, Record, Retain, SeekTo, Topic, TopicConfig,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

/// A group that acknowledges as far as it is told, and no further.
struct Reader {
    group: Group<u64>,
    upto: Arc<AtomicU64>,
    inbox: Inbox,
}

impl Reader {
    fn new(lab: &Lab, topic: &Topic<u64>, name: &str, config: GroupConfig<u64>) -> Self {
        let group = topic.group(name, config).unwrap();
        let (upto, inbox) = (Arc::new(AtomicU64::new(0)), Inbox::default());
        let (pausing, limit, seen) = (group.clone(), upto.clone(), inbox.clone());
        let handler = move |batch: &Batch<'_, u64>| {
            let allowed = (limit.load(Ordering::Relaxed) - batch.offset()) as usize;
            for record in batch.iter().take(allowed) {
                assert_eq!(*record, value(record.offset()), "the value that was published there");
                seen.note(&record);
            }
            if allowed <= batch.len() {
                pausing.pause();
            }
            BatchOutcome::after(allowed, Outcome::Ack)
        };
        group.pause();
        group.member("m").run(&lab.manual).subscribe_batch(handler).unwrap();
        Reader { group, upto, inbox }
    }

    fn cursor(&self) -> u64 {
        self.group.stats().lanes[0].committed
    }

    /// Acknowledges everything before `to`.
    fn read(&self, lab: &Lab, to: u64) {
        if to > self.cursor() {
            self.upto.store(to, Ordering::Relaxed);
            self.group.resume();
            lab.settle();
        }
        assert_eq!(balanced(&self.group).lanes[0].committed, to);
    }
}

/// What lies at an offset in these tests.
fn value(offset: u64) -> u64 {
    offset * 7 + 1
}

fn publish(topic: &Topic<u64>) -> Result<u64, PublishError<u64>> {
    topic.publish(value(topic.end(0).unwrap())).map(|published| published.offset())
}

/// Publishes until the partition is full; says how many found room.
fn fill(topic: &Topic<u64>) -> u64 {
    (0..).take_while(|_| publish(topic).is_ok()).count() as u64
}

fn topic(lab: &Lab, capacity: usize, retain: Retain) -> Topic<u64> {
    let config = TopicConfig::new().capacity(capacity).retain(retain).block(Some(Duration::ZERO));
    lab.broker.create_topic("orders", config).unwrap()
}

/// Numbers that look thrown.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

// X3, A-20, B-17
#[test]
fn the_slowest_group_alone_decides_how_much_room_there_is() {
    for capacity in CAPACITIES {
        for retain in [Retain::Backlog, Retain::Recent, Retain::Unacked] {
            let (lab, mut dice) = (Lab::new(1), Dice(capacity as u64));
            let topic = topic(&lab, capacity, retain);
            let readers = ["a", "b", "c"].map(|name| Reader::new(&lab, &topic, name, GroupConfig::earliest()));
            assert_eq!(fill(&topic), capacity as u64);
            for _ in 0..40 {
                let (reader, end) = (&readers[dice.below(3) as usize], topic.end(0).unwrap());
                reader.read(&lab, reader.cursor() + dice.below(end - reader.cursor() + 1));
                let least = readers.iter().map(Reader::cursor).min().unwrap();
                assert_eq!(fill(&topic), least + capacity as u64 - end, "a record is done when all three are past it");
                let refused = publish(&topic).unwrap_err();
                let limiting = refused.full().unwrap().limiting.clone().unwrap();
                assert_eq!(limiting.lag, capacity as u64);
                let slowest = readers.iter().find(|reader| reader.group.name() == &*limiting.group).unwrap();
                assert_eq!(slowest.cursor(), least);
            }
        }
    }
}

//
#[test]
fn without_a_group_a_backlog_keeps_everything_for_the_one_that_comes_late() {
    for capacity in CAPACITIES {
        let lab = Lab::new(2);
        let topic = topic(&lab, capacity, Retain::Backlog);
        assert_eq!(fill(&topic), capacity as u64);
        assert_eq!((topic.earliest(0), topic.len(0)), (Some(0), Some(capacity as u64)));
        let late = Reader::new(&lab, &topic, "late", GroupConfig::earliest());
        late.read(&lab, capacity as u64);
        assert_eq!(late.inbox.offsets(0), (0..capacity as u64).collect::<Vec<_>>());
        assert_eq!(fill(&topic), capacity as u64);
        assert!(late.group.delete());
        assert!(publish(&topic).is_err(), "nor is anything let go when the last group has gone");
        let later = Reader::new(&lab, &topic, "later", GroupConfig::earliest());
        later.read(&lab, 2 * capacity as u64);
        assert_eq!(later.inbox.offsets(0), (capacity as u64..2 * capacity as u64).collect::<Vec<_>>());
    }
}

// A-22, C-E1, X19
#[test]
fn what_all_have_acknowledged_can_be_read_again_until_its_room_is_needed() {
    for capacity in CAPACITIES {
        for retain in [Retain::Backlog, Retain::Recent] {
            let lab = Lab::new(3);
            let topic = topic(&lab, capacity, retain);
            let [one, two] = ["one", "two"].map(|name| Reader::new(&lab, &topic, name, GroupConfig::earliest()));
            let full = capacity as u64;
            for end in 1..=full {
                publish(&topic).unwrap();
                if end % 97 == 1 || end == full {
                    one.read(&lab, end);
                    two.read(&lab, end);
                    assert_eq!(topic.earliest(0), Some(0), "acknowledged by everybody, and still there");
                }
            }
            assert_eq!(one.group.seek(0, SeekTo::Earliest), Ok(0));
            assert!(publish(&topic).is_err(), "what is read again is held like what was never read");
            one.inbox.take();
            one.read(&lab, full);
            assert_eq!(one.inbox.offsets(0), (0..full).collect::<Vec<_>>());
            publish(&topic).unwrap();
            let gone = topic.earliest(0).unwrap();
            assert!((1..=(full / 8).max(1)).contains(&gone), "room for one, made an eighth at a time: {gone}");
            assert_eq!(one.group.seek(0, SeekTo::Offset(0)), Ok(gone), "it says where the log begins now");
            one.inbox.take();
            one.read(&lab, full + 1);
            assert_eq!(one.inbox.offsets(0), (gone..=full).collect::<Vec<_>>());
        }
    }
}

//
#[test]
fn nothing_goes_that_some_group_has_not_acknowledged() {
    for capacity in CAPACITIES {
        for retain in [Retain::Backlog, Retain::Recent, Retain::Unacked] {
            let (lab, mut dice) = (Lab::new(4), Dice(capacity as u64 + 9));
            let topic = topic(&lab, capacity, retain);
            let [fast, slow] = ["fast", "slow"].map(|name| Reader::new(&lab, &topic, name, GroupConfig::earliest()));
            for _ in 0..60 {
                fill(&topic);
                fast.read(&lab, topic.end(0).unwrap());
                assert!(topic.earliest(0).unwrap() <= slow.cursor());
                slow.read(&lab, slow.cursor() + dice.below(capacity as u64 + 1));
            }
            let end = topic.end(0).unwrap();
            slow.read(&lab, end);
            assert_eq!(slow.inbox.offsets(0), (0..end).collect::<Vec<_>>(), "each of them, in order");
        }
    }
}

//
#[test]
fn the_earliest_record_never_moves_back_whatever_groups_do() {
    for capacity in CAPACITIES {
        for retain in [Retain::Backlog, Retain::Recent, Retain::Unacked] {
            let (lab, mut dice) = (Lab::new(5), Dice(capacity as u64 + 21));
            let topic = topic(&lab, capacity, retain);
            let mut readers: Vec<Reader> = Vec::new();
            let (mut earliest, mut born) = (0, 0);
            for _ in 0..400 {
                let end = topic.end(0).unwrap();
                match (dice.below(6), dice.below(readers.len().max(1) as u64) as usize) {
                    (0, _) if readers.len() < 3 => {
                        born += 1;
                        let config = GroupConfig::at(dice.below(end + 2));
                        readers.push(Reader::new(&lab, &topic, &born.to_string(), config));
                    }
                    (1, at) if dice.below(3) == 0 && !readers.is_empty() => {
                        assert!(readers.swap_remove(at).group.delete());
                    }
                    (2, at) if !readers.is_empty() => {
                        readers[at].group.seek(0, SeekTo::Offset(dice.below(end + 2))).unwrap();
                    }
                    (3, at) if !readers.is_empty() => readers[at].read(&lab, end),
                    _ => _ = publish(&topic),
                }
                let now = topic.earliest(0).unwrap();
                assert!(earliest <= now, "{retain:?}: from {earliest} back to {now}");
                assert!(now <= topic.end(0).unwrap());
                earliest = now;
            }
        }
    }
}

//
#[test]
fn each_way_to_pass_a_record_wakes_who_waits_for_room() {
    type Way = fn(&Lab, &Group<u64>);
    let ack: Way = |lab, group| {
        group.member("m").run(&lab.manual).subscribe(|_| ()).unwrap();
        lab.manual.run(100_000); // not `settle`: the publisher that is woken publishes meanwhile
    };
    let bury: Way = |lab, group| {
        group.member("m").run(&lab.manual).subscribe(|_: &Record<'_, u64>| Outcome::reject("no")).unwrap();
        lab.manual.run(100_000); // not `settle`: the publisher that is woken publishes meanwhile
    };
    let seek: Way = |_, group| _ = group.seek(0, SeekTo::Offset(1)).unwrap();
    let delete: Way = |_, group| assert!(group.delete());
    for capacity in [1, 2, 3, 4, 64] {
        for way in [ack, bury, seek, delete] {
            let lab = Lab::new(6);
            // On this clock nobody looks again by chance.
            let config = TopicConfig::new().capacity(capacity).block(None);
            let topic = lab.broker.create_topic("orders", config).unwrap();
            let group = topic.group("g", GroupConfig::earliest()).unwrap();
            (0..capacity as u64).for_each(|n| assert!(topic.publish(n).is_ok()));
            let (tell, told) = mpsc::channel();
            let waiting = topic.clone();
            thread::spawn(move || tell.send(waiting.publish(99).map(|published| published.offset())));
            lab.clock.wait_for_sleepers(1);
            way(&lab, &group);
            let woken = told.recv_timeout(LONG).expect("nobody woke the publisher");
            assert_eq!(woken.unwrap(), capacity as u64);
        }
    }
}

//
#[test]
fn a_partition_shows_where_it_begins_and_ends_and_how_many_it_keeps() {
    for capacity in CAPACITIES {
        let lab = Lab::new(7);
        let topic = topic(&lab, capacity, Retain::Unacked);
        let shown = || [topic.earliest(0), topic.end(0), topic.len(0)].map(Option::unwrap);
        assert_eq!(shown(), [0, 0, 0]);
        let reader = Reader::new(&lab, &topic, "g", GroupConfig::earliest());
        let full = capacity as u64;
        assert_eq!(fill(&topic), full);
        assert_eq!(shown(), [0, full, full]);
        reader.read(&lab, 1);
        assert_eq!(shown(), [1, full, full - 1]);
        publish(&topic).unwrap();
        assert_eq!(shown(), [1, full + 1, full]);
        reader.read(&lab, full + 1);
        assert_eq!(shown(), [full + 1, full + 1, 0]);
        lab.broker.close(Some(Duration::ZERO));
        assert!(topic.is_closed());
        assert_eq!(shown(), [full + 1, full + 1, 0], "closed, it can still be asked");
    }
}

// B-2
#[test]
fn what_is_kept_is_one_run_of_offsets_up_to_the_end() {
    for capacity in CAPACITIES {
        let lab = Lab::new(8);
        let topic = topic(&lab, capacity, Retain::Recent);
        let mut end = 0;
        for more in [1, capacity, 1, capacity / 2 + 1, 3] {
            for _ in 0..more {
                assert_eq!(publish(&topic).unwrap(), end, "it grows at its end only");
                end += 1;
            }
            let (earliest, last) = (topic.earliest(0).unwrap(), topic.end(0).unwrap());
            assert!((earliest, last) == (end - topic.len(0).unwrap(), end) && last - earliest <= capacity as u64);
            let step = (last - earliest) as usize / 8 + 1;
            for from in (earliest..=last).step_by(step) {
                let reader = Reader::new(&lab, &topic, "probe", GroupConfig::at(from));
                assert_eq!(reader.cursor(), from);
                reader.read(&lab, last);
                assert_eq!(reader.inbox.offsets(0), (from..last).collect::<Vec<_>>());
                assert!(reader.group.delete());
            }
        }
    }
}
