//! What a pool's thread does.
#![forbid(unsafe_code)]

use super::hand::{Hand, Rest};
use super::source::{Source, arm};
use super::{Item, Shared};
use crate::sync::Arc;
use crate::wait::{Spin, WaitPolicy};

/// So many sources that have run dry are armed at once, if there has been no better time before.
const DRY: usize = 64;
/// So many items may be done before what has run dry is armed, once there is nothing else.
const DONE: u32 = 64;
/// So many turns come between two looks at the clock.
const TURNS: u32 = 16;

/// Works until the crew ends.
pub(super) fn until_the_end(pool: &Arc<Shared>, mut hand: Hand<Item>) {
    let mut spin = Spin::new(WaitPolicy::Balanced);
    let (mut turn, mut done, mut long) = (0_u32, 0, false);
    loop {
        turn = turn.wrapping_add(1);
        if turn % TURNS == 0 {
            pool.queue_due(&hand);
        }
        match hand.take(long) {
            Some(item) => {
                long = step(item, &mut hand);
                done += 1;
                spin.reset();
            }
            None if pool.queue_due(&hand) => {}
            None if hand.has_later() > 0 => {
                if done >= DONE || !hand.may_spin() || !spin.turn() || !peeks(&hand) {
                    arms(&mut hand);
                    done = 0;
                }
            }
            None if hand.may_spin() && spin.turn() => {}
            None => {
                if hand.rests(|| pool.timers.next()) == Rest::Ends {
                    return;
                }
                spin.reset();
            }
        }
    }
}

/// Does it; whether it took a whole turn, and more is left.
fn step(item: Item, hand: &mut Hand<Item>) -> bool {
    let (cell, own) = match item {
        Item::Cell(cell) => (Some(cell), 0),
        Item::Source(source) => {
            let cell = source.visit(hand);
            hand.put_later(Item::Source(source));
            (cell, 1)
        }
    };
    // What runs dry behind somebody who has much to do is armed no later than after his turn.
    let busy = cell.is_some_and(|cell| cell.run(hand, own));
    if hand.has_later() >= if busy { 1 } else { DRY } {
        arms(hand);
    }
    busy
}

fn arms(hand: &mut Hand<Item>) {
    let dry = hand.later().into_iter().filter_map(|item| match item {
        Item::Source(source) => Some(source),
        Item::Cell(_) => None,
    });
    arm(dry.collect::<Vec<Arc<Source>>>(), hand);
}

/// Looks at what has run dry, without arming it: what comes while this thread is awake costs its publisher nothing, and to arm
/// interrupts everybody. False: some of it has too many lanes for that.
fn peeks(hand: &Hand<Item>) -> bool {
    let mut all = true;
    hand.looks_at_later(|item| {
        if let Item::Source(source) = item {
            all &= source.peeks(hand);
        }
    });
    all
}

impl Shared {
    /// Queues those whose time has come, and says whether there were any.
    fn queue_due(&self, hand: &Hand<Item>) -> bool {
        if self.timers.next().is_none() {
            return false;
        }
        let due = self.timers.due(hand.clock().now());
        let any = !due.is_empty();
        // Those who have left are dropped after that, under no lock.
        let (wanted, _left): (Vec<_>, Vec<_>) = due.into_iter().partition(|((_, lane), cell)| cell.is_due(*lane));
        hand.put_all(wanted.into_iter().map(|(_, cell)| Item::Cell(cell)));
        any
    }
}
