//! Memory of a ring that sheds: bounded while readers sit on pages, back to normal when they have gone.
use std::sync::Arc;

use super::Stage;
use super::actors::{Pen, publish};
use crate::support::history::Published;

/// Pages that a ring of this capacity has in its table, and slots in each.
fn pages_of(capacity: usize) -> (usize, usize) {
    let slots = (capacity / 8).max(capacity.min(128)).next_power_of_two();
    (capacity.div_ceil(slots) + 1, slots)
}

/// All readers have gone: publishes on until every page has come round, and returns what it published.
///
/// # Panics
/// When more pages were made than readers, claims and producers account for, or pages stay aside that nobody needs.
pub(crate) fn settles(stage: &Arc<Stage>, pen: &mut Pen, before: u64) -> Vec<Published> {
    let (scenario, ring) = (&stage.scenario, &stage.ring);
    let (table, slots) = pages_of(scenario.capacity);
    let readers = scenario.lapped + scenario.holders + scenario.leavers;
    // A claim that is not finished keeps each page that it touches.
    let claim = scenario.batch.min(scenario.capacity).div_ceil(slots) + usize::from(scenario.batch > 1);
    let (made, most) = (ring.pages_made(), table + 2 + readers + scenario.producers as usize * (2 + claim));
    assert!(made <= most, "{made} pages made, at most {most} are needed: {scenario:?}");
    let own = before / u64::from(scenario.producers);
    let rounds = 2 * (made * slots) as u64;
    let mut published = Vec::new();
    let step = scenario.batch.min(scenario.capacity) as u64;
    for n in (0..rounds).step_by(step as usize) {
        published.extend(publish(stage, 0, own + n..own + n + step, pen));
    }
    assert_eq!(ring.why_stalled(), [], "nobody is left who could keep a page: {scenario:?}");
    assert_eq!(ring.pages_made(), made, "no page is made while nobody holds one: {scenario:?}");
    published
}
