//! Rings that shed their oldest records, in random shapes, for as long as is asked.
use std::time::{Duration, Instant};

use super::{Scenario, Shape};
use crate::dice::Dice;

/// A random shape of a ring that sheds. Readers dawdle, are lapped, hold on to the end, leave and come back.
fn shape(seed: u64, records: u64) -> Scenario {
    let mut dice = Dice::new(seed);
    let shape = dice.pick(&[Shape::Shared, Shape::Shared, Shape::Exclusive, Shape::InPlace]);
    let producers = if shape == Shape::Shared { 1 + dice.roll(3) as u32 } else { 1 };
    let batch = if shape == Shape::InPlace { 1 } else { dice.pick(&[1, 1, 2, 5]) };
    let capacity = dice.pick(&[1, 2, 3, 4, 1_024]);
    let records = dice.pick(&[records / 10, records, 3 * records]).max(20);
    let (lapped, holders, leavers) = (dice.roll(3) as usize, dice.roll(3) as usize, dice.roll(2) as usize);
    let first = dice.pick(&[0, 0, 0, (1 << 40) - 50, u64::MAX - 50]);
    let readers = Scenario { lapped, holders, leavers, groups: 0, ..Scenario::default() };
    Scenario { first, capacity, shape, producers, records, batch, lossy: true, ..readers }
}

/// Runs shapes from `seed` on, until `time` is over and one at least; returns how many, and what readers got and missed.
pub(crate) fn run(seed: u64, time: Duration, records: u64) -> (u64, usize, usize, u64) {
    let started = Instant::now();
    let (mut runs, mut published, mut delivered, mut missed) = (0, 0, 0, 0);
    while runs == 0 || started.elapsed() < time {
        let scenario = shape(seed.wrapping_add(runs), records);
        let said = std::panic::catch_unwind(|| super::run(&scenario));
        let Ok((all, got, lost)) = said else { panic!("soak with seed {}: {scenario:?}", seed.wrapping_add(runs)) };
        (runs, published, delivered, missed) = (runs + 1, published + all, delivered + got, missed + lost);
    }
    (runs, published, delivered, missed)
}
