//! Numbers and times as people read them, and the little styling a terminal gets.
#![forbid(unsafe_code)]

use std::io::IsTerminal;
use std::time::Duration;

/// `1234567` as `1,234,567`.
pub(crate) fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A time with three digits that matter and a fitting unit: `840 ns`, `12.3 µs`, `4.56 ms`, `78.9 s`, `3 min 07 s`.
pub(crate) fn time(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos < 1_000 {
        return format!("{nanos} ns");
    }
    if duration.as_secs() >= 120 {
        return format!("{} min {:02} s", duration.as_secs() / 60, duration.as_secs() % 60);
    }
    let nanos = nanos as f64;
    let (value, unit) = match nanos {
        n if n < 999_500.0 => (n / 1e3, "µs"),
        n if n < 999_500_000.0 => (n / 1e6, "ms"),
        n => (n / 1e9, "s"),
    };
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$} {unit}")
}

/// How many a second, rounded so that it does not pretend: three digits that matter.
pub(crate) fn rate(count: u64, elapsed: Duration) -> String {
    let exact = count as f64 / elapsed.as_secs_f64().max(1e-9);
    if count == 0 {
        return "0".to_owned();
    }
    if exact < 1.0 {
        return format!("{exact:.1}");
    }
    let step = 10f64.powf((exact.log10().floor() - 2.0).max(0.0));
    thousands(((exact / step).round() * step) as u64)
}

/// `one` or `many`, by number.
pub(crate) fn plural<'a>(number: u64, one: &'a str, many: &'a str) -> &'a str {
    if number == 1 { one } else { many }
}

/// A bar of `width` cells, filled in eighths of a cell in proportion of `value` to `most`.
pub(crate) fn bar(value: f64, most: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    if !(value > 0.0 && most > 0.0) {
        return String::new();
    }
    let eighths = ((value / most).min(1.0) * width as f64 * 8.0).round().max(1.0) as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// Text found in a file, made fit for one line of a terminal: quoted, control characters escaped, not too long.
pub(crate) fn excerpt(found: &[u8]) -> String {
    const CHARS_MAX: usize = 40;
    let mut shown = String::new();
    let mut left = CHARS_MAX;
    for chunk in found.utf8_chunks() {
        let chars = chunk.valid().chars().map(|c| show(c).collect::<String>());
        let bytes = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}"));
        for piece in chars.chain(bytes) {
            if left == 0 {
                return format!("\"{shown}…\"");
            }
            left -= 1;
            shown.push_str(&piece);
        }
    }
    format!("\"{shown}\"")
}

/// `c` as it is if it prints, and escaped if it could upset a terminal.
fn show(c: char) -> impl Iterator<Item = char> {
    let plain =
        !c.is_control() && !matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let escaped = (!plain).then(|| c.escape_default());
    plain.then_some(c).into_iter().chain(escaped.into_iter().flatten())
}

/// Bold and dim, on a terminal that can; nothing elsewhere.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    on: bool,
}

impl Style {
    /// For what is written to stdout.
    pub(crate) fn of_stdout() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let able = std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        Self { on: wanted && able && std::io::stdout().is_terminal() }
    }

    #[cfg(test)]
    pub(crate) fn plain() -> Self {
        Self { on: false }
    }

    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub(crate) fn alarm(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{bar, excerpt, rate, thousands, time};

    #[test]
    fn thousands_are_set_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (336_776, "336,776"), (1_000_000, "1,000,000")]
        {
            assert_eq!(thousands(number), text);
        }
        assert_eq!(thousands(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn times_have_three_digits_and_a_unit() {
        let cases = [
            (0, "0 ns"),
            (999, "999 ns"),
            (1_000, "1.00 µs"),
            (12_345, "12.3 µs"),
            (999_499, "999 µs"),
            (999_500, "1.00 ms"),
            (99_949_999, "99.9 ms"),
            (1_234_000_000, "1.23 s"),
            (119_000_000_000, "119 s"),
            (187_000_000_000, "3 min 07 s"),
        ];
        for (nanos, text) in cases {
            assert_eq!(time(Duration::from_nanos(nanos)), text);
        }
    }

    #[test]
    fn rates_do_not_pretend() {
        let second = Duration::from_secs(1);
        for (count, text) in [(0, "0"), (7, "7"), (999, "999"), (123_456, "123,000"), (1_995_000, "2,000,000")] {
            assert_eq!(rate(count, second), text);
        }
        assert_eq!(rate(1, Duration::from_secs(10)), "0.1");
        assert_eq!(rate(0, Duration::ZERO), "0");
    }

    #[test]
    fn bars_keep_to_their_width() {
        assert_eq!(bar(1.0, 1.0, 3), "███");
        assert_eq!(bar(9.0, 1.0, 3), "███");
        assert_eq!(bar(0.5, 1.0, 1), "▌");
        assert_eq!(bar(1e-9, 1.0, 3), "▏");
        for nothing in [bar(0.0, 1.0, 3), bar(-1.0, 1.0, 3), bar(1.0, 0.0, 3), bar(f64::NAN, 1.0, 3)] {
            assert_eq!(nothing, "");
        }
    }

    #[test]
    fn excerpts_are_short_and_harmless() {
        assert_eq!(excerpt(b"abc"), "\"abc\"");
        assert_eq!(excerpt(b"a\x1b[31m\t"), "\"a\\u{1b}[31m\\t\"");
        assert_eq!(excerpt(b"a\xff\xfeb"), "\"a\\xff\\xfeb\"");
        assert_eq!(excerpt("é".repeat(41).as_bytes()), format!("\"{}…\"", "é".repeat(40)));
    }
}
