//! On a topic that drops its records promptly: the destructor runs in a publish, a commit, a seek, a look at ages, or a
//! delete, and may use the topic in each.

use ringlog::{Broker, BrokerConfig, GroupConfig, Manual, ManualClock, Retain, SeekTo, Topic, TopicConfig};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// A value whose destructor uses the topic that it was in.
struct Busy {
    topic: Topic<Busy>,
    again: bool,
    dropped: Arc<AtomicUsize>,
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, Relaxed);
        for group in self.topic.groups() {
            assert!(group.stats_of(0).is_ok());
            let _ = group.seek(0, SeekTo::Offset(0));
        }
        if self.topic.group("guest", GroupConfig::earliest()).is_ok() {
            self.topic.delete_group("guest").unwrap();
        }
        if self.again {
            let (topic, dropped) = (self.topic.clone(), self.dropped.clone());
            drop(self.topic.try_publish(Self { topic, again: false, dropped }));
        }
    }
}

// B-10
#[test]
fn destructors_may_use_the_topic_wherever_they_run() {
    let (clock, manual, dropped) = (Arc::new(ManualClock::new()), Manual::new(3), Arc::new(AtomicUsize::new(0)));
    let broker = Broker::with(BrokerConfig::new().clock(clock.clone()));
    for (name, lossy) in [("blocks", false), ("sheds", true)] {
        let config = TopicConfig::new().capacity(3).retain(Retain::Unacked).max_age(Duration::from_secs(1));
        let topic = broker.create_topic(name, if lossy { config.drop_oldest() } else { config }).unwrap();
        let busy = || Busy { topic: topic.clone(), again: true, dropped: dropped.clone() };
        dropped.store(0, Relaxed);
        topic.try_publish(busy()).map_err(drop).unwrap();
        assert_eq!(dropped.load(Relaxed), 2, "nobody listens: it, and what it published");
        let group = topic.group("g", GroupConfig::earliest()).unwrap();
        let member = group.member("m").run(&manual).subscribe(|_| ()).unwrap();
        topic.try_publish(busy()).map_err(drop).unwrap();
        manual.run(usize::MAX);
        assert_eq!(dropped.load(Relaxed), 4, "the commits");
        assert!(member.leave());
        topic.try_publish(busy()).map_err(drop).unwrap();
        group.seek(0, SeekTo::Latest).unwrap();
        assert_eq!(dropped.load(Relaxed), 5, "the seek; what it published is there");
        clock.advance(Duration::from_secs(2));
        assert_eq!(topic.len(0), Some(0));
        assert_eq!(dropped.load(Relaxed), 6, "the look at what is too old");
        topic.try_publish(busy()).map_err(drop).unwrap();
        assert!(group.delete());
        assert_eq!(dropped.load(Relaxed), 8, "the end of the last group");
    }
}
