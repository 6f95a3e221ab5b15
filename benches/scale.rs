//! What a subscription costs, in bytes and in time, when there are many: `scale [topics|groups] [polled|pushed] [COUNT..]`,
//! `scale churn [COUNT]`, `scale idle [COUNT..]`.
//!
//! Two shapes: so many topics of one subscription each, and one topic with so many subscriptions; a subscription is a group
//! of one member, with nothing published. Members are consumers (`polled`), or handlers on an executor that steps nobody by
//! itself (`pushed`). Bytes are those that were asked of the allocator; the resident set stands beside them. Each step is timed in its tenths:
//! what costs the same for the last as for the first has no factor, and the factor of the last tenth against the first is
//! printed.
#![forbid(unsafe_code)]

use std::alloc::System;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use ringlog::{Broker, Consumer, Group, GroupConfig, Manual, Member, Pool, Topic, TopicConfig};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const COUNTS: [usize; 3] = [1_000, 10_000, 100_000];
/// The smallest ring that anybody would take.
const CAPACITY: usize = 16;

/// Bytes in use.
fn in_use() -> i64 {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated as i64 - stats.bytes_deallocated as i64
}

/// Bytes resident, as the system counts them.
fn resident() -> i64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<i64>().ok());
    pages.unwrap_or(0) * 4_096
}

/// One step for each of `count`, with what it cost.
fn each<R>(what: &str, count: usize, mut step: impl FnMut(usize) -> R) -> Vec<R> {
    let (bytes, pages, start) = (in_use(), resident(), Instant::now());
    let mut done = Vec::with_capacity(count);
    let kept = count * size_of::<R>();
    let mut tenths = Vec::with_capacity(10);
    for tenth in 0..10 {
        let start = Instant::now();
        done.extend((count * tenth / 10..count * (tenth + 1) / 10).map(&mut step));
        tenths.push(start.elapsed().as_secs_f64());
    }
    let took = start.elapsed().as_secs_f64();
    let per = |bytes: i64| bytes as f64 / count as f64;
    let (bytes, pages) = (per(in_use() - bytes - kept as i64), per(resident() - pages - kept as i64));
    let factor = tenths[9] / tenths[0].max(1e-9);
    let micros = took * 1e6 / count as f64;
    println!(
        "{what:<24} {count:>7}: {micros:>9.2} us each, last tenth {factor:>6.2} x first, {bytes:>8.0} B, resident {pages:>8.0} B"
    );
    done
}

enum Joined {
    Polled(#[expect(dead_code, reason = "kept alive")] Consumer<u64>),
    Pushed(Member<u64>),
}

/// A group of one member.
fn group(topic: &Topic<u64>, name: &str) -> Group<u64> {
    topic.group(name, GroupConfig::latest()).expect("a group")
}

fn join(group: &Group<u64>, manual: Option<&Manual>) -> Joined {
    match manual {
        None => Joined::Polled(group.consumer("m").expect("a consumer")),
        Some(manual) => Joined::Pushed(group.member("m").run(manual).subscribe(|_| ()).expect("a member")),
    }
}

fn part(joined: Joined) {
    if let Joined::Pushed(member) = joined {
        member.leave();
    }
}

fn settings() -> TopicConfig<u64> {
    TopicConfig::mailbox().capacity(CAPACITY)
}

fn topics(count: usize, manual: Option<&Manual>) {
    let broker = Broker::new();
    let mut topics =
        each("topics: topic", count, |n| broker.create_topic(&format!("t{n}"), settings()).expect("a topic"));
    each("topics: look-up", count, |n| drop(broker.topic::<u64>(&format!("t{n}")).expect("there")));
    let groups = each("topics: group", count, |n| group(&topics[n], "g"));
    let mut joined = each("topics: member", count, |n| join(&groups[n], manual));
    each("topics: publish", count, |n| topics[n].publish(1).expect("room"));
    joined.reverse();
    each("topics: leave", count, |_| joined.pop().map(part));
    each("topics: delete group", count, |n| groups[n].delete());
    drop(groups);
    topics.reverse();
    each("topics: delete topic", count, |_| topics.pop().map(|topic| broker.delete_topic(topic.name())));
}

fn groups(count: usize, manual: Option<&Manual>) {
    let broker = Broker::new();
    let topic = broker.create_topic("t", settings()).expect("a topic");
    let mut groups = each("groups: group", count, |n| group(&topic, &format!("g{n}")));
    each("groups: look-up", count, |n| drop(topic.find_group(&format!("g{n}")).expect("there")));
    let mut joined = each("groups: member", count, |n| join(&groups[n], manual));
    each("groups: publish", CAPACITY, |_| topic.publish(1).expect("room"));
    joined.reverse();
    each("groups: leave", count, |_| joined.pop().map(part));
    groups.reverse();
    each("groups: delete group", count, |_| groups.pop().map(|group| group.delete()));
}

/// Processor time of all threads, as the system counts it.
fn processor() -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let spent =
        |path: PathBuf| std::fs::read_to_string(path.join("schedstat")).ok()?.split(' ').next()?.parse::<u64>().ok();
    Duration::from_nanos(threads.filter_map(|thread| spent(thread.path())).sum())
}

/// What members of a pool cost that have nothing to do, for a minute.
fn idle(count: usize) {
    const SPAN: Duration = Duration::from_secs(60);
    let (broker, pool) = (Broker::new(), Pool::new());
    let member = |n: usize| {
        let topic = broker.create_topic(&format!("t{n}"), settings()).expect("a topic");
        group(&topic, "g").member("m").run(&pool).subscribe(|_| ()).expect("a member")
    };
    let members: Vec<Member<u64>> = (0..count).map(member).collect();
    std::thread::sleep(Duration::from_secs(3)); // threads that are not needed any more end
    let before = processor();
    std::thread::sleep(SPAN);
    let spent = (processor() - before).as_secs_f64() / SPAN.as_secs_f64();
    println!("idle: {count:>7} members of a pool, {:.4} % of a processor", spent * 100.0);
    drop(members);
}

/// Makes and deletes a topic, its group and its subscription over and over, and says what is in use now and then.
fn churn(count: usize) {
    let broker = Broker::new();
    let once = |n: usize| {
        let topic = broker
            .create_topic(&format!("t{n}"), TopicConfig::<String>::mailbox().capacity(CAPACITY))
            .expect("a topic");
        let group = topic.group("g", GroupConfig::latest()).expect("a group");
        let manual = Manual::new(1);
        let member = group.member("m").run(&manual).subscribe(|_| ()).expect("a member");
        topic.publish(format!("record {n}")).expect("room");
        manual.run(10);
        assert!(member.leave() && group.delete());
        broker.delete_topic(topic.name()).expect("there");
    };
    let start = Instant::now();
    for tenth in 0..=10 {
        println!(
            "churn: {:>8} lives, {:>8} B in use, resident {:>9} B, {:.1} s",
            count * tenth / 10,
            in_use(),
            resident(),
            start.elapsed().as_secs_f64()
        );
        (count * tenth / 10..count * (tenth + 1) / 10).filter(|_| tenth < 10).for_each(once);
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |word: &str| arguments.iter().any(|argument| argument == word);
    let counts: Vec<usize> = arguments.iter().filter_map(|argument| argument.parse().ok()).collect();
    if has("churn") {
        return churn(counts.first().copied().unwrap_or(1_000_000));
    }
    if has("idle") {
        let counts = if counts.is_empty() { &[1, 100_000] } else { &*counts };
        return counts.iter().copied().for_each(idle);
    }
    let counts = if counts.is_empty() { COUNTS.to_vec() } else { counts };
    for pushed in [false, true] {
        let (this, other) = if pushed { ("pushed", "polled") } else { ("polled", "pushed") };
        if has(other) && !has(this) {
            continue;
        }
        println!("-- {this}");
        for &count in &counts {
            if !has("groups") || has("topics") {
                let manual = pushed.then(|| Manual::new(1));
                topics(count, manual.as_ref());
            }
            if !has("topics") || has("groups") {
                let manual = pushed.then(|| Manual::new(1));
                groups(count, manual.as_ref());
            }
        }
    }
}
