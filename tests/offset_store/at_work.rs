//! Stores that hang, that use their own group and topic, and that close the broker.

use crate::lab::Lab;
use crate::{Flaky, Plan, SECOND, join, offset, with, work};
use ringlog::{Group, GroupConfig, GroupOffset, MemoryOffsets, OffsetStore, SeekTo, StoreError, Topic};
use std::sync::{Arc, Mutex, mpsc};

/// A store in which every save asks a broker for what may be under a lock.
struct Nosy(Mutex<Option<(Topic<u64>, Group<u64>)>>);

impl OffsetStore for Nosy {
    fn load(&self, _: &str, _: &str, _: u32) -> Result<Option<u64>, StoreError> {
        if let Some((topic, _)) = &*self.0.lock().unwrap() {
            topic.group("another", GroupConfig::earliest())?;
        }
        Ok(None)
    }

    fn save(&self, _: &[GroupOffset]) -> Result<(), StoreError> {
        let taken = self.0.lock().unwrap().take();
        if let Some((topic, group)) = taken {
            group.save_offsets()?; // itself
            topic.group("more", GroupConfig::earliest())?;
            group.seek(0, ringlog::SeekTo::Earliest)?;
            group.pause();
            assert_eq!(group.stats().saves, 0);
            group.delete();
        }
        Ok(())
    }
}

#[test]
fn a_store_may_do_anything_to_its_group_and_topic() {
    let lab = Lab::new(0);
    let (topic, store) = (lab.topic(1, 8), Arc::new(Nosy(Mutex::new(None))));
    *store.0.lock().unwrap() = Some((topic.clone(), topic.group("g", GroupConfig::earliest()).unwrap()));
    let group = topic.group("h", with(&store)).unwrap();
    assert!(topic.find_group("another").is_ok());
    *store.0.lock().unwrap() = Some((topic.clone(), group.clone()));
    lab.clock.advance(SECOND);
    assert!(topic.find_group("more").is_ok() && topic.find_group("h").is_err());
    assert_eq!(group.stats().saves_failed, 0);
}

/// Hangs in its first save until it is let go.
struct Stuck(Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>, MemoryOffsets);

impl OffsetStore for Stuck {
    fn load(&self, topic: &str, group: &str, partition: u32) -> Result<Option<u64>, StoreError> {
        self.1.load(topic, group, partition)
    }

    fn save(&self, offsets: &[GroupOffset]) -> Result<(), StoreError> {
        let stuck = self.0.lock().unwrap().take();
        if let Some((says, waits)) = stuck {
            says.send(())?;
            waits.recv()?;
        }
        self.1.save(offsets)
    }
}

/// What says that a store hangs, and what lets it go.
type Hangs = (mpsc::Receiver<()>, mpsc::Sender<()>);

/// A group that has two records to save in a store that hangs.
fn stuck(lab: &Lab) -> (Topic<u64>, Group<u64>, Arc<Stuck>, Hangs) {
    let ((says, said), (goes, waits)) = (mpsc::channel(), mpsc::channel());
    let (topic, store) = (lab.topic(1, 8), Arc::new(Stuck(Mutex::new(Some((says, waits))), MemoryOffsets::new())));
    let group = topic.group("g", with(&store)).unwrap();
    join(&group, lab);
    work(&topic, lab, 2);
    (topic, group, store, (said, goes))
}

// A store that hangs on another thread holds up neither delivery nor the end of a group, and nothing older is kept of it
#[test]
fn while_one_thread_is_stuck_in_a_save_others_leave_it_word_and_the_newest_is_saved() {
    let lab = Lab::new(0);
    let (topic, group, store, (said, goes)) = stuck(&lab);
    let saver = group.clone();
    let saver = std::thread::spawn(move || saver.save_offsets().unwrap());
    said.recv().unwrap();
    work(&topic, &lab, 3);
    assert!(group.delete());
    assert_eq!(store.1.all(), []);
    goes.send(()).unwrap();
    saver.join().unwrap();
    assert_eq!(store.1.all(), [offset(0, 5)]);
}

#[test]
fn who_asks_for_a_save_while_another_thread_is_at_it_waits_until_his_own_is_done() {
    let lab = Lab::new(0);
    let (topic, group, store, (said, goes)) = stuck(&lab);
    let first = group.clone();
    let first = std::thread::spawn(move || first.save_offsets().unwrap());
    said.recv().unwrap();
    work(&topic, &lab, 3);
    let (second, kept) = (group.clone(), store.clone());
    let second = std::thread::spawn(move || second.save_offsets().map(|()| kept.1.all()));
    lab.clock.wait_for_sleepers(1);
    goes.send(()).unwrap();
    assert_eq!(second.join().unwrap(), Ok(vec![offset(0, 5)]));
    first.join().unwrap();
}

// It waits for nothing that it is itself in the middle of, and what the close could not save is saved when it returns
#[test]
fn the_hook_of_a_failed_save_may_close_its_broker_and_take_its_time() {
    let lab = Lab::new(0);
    let (topic, store, broker) = (lab.topic(1, 8), Arc::new(Flaky::default()), lab.broker.clone());
    let mended = store.clone();
    let config = with(&store).on_store_failure(move |_| {
        mended.set(Plan::Works);
        broker.close(None);
    });
    let group = topic.group("g", config).unwrap();
    lab.feed(&topic, 0, 0..3);
    group.seek(0, SeekTo::Latest).unwrap();
    store.set(Plan::Fails);
    lab.clock.advance(SECOND);
    assert!(topic.is_closed());
    assert_eq!((store.inner.all(), group.stats().saves_failed), (vec![offset(0, 3)], 1));
}

#[test]
fn a_store_may_close_its_broker_while_a_close_waits_for_it() {
    let lab = Lab::new(0);
    let ((says, said), (goes, waits)) = (mpsc::channel(), mpsc::channel());
    let (topic, store) = (lab.topic(1, 8), Arc::new(Stuck(Mutex::new(Some((says, waits))), MemoryOffsets::new())));
    let broker = lab.broker.clone();
    let config = with(&store).on_store_failure(move |_| assert!(broker.close(None).stopped));
    let group = topic.group("g", config).unwrap();
    lab.feed(&topic, 0, 0..3);
    group.seek(0, SeekTo::Latest).unwrap();
    let saver = std::thread::spawn(move || group.save_offsets());
    said.recv().unwrap();
    let broker = lab.broker.clone();
    let closer = std::thread::spawn(move || broker.close(None));
    lab.clock.wait_for_sleepers(1);
    drop(goes); // so it fails
    assert!(closer.join().unwrap().stopped);
    saver.join().unwrap().unwrap();
    assert_eq!(store.1.all(), [offset(0, 3)], "saved once more for the one that closed");
}
