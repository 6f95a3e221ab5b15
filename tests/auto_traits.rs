//! Which handles cross threads, and which payloads keep them from it: decided by the types, checked here by the compiler.
//!
//! A record is read by shared reference from several threads at once, so a handle is `Send` and `Sync` exactly when its
//! payload is both.
use ringlog::{
    Account, Batch, Broker, BrokerConfig, Gap, Group, GroupConfig, GroupStats, Letter, Manual, ManualClock, Member,
    Outcome, PartitionStats, Producer, PublishError, Record, SystemClock, Topic, TopicConfig, Worker,
};
use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::MutexGuard;

/// `Is::<T>::SEND` and `Is::<T>::SYNC` are the inherent constants where the bound holds, else those of [`Not`].
struct Is<T: ?Sized>(PhantomData<T>);

trait Not {
    const SEND: bool = false;
    const SYNC: bool = false;
}

impl<T: ?Sized> Not for Is<T> {}

struct IsSync<T: ?Sized>(PhantomData<T>);

impl<T: ?Sized> Not for IsSync<T> {}

impl<T: ?Sized + Send> Is<T> {
    const SEND: bool = true;
}

impl<T: ?Sized + Sync> IsSync<T> {
    const SYNC: bool = true;
}

macro_rules! both {
    ($($type:ty),* $(,)?) => {
        $(const { assert!(Is::<$type>::SEND && IsSync::<$type>::SYNC, "must cross threads") };)*
    };
}

macro_rules! neither {
    ($($type:ty),* $(,)?) => {
        $(const {
            const { assert!(!Is::<$type>::SEND, "must not be sent") };
            const { assert!(!IsSync::<$type>::SYNC, "must not be shared") };
        };)*
    };
}

#[test]
fn the_check_itself_tells_them_apart() {
    both!(u64, String, std::sync::Arc<String>);
    neither!(Rc<()>);
    const { assert!(Is::<Cell<u8>>::SEND && !IsSync::<Cell<u8>>::SYNC) };
    const { assert!(!Is::<MutexGuard<'static, u8>>::SEND && IsSync::<MutexGuard<'static, u8>>::SYNC) };
}

#[test]
fn handles_of_shareable_payloads_cross_threads() {
    both!(Broker, BrokerConfig, Worker, Manual, ManualClock, SystemClock, Account, GroupStats, Outcome);
    both!(Topic<String>, TopicConfig<String>, Group<String>, GroupConfig<String>, Member<String>);
    both!(Producer<String>, PublishError<String>, Letter, Gap, PartitionStats);
    both!(ringlog::Last<String>, ringlog::LastValue<String>, ringlog::LastValues<String, u64>);
    both!(Record<'static, String>, Batch<'static, String>);
    both!(ringlog::Consumer<String>, ringlog::Receipt, ringlog::OwnedBatch<String>, ringlog::Select);
}

#[cfg(target_os = "linux")]
#[test]
fn a_descriptor_crosses_threads() {
    both!(ringlog::EventFd);
}

#[test]
fn handles_of_payloads_that_belong_to_one_thread_do_not() {
    both!(ringlog::Receipt); // it knows nothing of the payload
    neither!(Topic<Rc<()>>, Group<Rc<()>>, Member<Rc<()>>, Producer<Rc<()>>, Record<'static, Rc<()>>);
}

#[test]
fn a_payload_that_is_only_send_or_only_sync_is_not_enough() {
    neither!(Topic<Cell<u8>>, Group<Cell<u8>>, Producer<Cell<u8>>);
    neither!(Topic<MutexGuard<'static, u8>>, Group<MutexGuard<'static, u8>>, Producer<MutexGuard<'static, u8>>);
    const { assert!(!Is::<Record<'static, Cell<u8>>>::SEND, "a record is a shared reference") };
}
