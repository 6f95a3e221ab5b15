//! What readers hold, and what it costs.
#![forbid(unsafe_code)]

use super::{BOTH, Pen, drain, ring};
use crate::ring::{Peek, Producers};
use crate::seq::Seq;

#[test]
fn what_a_reader_holds_outlives_any_number_of_laps() {
    const LAPS: usize = if cfg!(miri) { 20 } else { 100 };
    for producers in BOTH {
        let ring = ring::<String>(3, producers);
        let (mut pen, mut reader) = (Pen::of(&ring), ring.reader(Seq::ZERO));
        pen.push("kept".to_owned()).unwrap();
        let Peek::Ready(run) = reader.peek(9) else { panic!("nothing there") };
        let kept = run.get(0);
        for n in 0..LAPS {
            pen.push(n.to_string()).unwrap();
        }
        assert_eq!(kept, "kept");
        assert!(ring.pages_aside() >= 1);
        let made = ring.pages_made();
        reader.release();
        for n in 0..LAPS {
            pen.push(n.to_string()).unwrap();
        }
        assert_eq!(ring.pages_made(), made, "pages are used again");
        assert!(made <= 2 + 2 + 1, "{made}");
    }
}

#[test]
fn many_stalled_readers_cost_a_page_each_and_no_more() {
    const STALLED: u64 = if cfg!(miri) { 20 } else { 60 };
    let ring = ring::<u64>(2, Producers::Shared);
    let mut readers = Vec::new();
    for n in 0..STALLED {
        ring.try_push(n).unwrap();
        let mut reader = ring.reader(Seq::new(n));
        assert!(matches!(reader.peek(1), Peek::Ready(run) if *run.get(0) == n));
        readers.push(reader);
    }
    let made = ring.pages_made();
    let held = STALLED as usize / 2;
    assert!((held..=held + 2 + 2).contains(&made), "{made} pages for {held} held");
    for (n, reader) in readers.iter_mut().enumerate() {
        assert!(matches!(reader.peek(1), Peek::Ready(run) if *run.get(0) == n as u64), "overwritten under reader {n}");
    }
    drop(readers);
    (0..STALLED).for_each(|n| {
        ring.try_push(n).unwrap();
    });
    assert_eq!(ring.pages_made(), made);
}

#[test]
fn jump_and_release_leave_the_reader_where_it_was_told() {
    let ring = ring(64, Producers::Shared);
    (0..10u64).for_each(|n| {
        ring.try_push(n).unwrap();
    });
    let mut reader = ring.reader(Seq::new(3));
    assert!(matches!(reader.peek(2), Peek::Ready(run) if run.len() == 2 && *run.get(0) == 3));
    reader.jump(Seq::new(8));
    assert_eq!(drain(&mut reader), [8, 9]);
    reader.jump(Seq::ZERO);
    reader.release();
    assert_eq!((reader.position(), drain(&mut reader).len()), (Seq::ZERO, 10));
    reader.jump(Seq::new(1_000));
    assert!(matches!(reader.peek(1), Peek::Pending));
}
