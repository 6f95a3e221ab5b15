//! The shapes that `docs/handlers.md` and `docs/recipes.md` describe, run.
mod lab;

use lab::{CAPACITIES, Inbox, Lab, balanced, group};
use ringlog::{
    Batch, Broker, Canceller, Consumer, GroupConfig, LaneStats, Member, Outcome, Pick, PollError, Polled, Record,
    Retain, Retry, SeekTo, Select, SettleError, Topic, TopicConfig, Worker,
};
use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, LazyLock, Mutex, mpsc};
use std::thread;
use std::time::Duration;

const LONG: Duration = Duration::from_secs(60);

const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// What outlives members: an effect, and how far it is, changed together.
#[derive(Default)]
struct Ledger {
    next: BTreeMap<u32, u64>,
    booked: Vec<(u32, u64)>,
}

impl Ledger {
    fn book(&mut self, record: &Record<'_, u64>) {
        let next = self.next.entry(record.partition()).or_insert(0);
        if record.offset() >= *next {
            *next = record.offset() + 1;
            self.booked.push((record.partition(), record.offset()));
        }
    }
}

// A-E2, C-E7
#[test]
fn who_stores_how_far_it_is_with_the_effect_has_each_effect_once_whatever_comes_again() {
    for capacity in CAPACITIES {
        for seed in 0..5 {
            let lab = Lab::new(seed);
            let topic = lab.topic(2, capacity);
            let config = GroupConfig::earliest().retry(Retry::constant(3, Duration::ZERO));
            let group = topic.group("g", config).unwrap();
            let (ledger, handed) = (Arc::new(Mutex::new(Ledger::default())), Inbox::default());
            for round in 0..20_u64 {
                let (ledger, seen) = (ledger.clone(), handed.clone());
                // It fails after its effect: the worst moment.
                let handler = move |record: &Record<'_, u64>| {
                    seen.note(record);
                    ledger.lock().unwrap().book(record);
                    if record.attempt() == 1 && record.offset() % 3 == 0 { Err("too late") } else { Ok(()) }
                };
                let name = round.to_string();
                group.member(&name).run(&lab.manual).subscribe(handler).unwrap();
                (0..2).for_each(|partition| lab.feed(&topic, partition, [round]));
                lab.manual.run(round as usize % 4);
                if round % 4 == 3 {
                    assert!(lab.manual.kill("g", &name), "its thread ends");
                }
                if round % 5 == 4 {
                    group.replay(SeekTo::Earliest).unwrap();
                }
            }
            lab.finish();
            let mut booked = std::mem::take(&mut ledger.lock().unwrap().booked);
            booked.sort_unstable();
            let each: Vec<_> = (0..2).flat_map(|partition| (0..20).map(move |offset| (partition, offset))).collect();
            assert_eq!(booked, each, "each effect once");
            assert!(handed.len() > each.len(), "though records came again");
        }
    }
}

/// With an id of its own, headers, and a key.
#[derive(Clone, Debug, PartialEq)]
struct Event {
    id: u64,
    account: &'static str,
    headers: Vec<(&'static str, String)>,
}

impl Event {
    fn new(id: u64, account: &'static str) -> Self {
        Event { id, account, headers: vec![("trace", format!("t-{id}"))] }
    }
}

//
#[test]
fn id_key_and_headers_are_fields_of_a_record_and_arrive_as_they_were_published() {
    let lab = Lab::new(1);
    let config = TopicConfig::new().partitions(4).key(|event: &Event| event.account);
    let topic = lab.broker.create_topic("events", config).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let note = seen.clone();
    let handler = move |event: &Record<'_, Event>| note.lock().unwrap().push((event.partition(), (**event).clone()));
    group.member("m").run(&lab.manual).subscribe(handler).unwrap();
    let events = ["alice", "bob", "alice"].iter().zip(0..).map(|(account, id)| Event::new(id, account));
    let mut sent: Vec<_> = events.map(|event| (topic.publish(event.clone()).unwrap().partition(), event)).collect();
    lab.settle();
    let by_id = |one: &(u32, Event)| one.1.id;
    seen.lock().unwrap().sort_by_key(by_id);
    sent.sort_by_key(by_id);
    assert_eq!(*seen.lock().unwrap(), sent);
}

// A-E2
#[test]
fn an_id_in_the_record_finds_what_was_published_twice() {
    let lab = Lab::new(2);
    let topic = lab.broker.create_topic("events", TopicConfig::new().capacity(64)).unwrap();
    let group = topic.group("g", GroupConfig::earliest()).unwrap();
    let (mut known, done) = (HashSet::new(), Arc::new(Mutex::new(Vec::new())));
    let effect = done.clone();
    let handler = move |event: &Record<'_, Event>| {
        if known.insert(event.id) {
            effect.lock().unwrap().push(event.id);
        }
    };
    group.member("m").run(&lab.manual).subscribe(handler).unwrap();
    for id in [0, 1, 1, 2, 0, 2, 3] {
        topic.publish(Event::new(id, "alice")).unwrap();
    }
    lab.settle();
    group.replay(SeekTo::Earliest).unwrap();
    lab.settle();
    assert_eq!(*done.lock().unwrap(), [0, 1, 2, 3]);
}

// The ways to write a handler that `docs/handlers.md` lists: they compile, and mean what it says.
#[test]
fn a_handler_is_written_in_each_of_these_ways() {
    fn bill(order: &Record<'_, u64>) -> Result<(), std::fmt::Error> {
        if **order == 1 { Err(std::fmt::Error) } else { Ok(()) }
    }
    let lab = Lab::new(8);
    let (topic, other) = (lab.topic(2, 4), lab.broker.create_topic("other", TopicConfig::<u64>::new()).unwrap());
    let config = || GroupConfig::earliest().retry(Retry::never());
    let with = |name: &str| topic.group(name, config()).unwrap();
    with("function").member("m").run(&lab.manual).subscribe(bill).unwrap();
    with("untyped").member("m").run(&lab.manual).subscribe(|_| ()).unwrap();
    let parse = |order: &Record<'_, u64>| {
        order.to_string().trim_matches('1').parse::<String>()?;
        Ok::<(), std::convert::Infallible>(())
    };
    with("question mark").member("m").run(&lab.manual).subscribe(parse).unwrap();
    let annotated = |order: &Record<'_, u64>| -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        u8::try_from(**order * 300).map(drop)?;
        Ok(())
    };
    with("annotated").member("m").run(&lab.manual).subscribe(annotated).unwrap();
    let publishes = move |order: &Record<'_, u64>| other.publish(**order).map(drop);
    with("publishes").member("m").run(&lab.manual).subscribe(publishes).unwrap();
    let mut seen = 0;
    let counts = move |_: &Record<'_, u64>| {
        seen += 1;
        if seen == 2 { Outcome::reject("the second") } else { Outcome::Ack }
    };
    with("counts").member("m").run(&lab.manual).subscribe(counts).unwrap();
    let each = |partition: u32| move |_: &Record<'_, u64>| if partition == 1 { Err("one") } else { Ok(()) };
    with("each").member("m").run(&lab.manual).subscribe_with(each).unwrap();
    for partition in 0..2 {
        topic.publish_to(partition, u64::from(partition)).unwrap();
    }
    lab.settle();
    let dead: Vec<(String, u64)> = topic.groups().iter().map(|g| (g.name().to_owned(), balanced(g).dead())).collect();
    let expected =
        ["annotated", "counts", "each", "function", "publishes", "question mark", "untyped"].map(str::to_owned);
    assert_eq!(dead, expected.into_iter().zip([1, 1, 1, 1, 0, 0, 0]).collect::<Vec<_>>());
}

// B-E6: the parts know the topic and not each other.
#[test]
fn an_event_bus_is_a_topic_for_each_kind_and_a_group_for_each_part() {
    let broker = Broker::new();
    let signups = broker.create_topic("signups", TopicConfig::<String>::new()).unwrap();
    let logins = broker.create_topic("logins", TopicConfig::<u64>::new()).unwrap();
    let (heard, hears) = mpsc::channel();
    for part in ["mail", "statistics"] {
        let heard = heard.clone();
        let handler = move |name: &Record<'_, String>| heard.send((part, name.to_string())).unwrap();
        signups.group(part, GroupConfig::earliest()).unwrap().subscribe("m", handler).unwrap();
    }
    let audit = move |id: &Record<'_, u64>| heard.send(("audit", id.to_string())).unwrap();
    logins.group("audit", GroupConfig::earliest()).unwrap().subscribe("m", audit).unwrap();
    signups.publish("alice".into()).unwrap();
    logins.publish(7).unwrap();
    broker.drain(LONG).unwrap();
    let mut all: Vec<_> = hears.try_iter().collect();
    all.sort_unstable();
    let all: Vec<_> = all.iter().map(|(part, text)| (*part, text.rsplit(' ').next().unwrap())).collect();
    assert_eq!(all, [("audit", "7"), ("mail", "alice"), ("statistics", "alice")]);
}

/// A client in a room, and what it saw.
fn enter(room: &Topic<u64>, name: &str, worker: &Worker) -> (Member<u64>, Arc<Mutex<Vec<u64>>>) {
    let (client, seen) =
        (room.group(name, GroupConfig::latest().ephemeral()).unwrap(), Arc::new(Mutex::new(Vec::new())));
    let lines = seen.clone();
    let connection = client.member("connection").run(worker);
    (connection.subscribe(move |line| lines.lock().unwrap().push(**line)).unwrap(), seen)
}

// B-E9
#[test]
fn a_chat_is_a_topic_for_each_room_and_a_group_for_each_client() {
    let (broker, worker) = (Broker::new(), Worker::spawn().unwrap());
    let room = |name| broker.topic_or_create(name, TopicConfig::<u64>::new().capacity(4).block(None)).unwrap();
    let (red, blue) = (room("red"), room("blue"));
    let (alice, bob, carol) =
        (enter(&red, "alice", &worker), enter(&red, "bob", &worker), enter(&blue, "carol", &worker));
    (0..10).for_each(|n| assert!(room("red").publish(n).is_ok()));
    blue.publish(100).unwrap();
    broker.drain(LONG).unwrap();
    assert!(bob.0.leave(), "his group goes with him, and holds nobody up");
    let dave = enter(&red, "dave", &worker);
    (10..20).for_each(|n| assert!(red.publish(n).is_ok()));
    broker.drain(LONG).unwrap();
    let saw = |client: &(Member<u64>, Arc<Mutex<Vec<u64>>>)| client.1.lock().unwrap().clone();
    assert_eq!((saw(&alice), saw(&bob)), ((0..20).collect(), (0..10).collect()));
    assert_eq!((saw(&dave), saw(&carol)), ((10..20).collect(), vec![100]));
}

// C-29
#[test]
fn a_group_that_needs_no_order_sets_failures_aside_and_goes_on() {
    for capacity in CAPACITIES {
        let lab = Lab::new(3);
        let topic = lab.topic(1, capacity);
        let again = lab.broker.create_topic("again", TopicConfig::<u64>::new()).unwrap();
        let (first, second) = (Inbox::default(), Inbox::default());
        let (seen, aside) = (first.clone(), again.clone());
        let handler = move |record: &Record<'_, u64>| {
            seen.note(record);
            if **record % 3 == 1 { aside.publish(**record).map(drop) } else { Ok(()) }
        };
        let group = group(&topic);
        group.member("m").run(&lab.manual).subscribe(handler).unwrap();
        let later = again.group("later", GroupConfig::earliest().retry(Retry::constant(3, ms(100)))).unwrap();
        let seen = second.clone();
        let slow = move |record: &Record<'_, u64>| {
            seen.note(record);
            if record.attempt() == 1 { Err("still down") } else { Ok(()) }
        };
        later.member("m").run(&lab.manual).subscribe(slow).unwrap();
        lab.feed(&topic, 0, 0..9);
        lab.settle();
        assert_eq!(first.offsets(0), (0..9).collect::<Vec<_>>(), "no time has passed: nothing was held up");
        assert_eq!((balanced(&group).acked(), balanced(&group).retried(), later.lag()), (9, 0, 3));
        lab.finish();
        assert_eq!((second.offsets(0), balanced(&later).acked()), (vec![0, 0, 1, 1, 2, 2], 3));
    }
}

// C-29: what failed lies there as letters until it is mended.
#[test]
fn failures_that_were_set_aside_as_letters_are_published_anew_when_it_is_mended() {
    for capacity in CAPACITIES {
        let lab = Lab::new(3);
        let topic = lab.topic(1, capacity);
        let again = lab.broker.create_topic("again", TopicConfig::<u64>::new()).unwrap();
        let config = GroupConfig::earliest().retry(Retry::never()).bury_cloned();
        let pictures = topic.group("resize", config).unwrap();
        let resize = |picture: &Record<'_, u64>| if **picture % 3 == 1 { Err("broken") } else { Ok(()) };
        pictures.member("resize-1").run(&lab.manual).subscribe(resize).unwrap();
        lab.feed(&topic, 0, 0..9);
        lab.settle();
        let figures = balanced(&pictures);
        assert_eq!((figures.acked(), figures.dead(), figures.retried(), pictures.letters().len()), (6, 3, 0, 3));
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = seen.clone();
        let later = again.group("later", GroupConfig::earliest()).unwrap();
        later.member("m").run(&lab.manual).subscribe(move |picture| noted.lock().unwrap().push(**picture)).unwrap();
        let done = again.redrive(&pictures, Pick::all(), Duration::ZERO).unwrap();
        lab.settle();
        assert_eq!((done.published.len(), pictures.letters().len()), (3, 0));
        assert_eq!(*seen.lock().unwrap(), [1, 4, 7], "in their order");
    }
}

static BROKER: LazyLock<Broker> = LazyLock::new(Broker::new);

//
#[test]
fn a_process_may_share_one_broker_and_make_others() {
    BROKER.create_topic("shared", TopicConfig::<u64>::new()).unwrap();
    let found = thread::spawn(|| BROKER.topic::<u64>("shared").is_ok()).join().unwrap();
    let own = Broker::new();
    assert!(found && own.topic::<u64>("shared").is_err());
    assert!(own.create_topic("shared", TopicConfig::<String>::new()).is_ok());
    assert_eq!(BROKER.close(Some(Duration::ZERO)).left(), 0);
}

// A-E5
#[test]
fn lag_is_read_for_each_partition_and_its_growth_shows_who_is_too_slow() {
    let lab = Lab::new(4);
    let topic = lab.topic(3, 100);
    let group = group(&topic);
    group.member("m").run(&lab.manual).subscribe(|_| ()).unwrap();
    group.pause_partition(1).unwrap();
    let lags = || group.stats().lanes.iter().map(LaneStats::lag).collect::<Vec<_>>();
    let mut growing = Vec::new();
    for round in 0..3 {
        let before = lags();
        (0..3).for_each(|partition| lab.feed(&topic, partition, 0..5));
        lab.settle();
        growing = lags().iter().zip(before).map(|(lag, before)| *lag > before).collect();
        assert_eq!(lags(), [0, 5 * (round + 1), 0]);
        assert_eq!([0, 1, 2].map(|partition| group.lag_of(partition).unwrap()).to_vec(), lags());
    }
    assert_eq!(growing, [false, true, false]);
}

// B-E10
#[test]
fn work_behind_the_acknowledgement_comes_at_most_once_and_a_batch_is_acknowledged_at_its_end() {
    let lab = Lab::new(5);
    let topic = lab.topic(1, 1_000);
    let (hand_on, work) = mpsc::sync_channel(100);
    let first = topic.group("first", GroupConfig::earliest()).unwrap();
    let handler = move |record: &Record<'_, u64>| hand_on.send(**record).unwrap();
    first.member("m").run(&lab.manual).subscribe(handler).unwrap();
    let sizes = Arc::new(Mutex::new(Vec::new()));
    let seen = sizes.clone();
    let whole = topic.group("whole", GroupConfig::earliest().retry(Retry::constant(2, Duration::ZERO))).unwrap();
    let handler = move |batch: &Batch<'_, u64>| {
        let mut sizes = seen.lock().unwrap();
        sizes.push(batch.len());
        if sizes.len() == 1 { Err("the database is away") } else { Ok(()) }
    };
    whole.member("m").run(&lab.manual).subscribe_batch(handler).unwrap();
    (0..50).for_each(|n| assert!(topic.publish(n).is_ok()));
    lab.finish();
    let failed = work.try_iter().filter(|n| n % 10 == 0).count();
    assert_eq!((failed, balanced(&first).acked(), first.lag()), (5, 50, 0), "acknowledged, so they never come again");
    let sizes = sizes.lock().unwrap();
    assert_eq!((balanced(&whole).acked(), balanced(&whole).dead()), (50, 0));
    assert!(sizes[0] > 1 && sizes[1..=sizes[0]].iter().all(|size| *size == 1), "all of it again, singly: {sizes:?}");
}

// C-28: the table of `docs/handlers.md`.
#[test]
fn the_pauses_that_are_advised_add_up_to_what_the_page_says() {
    let of = |retry: Retry| (1..retry.attempts().unwrap()).map(|n| retry.delay_after(n)).collect::<Vec<_>>();
    assert_eq!(of(Retry::default()), [ms(1), ms(2)]);
    let advised = of(Retry::exponential(5).first(ms(100)));
    assert_eq!(advised, [ms(100), ms(200), ms(400), ms(800)]);
    assert_eq!(advised.iter().sum::<Duration>(), ms(1_500));
    assert_eq!(of(Retry::linear(3, ms(100))), [ms(100), ms(200)]);
}

// A-E9, C-10, C-28, X7
#[test]
fn pauses_are_capped_listed_or_the_handler_s_own_with_its_own_jitter() {
    let pauses = |retry: Retry, own: bool| {
        let lab = Lab::new(6);
        let topic = lab.topic(1, 4);
        let group = topic.group("g", GroupConfig::earliest().retry(retry)).unwrap();
        let mut dice = 7_u64;
        let handler = move |record: &Record<'_, u64>| {
            dice = dice * 37 % 101;
            let pause = ms(100 * u64::from(record.attempt()) + dice % 50);
            if own { Outcome::retry_after(pause, "no") } else { Outcome::retry("no") }
        };
        group.member("m").run(&lab.manual).subscribe(handler).unwrap();
        topic.publish(0).unwrap();
        lab.settle();
        let mut pauses = Vec::new();
        while let Some(due) = lab.manual.next_due() {
            pauses.push((due - lab.broker.clock().now()).as_millis() as u64);
            lab.clock.set(due);
            lab.settle();
        }
        pauses
    };
    assert_eq!(pauses(Retry::exponential(6).max(ms(5)), false), [1, 2, 4, 5, 5]);
    assert_eq!(pauses(Retry::list(4, [ms(3), ms(1)]), false), [3, 1, 1]);
    let own = pauses(Retry::exponential(4), true);
    assert!(own.iter().zip([100, 200, 300]).all(|(pause, least)| (least..least + 50).contains(pause)), "{own:?}");
    assert!(own.len() == 3 && own.iter().any(|pause| pause % 100 != own[0] % 100), "jittered: {own:?}");
}

/// A bounded blocking queue: who puts waits for room, who takes waits for something to be there.
struct Queue {
    topic: Topic<String>,
    taker: Mutex<Consumer<String>>,
}

impl Queue {
    fn new(broker: &Broker, name: &str, capacity: usize) -> Self {
        let config = TopicConfig::new().capacity(capacity).retain(Retain::Unacked).block(None);
        let topic = broker.create_topic(name, config).unwrap();
        let taker = Mutex::new(topic.group("queue", GroupConfig::earliest()).unwrap().consumer("taker").unwrap());
        Queue { topic, taker }
    }

    fn put(&self, value: &str) {
        self.topic.publish(value.to_owned()).unwrap();
    }

    fn take(&self) -> String {
        let mut taker = self.taker.lock().unwrap();
        let mut taken = taker.poll_owned(1, Duration::MAX).unwrap();
        taken.receipt.ack().unwrap();
        taken.records.remove(0).value
    }
}

// B-E8
#[test]
fn a_bounded_blocking_queue_is_a_topic_of_one_partition_and_one_group_that_polls() {
    for capacity in [1, 2, 3] {
        let (broker, names) = (Broker::new(), ["a", "b", "c", "d", "e", "f"]);
        let queue = Arc::new(Queue::new(&broker, "queue", capacity));
        names[..capacity].iter().for_each(|name| queue.put(name));
        assert!(queue.topic.try_publish("x".to_owned()).is_err(), "full");
        let putting = {
            let queue = queue.clone();
            thread::spawn(move || names[capacity..].iter().for_each(|name| queue.put(name)))
        };
        let taken: Vec<String> = names.iter().map(|_| queue.take()).collect();
        putting.join().unwrap();
        assert_eq!(taken, names, "first in, first out, whoever had to wait");
        assert_eq!(queue.topic.len(0), Some(0), "what was taken is gone");
        let taking = {
            let queue = queue.clone();
            thread::spawn(move || queue.take())
        };
        queue.put("late");
        assert_eq!(taking.join().unwrap(), "late");
    }
}

// B-E10, X8: acknowledged before the work, or after all of it
#[test]
fn who_polls_chooses_at_most_once_by_acknowledging_first_and_at_least_once_by_doing_so_last() {
    let lab = Lab::new(1);
    let topic = lab.topic(1, 100);
    topic.publish_batch(0..10).unwrap();
    let work = |batch: &[u64]| if batch.contains(&3) { Err("the database is away") } else { Ok(()) };
    let of = |name| topic.group(name, GroupConfig::earliest()).unwrap();

    let first = of("first");
    let mut consumer = first.consumer("c").unwrap();
    let taken = consumer.poll_owned(5, Duration::ZERO).unwrap();
    taken.receipt.ack().unwrap();
    let values: Vec<u64> = taken.records.iter().map(|record| record.value).collect();
    assert!(work(&values).is_err());
    assert_eq!(consumer.try_poll(1).unwrap().offsets(), 5..6, "what failed does not come again");

    let last = of("last");
    let mut consumer = last.consumer("c").unwrap();
    let batch = consumer.try_poll(5).unwrap();
    let values: Vec<u64> = batch.iter().map(|record| *record).collect();
    assert!(work(&values).is_err());
    drop(batch);
    assert_eq!(consumer.try_poll(5).unwrap().offsets(), 0..5, "all of it comes again, what had succeeded too");
}

/// Takes what was polled, and says that it is done.
fn file<T: Copy + Send + Sync + 'static>(batch: Polled<'_, T>, done: &mut Vec<T>) -> Result<(), SettleError> {
    done.extend(batch.iter().map(|record| *record));
    batch.ack()
}

#[test]
fn a_worker_that_polls_several_topics_does_all_there_is_and_stops() {
    let broker = Broker::new();
    let orders = broker.create_topic("orders", TopicConfig::<u64>::new()).unwrap();
    let notes = broker.create_topic("notes", TopicConfig::<char>::new()).unwrap();
    let mut new_orders = orders.group("desk", GroupConfig::earliest()).unwrap().consumer("desk-1").unwrap();
    let mut new_notes = notes.group("desk", GroupConfig::earliest()).unwrap().consumer("desk-1").unwrap();
    let stop = Canceller::new();
    let cancelled = stop.clone();
    let worker = thread::spawn(move || {
        let (mut select, mut billed, mut filed) = (Select::new(), Vec::new(), Vec::new());
        while let Some(which) = select.wait_or_cancel(&[&new_orders, &new_notes], Duration::MAX, &stop) {
            match which {
                0 => file(new_orders.try_poll(100).unwrap(), &mut billed).unwrap(),
                _ => file(new_notes.try_poll(100).unwrap(), &mut filed).unwrap(),
            }
        }
        (new_orders, billed, filed)
    });
    orders.publish_batch(0..1_000).unwrap();
    notes.publish_batch('a'..='z').unwrap();
    cancelled.cancel(); // what is there is done all the same
    let (mut left, billed, filed) = worker.join().unwrap();
    assert_eq!((billed, filed), ((0..1_000).collect(), ('a'..='z').collect()));
    broker.close(Some(LONG));
    assert!(matches!(left.try_poll(1).map(|batch| batch.len()), Err(PollError::Closed { .. })));
    let select = Select::new().wait(&[&left], Duration::MAX);
    assert_eq!(select, Some(0), "who is over is found, so that a loop ends");
}
