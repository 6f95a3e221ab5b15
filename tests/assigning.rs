//! Who gets which partition, by whose rule, and what a rule may do and may not.

use ringlog::{
    Assignor, Broker, BrokerConfig, Deal, Failure, Group, GroupConfig, GroupError, Ids, Manual, ManualClock, Member,
    Outcome, Overflow, Record, Retry, RoundRobinAssignor, SequentialIds, StickyAssignor, SubscriptionError, Topic,
    TopicConfig,
};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Barrier, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

fn topic(partitions: u32) -> (Broker, Topic<u64>) {
    let broker = Broker::new();
    let topic = broker.create_topic("orders", TopicConfig::new().partitions(partitions).capacity(4)).unwrap();
    (broker, topic)
}

fn member(group: &Group<u64>, manual: &Manual, name: &str) -> Member<u64> {
    group.member(name).run(manual).subscribe(|_| ()).unwrap()
}

fn deal(group: &Group<u64>) -> Vec<Vec<u32>> {
    group.assignment().into_iter().map(|of| of.partitions).collect()
}

// X11, A-61
#[test]
fn each_group_has_its_own_rule_and_round_robin_in_join_order_is_the_one_by_default() {
    let (_broker, topic) = topic(5);
    let manual = Manual::new(1);
    let plain = topic.group("plain", GroupConfig::earliest()).unwrap();
    let sticky = topic.group("sticky", GroupConfig::earliest().assignor(StickyAssignor)).unwrap();
    for group in [&plain, &sticky] {
        member(group, &manual, "a");
        member(group, &manual, "b");
        member(group, &manual, "c");
    }
    assert_eq!(deal(&plain), [vec![0, 3], vec![1, 4], vec![2]]);
    assert_eq!(deal(&sticky), [vec![0, 1], vec![3, 4], vec![2]]);
    assert!(topic.group("plain", GroupConfig::earliest().assignor(RoundRobinAssignor)).is_ok(), "the same rule");
    let other = topic.group("plain", GroupConfig::earliest().assignor(StickyAssignor)).unwrap_err();
    assert!(matches!(other, GroupError::Differs { field: "assignor", .. }), "{other}");
}

// X11, B-E4
#[test]
fn a_sticky_group_moves_only_what_must_move() {
    let (_broker, topic) = topic(4);
    let manual = Manual::new(1);
    let group = topic.group("g", GroupConfig::earliest().assignor(StickyAssignor)).unwrap();
    let a = member(&group, &manual, "a");
    member(&group, &manual, "b");
    assert_eq!(deal(&group), [vec![0, 1], vec![2, 3]]);
    member(&group, &manual, "c");
    assert_eq!(deal(&group), [vec![0, 1], vec![2], vec![3]], "one partition moved");
    a.leave();
    assert_eq!(deal(&group), [vec![0, 2], vec![1, 3]], "only what the leaver had");
}

/// Gives what it was told to give.
#[derive(Debug)]
struct Says(Vec<usize>);

impl Assignor for Says {
    fn assign(&self, _: &Deal) -> Vec<usize> {
        self.0.clone()
    }
}

/// Panics.
#[derive(Debug)]
struct Rude;

impl Assignor for Rude {
    fn assign(&self, _: &Deal) -> Vec<usize> {
        panic!("a planned one");
    }
}

fn bad_answers<A: Assignor>(rule: A) -> (Vec<Vec<u32>>, u64) {
    let (broker, topic) = topic(2);
    let group = topic.group("g", GroupConfig::earliest().assignor(rule)).unwrap();
    for name in ["a", "b"] {
        group.subscribe(name, |_| ()).unwrap();
    }
    topic.publish_batch(0..4).unwrap();
    broker.drain(LONG).unwrap();
    (deal(&group), group.stats().bad_deals)
}

// X11
#[test]
fn a_rule_that_panics_or_says_nonsense_is_counted_and_everybody_gets_their_turn() {
    let fair = vec![vec![0], vec![1]];
    assert_eq!(bad_answers(Rude), (fair.clone(), 2));
    assert_eq!(bad_answers(Says(vec![])), (fair.clone(), 2));
    assert_eq!(bad_answers(Says(vec![0, 0, 0])), (fair.clone(), 2));
    assert_eq!(bad_answers(Says(vec![0, 2])), (fair, 2));
    assert_eq!(bad_answers(Says(vec![0, 0])), (vec![vec![0, 1], vec![]], 0), "unfair, and its good right");
}

type Asked = dyn Fn(&Deal) + Send + Sync;

/// Does something while it is asked, and answers round robin.
struct During(Arc<OnceLock<Box<Asked>>>);

impl std::fmt::Debug for During {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("During")
    }
}

impl Assignor for During {
    fn assign(&self, deal: &Deal) -> Vec<usize> {
        if let Some(act) = self.0.get() {
            act(deal);
        }
        RoundRobinAssignor.assign(deal)
    }
}

fn during(partitions: u32) -> (Broker, Group<u64>, Arc<OnceLock<Box<Asked>>>) {
    let (broker, topic) = topic(partitions);
    let act = Arc::new(OnceLock::new());
    let group = topic.group("g", GroupConfig::earliest().assignor(During(act.clone()))).unwrap();
    (broker, group, act)
}

// X11
#[test]
fn a_rule_is_asked_under_no_lock_and_may_look_at_its_group_and_control_it() {
    let (_broker, group, act) = during(2);
    let manual = Manual::new(1);
    member(&group, &manual, "a");
    let own = group.clone();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let look = move |deal: &Deal| {
        noted.lock().unwrap().push((deal.members().len(), deal.owner(0), own.assignment().len(), own.lag()));
        own.pause();
        own.resume();
    };
    assert!(act.set(Box::new(look)).is_ok());
    member(&group, &manual, "b");
    assert_eq!(*seen.lock().unwrap(), [(2, Some(0), 2, 0)]);
    assert_eq!((deal(&group), group.stats().bad_deals), (vec![vec![0], vec![1]], 0));
}

// X11
#[test]
fn an_answer_to_a_question_of_yesterday_is_not_used() {
    let (_broker, group, act) = during(2);
    let manual = Manual::new(1);
    let a = member(&group, &manual, "a");
    let (inside, go) = (Arc::new(Barrier::new(2)), Arc::new(Barrier::new(2)));
    let (enter, wait) = (inside.clone(), go.clone());
    let questions = Arc::new(Mutex::new(Vec::new()));
    let asked = questions.clone();
    let first = Mutex::new(true);
    let stall = move |deal: &Deal| {
        asked.lock().unwrap().push(deal.members().iter().map(|name| name.to_string()).collect::<Vec<_>>());
        if std::mem::take(&mut *first.lock().unwrap()) {
            enter.wait();
            wait.wait();
        }
    };
    assert!(act.set(Box::new(stall)).is_ok());
    thread::scope(|scope| {
        let joiner = scope.spawn(|| member(&group, &manual, "b"));
        inside.wait(); // it is being asked about a and b
        assert!(a.leave(), "nobody is held up by the one that is being asked");
        assert_eq!(deal(&group), [vec![0, 1]], "dealt by the leaver");
        go.wait();
        joiner.join().unwrap();
    });
    assert_eq!(deal(&group), [vec![0, 1]], "the old answer was for two");
    assert_eq!(*questions.lock().unwrap(), [vec!["a", "b"], vec!["b"], vec!["b"]]);
    assert_eq!(group.stats().bad_deals, 0);
}

// X11
#[test]
fn a_rule_that_changes_its_own_group_is_asked_no_further() {
    let (_broker, group, act) = during(2);
    let manual = Manual::new(1);
    member(&group, &manual, "a");
    let (own, executor) = (group.clone(), manual.clone());
    assert!(act.set(Box::new(move |_| drop(own.unnamed_member().run(&executor).subscribe(|_| ()).unwrap()))).is_ok());
    member(&group, &manual, "b");
    assert_eq!(deal(&group), [vec![0], vec![1], vec![]], "all three are in, by turns");
    assert_eq!(group.stats().bad_deals, 1);
}

/// A member that reports and then waits to be let go.
fn slow(group: &Group<u64>, name: &str) -> (Member<u64>, Receiver<u64>, std::sync::mpsc::Sender<()>) {
    let ((tell, at), (go, gate)) = (channel(), channel::<()>());
    let handler = move |record: &Record<'_, u64>| {
        tell.send(record.offset()).unwrap();
        let _ = gate.recv();
    };
    (group.subscribe(name, handler).unwrap(), at, go)
}

// X11
#[test]
fn the_assignment_shows_what_is_still_in_an_other_s_hand() {
    for capacity in 1..=4 {
        let broker = Broker::new();
        let topic = broker.create_topic("t", TopicConfig::new().partitions(2).capacity(capacity)).unwrap();
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let (_a, at, go) = slow(&group, "a");
        topic.publish_to(1, 7).unwrap();
        assert_eq!(at.recv_timeout(LONG), Ok(0));
        let b = group.subscribe("b", |_| ()).unwrap();
        let now = group.assignment();
        assert_eq!((&now[0].partitions[..], &now[0].coming[..], &now[0].going[..]), (&[0][..], &[][..], &[1][..]));
        assert_eq!((&now[1].partitions[..], &now[1].coming[..], &now[1].going[..]), (&[1][..], &[1][..], &[][..]));
        assert_eq!((now[0].holds(), now[1].holds()), (vec![0, 1], vec![]));
        go.send(()).unwrap();
        topic.publish_to(1, 8).unwrap();
        broker.drain(LONG).unwrap();
        assert_eq!(group.assignment().iter().map(|of| of.holds()).collect::<Vec<_>>(), [[0], [1]]);
        b.leave();
    }
}

// X36, A-34
#[test]
fn the_attempts_of_a_record_are_counted_on_by_whoever_has_it_next() {
    for capacity in 1..=4 {
        let clock = Arc::new(ManualClock::new());
        let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
        let retry = Retry::constant(4, Duration::from_secs(1));
        for config in [GroupConfig::earliest(), GroupConfig::earliest().assignor(StickyAssignor)] {
            let topic = broker.create_topic("t", TopicConfig::new().capacity(capacity)).unwrap();
            let group = topic.group("g", config.retry(retry.clone())).unwrap();
            let manual = Manual::new(7);
            let seen = Arc::new(Mutex::new(Vec::new()));
            let join = |name: &'static str| {
                let seen = seen.clone();
                let handler = move |record: &Record<'_, u64>| {
                    seen.lock().unwrap().push((name, record.attempt()));
                    Outcome::Retry(Failure::new("no"))
                };
                group.member(name).run(&manual).subscribe(handler).unwrap()
            };
            topic.publish(1).unwrap();
            let a = join("a");
            manual.run(100);
            a.leave(); // in the middle of its pause
            let b = join("b");
            for _ in 0..2 {
                manual.run(100);
                clock.advance(Duration::from_secs(1));
                manual.run(100);
            }
            assert!(manual.kill("g", "b"));
            join("c");
            manual.run(100);
            clock.advance(Duration::from_secs(1));
            manual.run(100);
            assert_eq!(*seen.lock().unwrap(), [("a", 1), ("b", 2), ("b", 3), ("c", 4)]);
            assert_eq!((group.stats().dead(), group.letters()[0].attempts()), (1, 4));
            assert!(!b.leave());
            broker.delete_topic("t").unwrap();
        }
    }
}

// X15, C-21
#[test]
fn a_member_without_a_name_gets_the_next_one_that_is_free() {
    let broker = Broker::with(BrokerConfig::new().ids(Arc::new(SequentialIds::new("s"))));
    let topic = broker.create_topic("t", TopicConfig::<u64>::new()).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let manual = Manual::new(1);
    let named = || group.unnamed_member().run(&manual).subscribe(|_| ()).unwrap().name().to_owned();
    assert_eq!(named(), "s1");
    member(&group, &manual, "s2");
    assert_eq!(named(), "s3", "s2 is taken");
    let other = topic.group("other", GroupConfig::earliest()).unwrap();
    assert_eq!(other.unnamed_member().run(&manual).subscribe(|_| ()).unwrap().name(), "s4");
}

/// Gives the same id again and again.
#[derive(Debug)]
struct OneId;

impl Ids for OneId {
    fn next_id(&self) -> String {
        "one".to_owned()
    }
}

// C-21, A-16: said is what is wrong, and with whom.
#[test]
fn a_source_that_gives_only_ids_that_are_taken_is_said_to() {
    let broker = Broker::with(BrokerConfig::new().ids(Arc::new(OneId)));
    let topic = broker.create_topic("t", TopicConfig::<u64>::mailbox()).unwrap();
    let manual = Manual::new(1);
    let subscribe = || topic.subscribe_on(&manual, GroupConfig::mailbox(Overflow::latest()), |_| ());
    let first = subscribe().unwrap();
    let refused = subscribe().unwrap_err();
    let SubscriptionError::NoFreeId { topic: of, id, tries } = &refused else { panic!("{refused}") };
    assert_eq!((&**of, &**id, *tries), ("t", "one", 64));
    let said = refused.to_string();
    assert!(["'t'", "64 ids", "'one'", "BrokerConfig::ids"].iter().all(|part| said.contains(part)), "{said}");
    assert_eq!(topic.groups().iter().map(|group| group.name().to_owned()).collect::<Vec<_>>(), ["one"]);
    assert!(first.leave());
    assert_eq!(subscribe().unwrap().id(), "one", "free again");
    broker.close(None);
    let refused = subscribe().unwrap_err();
    assert!(matches!(refused, SubscriptionError::Group(GroupError::Closed { .. })), "{refused}");
}
