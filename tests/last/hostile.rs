//! Destructors that panic, publish, look, and count.
use ringlog::{Broker, Last, LastValue, LastValues, Topic, TopicConfig};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

/// Counts itself, and does something when it is dropped.
struct Value {
    n: u64,
    scene: Arc<Scene>,
}

struct Scene {
    topic: Mutex<Option<Topic<u64>>>,
    alive: AtomicUsize,
    dropped: AtomicUsize,
    over: AtomicBool,
    at_drop: fn(&Value, &Topic<u64>),
}

impl Value {
    fn new(n: u64, scene: &Arc<Scene>) -> Self {
        scene.alive.fetch_add(1, SeqCst);
        Self { n, scene: scene.clone() }
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        self.scene.alive.fetch_sub(1, SeqCst);
        self.scene.dropped.fetch_add(1, SeqCst);
        let topic = self.scene.topic.lock().unwrap().clone();
        if let (false, Some(topic)) = (self.scene.over.load(SeqCst), topic) {
            (self.scene.at_drop)(self, &topic);
        }
    }
}

/// A panic whose message panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a payload that panics too");
    }
}

impl Scene {
    fn new(at_drop: fn(&Value, &Topic<u64>)) -> Arc<Self> {
        let [alive, dropped] = [AtomicUsize::new(0), AtomicUsize::new(0)];
        Arc::new(Self { topic: Mutex::new(None), alive, dropped, over: AtomicBool::new(false), at_drop })
    }

    fn maker(self: &Arc<Self>) -> impl Fn(&u64) -> Value + Clone + Send + Sync + use<> {
        let scene = self.clone();
        move |n| Value::new(*n, &scene)
    }

    fn play(at_drop: fn(&Value, &Topic<u64>), acts: impl FnOnce(&Arc<Self>, &Topic<u64>)) {
        let scene = Self::new(at_drop);
        let make = scene.maker();
        let config = TopicConfig::new().capacity(4).last_value(make.clone()).last_value_by_key(|n| n % 10, make);
        let broker = Broker::new();
        let topic = broker.create_topic("hostile", config).unwrap();
        *scene.topic.lock().unwrap() = Some(topic.clone());
        acts(&scene, &topic);
        scene.over.store(true, SeqCst);
        scene.topic.lock().unwrap().take();
        assert!(scene.dropped.load(SeqCst) > 0, "nothing was dropped while it played");
    }
}

/// Publishes until it is so: other tests pin too, and may be halted while they do.
fn patiently(so: impl Fn() -> bool, topic: &Topic<u64>) {
    while !so() {
        topic.publish(1).unwrap();
        thread::yield_now();
    }
}

fn last(topic: &Topic<u64>) -> LastValue<Value> {
    topic.last_value().unwrap()
}

fn by_digit(topic: &Topic<u64>) -> LastValues<u64, Value> {
    topic.last_values().unwrap()
}

fn number(value: Option<Last<Value>>) -> Option<u64> {
    value.map(|value| value.n)
}

#[test]
fn destructors_that_panic_disturb_nobody() {
    let panics = |value: &Value, _: &Topic<u64>| match value.n % 2 {
        0 => panic!("on purpose"),
        _ => std::panic::panic_any(Bomb),
    };
    std::panic::set_hook(Box::new(|_| {}));
    Scene::play(panics, |scene, topic| {
        for n in 0..1_000 {
            assert_eq!(topic.publish(n).unwrap().offset(), n);
            assert_eq!((number(last(topic).get()), number(by_digit(topic).get(&(n % 10)))), (Some(n), Some(n)));
        }
        assert!(by_digit(topic).forget(&1).is_some());
        patiently(|| scene.dropped.load(SeqCst) > 1_000, topic);
    });
    let _ = std::panic::take_hook();
}

#[test]
fn destructors_may_publish_to_their_own_topic_and_look_at_it() {
    let publishes = |value: &Value, topic: &Topic<u64>| {
        assert!(number(last(topic).get()).is_some() && by_digit(topic).keys() == 10);
        if value.n < 1_000_000 {
            topic.publish(value.n + 1_000_000).unwrap();
        }
    };
    Scene::play(publishes, |_, topic| {
        for n in 0..1_000 {
            topic.publish(n).unwrap();
        }
        assert!(topic.end(0).unwrap() > 1_500, "the destructors have published");
        let newest = last(topic).get().unwrap();
        assert_eq!(newest.position().offset + 1, topic.end(0).unwrap());
    });
}

#[test]
fn destructors_that_publish_for_ever_nest_no_deeper_than_allowed() {
    static DEPTH: AtomicUsize = AtomicUsize::new(0);
    static DEEPEST: AtomicUsize = AtomicUsize::new(0);
    let publishes = |value: &Value, topic: &Topic<u64>| {
        DEEPEST.fetch_max(DEPTH.fetch_add(1, SeqCst) + 1, SeqCst);
        if topic.end(0).unwrap() < 100_000 {
            topic.publish(value.n).unwrap();
        }
        DEPTH.fetch_sub(1, SeqCst);
    };
    Scene::play(publishes, |_, topic| {
        for n in 0..1_000 {
            topic.publish(n).unwrap();
        }
        let deepest = DEEPEST.load(SeqCst);
        assert!((1..=10).contains(&deepest), "{deepest} destructors in each other");
    });
}

#[test]
fn few_old_values_are_about_and_each_is_dropped_once() {
    Scene::play(
        |_, _| (),
        |scene, topic| {
            (0..10_000).for_each(|n| assert!(topic.publish(n).is_ok()));
            let kept = last(topic).get().unwrap();
            // Eleven are in use: one for each digit, one for the topic.
            patiently(|| scene.alive.load(SeqCst) < 11 + 70, topic);
            assert_eq!(kept.n, 9_999);
        },
    );
}

#[test]
fn values_go_with_the_last_handle() {
    let scene = Scene::new(|_, _| ());
    let broker = Broker::new();
    let topic = broker.create_topic("short", TopicConfig::new().last_value(scene.maker())).unwrap();
    (0..100).for_each(|n| assert!(topic.publish(n).is_ok()));
    let handle = last(&topic);
    drop((topic, broker));
    assert!(scene.alive.load(SeqCst) > 0);
    let kept = handle.get();
    thread::spawn(move || drop(handle)).join().unwrap();
    assert_eq!(scene.alive.load(SeqCst), 1, "all but the one in hand");
    assert_eq!(number(kept), Some(99));
    assert_eq!(scene.alive.load(SeqCst), 0);
}
