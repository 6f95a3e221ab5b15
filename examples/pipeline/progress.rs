//! The display while it runs, on stderr and only if that is a terminal: how far the file is read, and how fast each
//! group is and how far behind.
#![forbid(unsafe_code)]

use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::text::{rate, thousands};

/// How often the display is refreshed.
pub(crate) const REFRESH: Duration = Duration::from_millis(100);
/// Over how many refreshes a rate is taken.
const WINDOW: usize = 10;

const MAIN: &str = "  {prefix:<10} {bar:26} {percent:>3} %  {msg}";
const MAIN_ENDLESS: &str = "  {prefix:<10} {spinner}  {binary_bytes}  {msg}";
const GROUP: &str = "  {prefix:<10} {bar:26} {msg}";

/// What a group looks like at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glance {
    pub(crate) handled: u64,
    pub(crate) lag: u64,
}

/// A count's speed over the last [`WINDOW`] refreshes.
#[derive(Debug)]
struct Speed {
    seen: Vec<(Instant, u64)>,
}

impl Speed {
    fn new(now: Instant) -> Self {
        Self { seen: vec![(now, 0)] }
    }

    /// Notes the count at `now` and says how many a second it was lately.
    fn note(&mut self, now: Instant, count: u64) -> String {
        let (then, before) = self.seen[0];
        if self.seen.len() > WINDOW {
            self.seen.remove(0);
        }
        self.seen.push((now, count));
        rate(count.saturating_sub(before), now.saturating_duration_since(then))
    }
}

/// The bars and their speeds.
#[derive(Debug)]
pub(crate) struct Progress {
    main: ProgressBar,
    main_speed: Speed,
    groups: Vec<(ProgressBar, Speed)>,
    multi: MultiProgress,
}

impl Progress {
    /// `bytes` is what the file will give, if known; `room` what the topic holds, so the longest a lag can be.
    pub(crate) fn new(bytes: Option<u64>, room: u64, groups: &[&'static str]) -> Self {
        let multi = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(20));
        let (main, template) = match bytes {
            Some(bytes) => (ProgressBar::new(bytes), MAIN),
            None => (ProgressBar::no_length(), MAIN_ENDLESS),
        };
        let main = multi.add(main.with_style(style(template)).with_prefix("read"));
        let now = Instant::now();
        let bar = |name: &&'static str| {
            let bar = multi.add(ProgressBar::new(room).with_style(style(GROUP)).with_prefix(*name));
            (bar, Speed::new(now))
        };
        let groups = groups.iter().map(bar).collect();
        Self { main, main_speed: Speed::new(now), groups, multi }
    }

    /// Shows the state of things: bytes and rows read, and each group in the order given to `new`.
    pub(crate) fn show(&mut self, bytes: u64, rows: u64, groups: impl Iterator<Item = Glance>) {
        let now = Instant::now();
        self.main.set_position(bytes);
        let speed = self.main_speed.note(now, rows);
        self.main.set_message(format!("{:>9} rows {speed:>11}/s", thousands(rows)));
        for ((bar, past), glance) in self.groups.iter_mut().zip(groups) {
            bar.set_position(glance.lag);
            let speed = past.note(now, glance.handled);
            bar.set_message(format!("{:>6} behind {speed:>16}/s", thousands(glance.lag)));
        }
    }

    /// Takes the display away.
    pub(crate) fn clear(self) {
        let _ = self.multi.clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.progress_chars("█▉▊▋▌▍▎▏ ")
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Glance, Progress, Speed, WINDOW};

    #[test]
    fn speed_forgets_what_is_long_ago() {
        let start = Instant::now();
        let mut speed = Speed::new(start);
        let at = |second: usize| start + Duration::from_secs(second as u64);
        for second in 1..=100 {
            let said = speed.note(at(second), 1000 * second as u64);
            assert_eq!(said, "1,000");
        }
        let mut last = String::new();
        for second in 101..=101 + WINDOW {
            last = speed.note(at(second), 100_000);
        }
        assert_eq!(last, "0");
    }

    #[test]
    fn a_display_without_length_or_room_takes_everything() {
        let mut progress = Progress::new(None, 0, &["a", "b"]);
        progress.multi.set_draw_target(indicatif::ProgressDrawTarget::hidden());
        progress.show(1, 2, [Glance { handled: 3, lag: u64::MAX }].into_iter());
        progress.clear();
    }
}
