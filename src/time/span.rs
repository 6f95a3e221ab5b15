//! How long, in words for people.
#![forbid(unsafe_code)]

use std::fmt;
use std::time::Duration;

/// Displays short times exactly, and long ones in the two units that matter.
#[derive(Clone, Copy, Debug)]
pub struct Span(pub Duration);

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let two = |unit: u64, part: u64| (seconds / unit, seconds % unit / part);
        let ((n, rest), unit, part) = match seconds {
            0..120 => return write!(f, "{:?}", self.0),
            120..HOUR => (two(MINUTE, 1), "min", "s"),
            HOUR..DAY => (two(HOUR, MINUTE), "h", "min"),
            _ => (two(DAY, HOUR), "d", "h"),
        };
        write!(f, "{n} {unit}")?;
        if rest > 0 { write!(f, " {rest} {part}") } else { Ok(()) }
    }
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{DAY, HOUR, MINUTE, Span};
    use std::time::Duration;

    #[test]
    fn short_times_are_exact_and_long_ones_readable() {
        let said = |seconds| Span(Duration::from_secs(seconds)).to_string();
        assert_eq!(Span(Duration::from_micros(1500)).to_string(), "1.5ms");
        assert_eq!((said(0), said(119)), ("0ns".into(), "119s".into()));
        assert_eq!((said(120), said(HOUR - 1)), ("2 min".into(), "59 min 59 s".into()));
        assert_eq!((said(HOUR + MINUTE + 1), said(DAY - 1)), ("1 h 1 min".into(), "23 h 59 min".into()));
        assert_eq!((said(2 * DAY), said(DAY + 2 * HOUR)), ("2 d".into(), "1 d 2 h".into()));
        assert!(said(u64::MAX).ends_with(" h"));
    }
}
