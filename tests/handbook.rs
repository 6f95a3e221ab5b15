//! The example `handbook` tells its story to the last figure, however its threads are scheduled.
#![forbid(unsafe_code)]

#[allow(dead_code, reason = "an example has a main")]
#[path = "../examples/handbook.rs"]
mod handbook;

const STORY: &str = "\
published alice:created to p1@0
published bob:created to p0@0
published alice:paid to p1@1
published bob:cancelled to p0@1
published alice:shipped to p1@2
published carol:created to p1@3
billing 6 of 6, audit 6 of 6
alice's order [\"alice:created\", \"alice:paid\", \"alice:shipped\"]
shipping delivered=5, retried=7, dead_lettered=1, skipped=0
shipping saw alice:paid 2 times
dead letter after 3 attempts: bob:cancelled (ConsumerError: cannot process bob:cancelled)
lag before replay billing=0
billing after replay from 0: 12 records
broker state=stopped, dead letters=1, left=0
";

//
#[test]
fn the_handbook_tells_its_six_events_to_the_last_figure() {
    for _ in 0..20 {
        let mut told = Vec::new();
        handbook::tell(&mut told).unwrap();
        assert_eq!(String::from_utf8(told).unwrap(), STORY);
    }
}
