//! What a pool's thread does.
#![forbid(unsafe_code)]

use super::hand::{Hand, Rest};
use super::source::{Source, arm};
use super::{Item, Shared};
use crate::sync::Arc;
use crate::wait::{Spin, WaitPolicy};

/// So many sources that have run dry are armed at once, if there has been no better time before.
const DRY: usize = 64;
/// So many turns come between two looks at the clock.
const TURNS: u32 = 16;

/// Works until the crew ends.
pub(super) fn until_the_end(pool: &Arc<Shared>, mut hand: Hand<Item>) {
    let mut spin = Spin::new(WaitPolicy::Balanced);
    let mut turn = 0_u32;
    loop {
        turn = turn.wrapping_add(1);
        if turn % TURNS == 0 {
            pool.queue_due(&hand);
        }
        match hand.take() {
            Some(item) => {
                step(item, &mut hand);
                spin.reset();
            }
            None if hand.has_later() => arms(&mut hand),
            None if pool.queue_due(&hand) => {}
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

fn step(item: Item, hand: &mut Hand<Item>) {
    let cell = match item {
        Item::Cell(cell) => Some(cell),
        Item::Source(source) => {
            let cell = source.visit(hand);
            if hand.put_later(Item::Source(source)) >= DRY {
                arms(hand);
            }
            cell
        }
    };
    if let Some(cell) = cell {
        cell.run(hand);
    }
}

fn arms(hand: &mut Hand<Item>) {
    let dry = hand.later().into_iter().filter_map(|item| match item {
        Item::Source(source) => Some(source),
        Item::Cell(_) => None,
    });
    arm(dry.collect::<Vec<Arc<Source>>>(), hand);
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
