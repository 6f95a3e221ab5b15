//! How often a failing record is tried, and how long the lane waits in between.
#![forbid(unsafe_code)]

use super::config::ConfigError;
use std::time::Duration;

/// The wait after a failed attempt. Every wait is cut at the policy's `max`.
#[derive(Clone, Debug, PartialEq)]
pub enum Backoff {
    /// The same wait each time.
    Constant(Duration),
    /// `step` times the number of the attempt that failed: 1, 2, 3 steps.
    Linear {
        /// The wait after the first attempt.
        step: Duration,
    },
    /// `first`, then `factor` times the wait before.
    Exponential {
        /// The wait after the first attempt.
        first: Duration,
        /// What the wait is multiplied by each time, at least 1.
        factor: f64,
    },
    /// These waits, in order; the last one repeats. An empty list is no wait.
    List(Vec<Duration>),
}

/// Attempts and backoff of a group.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    attempts: Option<u32>,
    backoff: Backoff,
    max: Duration,
    jitter: f64,
}

impl Default for Retry {
    /// Three attempts, exponential from 1 ms, doubled up to 1 s.
    fn default() -> Self {
        Retry::exponential(3)
    }
}

impl Retry {
    /// `attempts` deliveries at the most; 1 ms, doubled up to 1 s.
    pub fn exponential(attempts: u32) -> Self {
        let backoff = Backoff::Exponential { first: Duration::from_millis(1), factor: 2.0 };
        Retry { attempts: Some(attempts), backoff, max: Duration::from_secs(1), jitter: 0.0 }
    }

    /// `attempts` deliveries at the most, waiting `step`, then two, then three `step`s.
    pub fn linear(attempts: u32, step: Duration) -> Self {
        Self::with(attempts, Backoff::Linear { step })
    }

    /// `attempts` deliveries at the most, always waiting `wait`.
    pub fn constant(attempts: u32, wait: Duration) -> Self {
        Self::with(attempts, Backoff::Constant(wait))
    }

    /// `attempts` deliveries at the most, waiting as listed; the last wait repeats.
    pub fn list(attempts: u32, waits: impl Into<Vec<Duration>>) -> Self {
        Self::with(attempts, Backoff::List(waits.into()))
    }

    fn with(attempts: u32, backoff: Backoff) -> Self {
        Retry { attempts: Some(attempts), backoff, max: Duration::MAX, jitter: 0.0 }
    }

    /// One delivery: the first failure buries.
    pub fn never() -> Self {
        Retry::constant(1, Duration::ZERO)
    }

    /// No limit: a record that always fails holds its partition for ever (and is seen in the lag).
    pub fn unlimited(mut self) -> Self {
        self.attempts = None;
        self
    }

    /// Another first wait for an exponential backoff; no effect on the others.
    pub fn first(mut self, wait: Duration) -> Self {
        if let Backoff::Exponential { first, .. } = &mut self.backoff {
            *first = wait;
        }
        self
    }

    /// Another factor for an exponential backoff; no effect on the others.
    pub fn factor(mut self, by: f64) -> Self {
        if let Backoff::Exponential { factor, .. } = &mut self.backoff {
            *factor = by;
        }
        self
    }

    /// No wait is longer than this.
    pub fn max(mut self, wait: Duration) -> Self {
        self.max = wait;
        self
    }

    /// Shortens each wait by a random part of it, up to this fraction (default 0: not at all), so that those who failed together
    /// do not come back together. With 0.5 a wait of 8 ms becomes one between 4 and 8; with 1 it may become none. A wait that
    /// the handler names itself stays as it is.
    ///
    /// The dice are the broker's ([`BrokerConfig::random`](crate::BrokerConfig::random)): with a seed of your own the waits are
    /// the same in every run.
    ///
    /// ```
    /// use ringlog::Retry;
    /// use std::time::Duration;
    ///
    /// let retry = Retry::exponential(5).first(Duration::from_millis(100)).jitter(0.5);
    /// # let _ = retry;
    /// ```
    pub fn jitter(mut self, fraction: f64) -> Self {
        self.jitter = fraction;
        self
    }

    pub(super) fn has_jitter(&self) -> bool {
        self.jitter > 0.0
    }

    /// The wait after the `attempt`-th failure, as the dice fell: any number, each equally likely.
    pub(super) fn jittered(&self, attempt: u32, roll: u64) -> Duration {
        let wait = self.delay_after(attempt);
        let part = self.jitter * (roll >> 11) as f64 / (1_u64 << 53) as f64;
        wait.saturating_sub(wait.mul_f64(part.clamp(0.0, 1.0)))
    }

    /// The limit on deliveries; `None`: there is none.
    pub fn attempts(&self) -> Option<u32> {
        self.attempts
    }

    /// Whether a record that failed for the `attempt`-th time (from 1) is tried again.
    pub fn allows_another(&self, attempt: u32) -> bool {
        self.attempts.is_none_or(|limit| attempt < limit)
    }

    /// The wait after the `attempt`-th failure (from 1), before any [jitter](Self::jitter).
    pub fn delay_after(&self, attempt: u32) -> Duration {
        let turn = attempt.max(1);
        let wait = match &self.backoff {
            Backoff::Constant(wait) => *wait,
            Backoff::Linear { step } => step.saturating_mul(turn),
            Backoff::Exponential { first, factor } => grow(*first, *factor, turn - 1),
            Backoff::List(waits) => waits.get(turn as usize - 1).or(waits.last()).copied().unwrap_or(Duration::ZERO),
        };
        wait.min(self.max)
    }

    pub(super) fn validate(&self) -> Result<(), ConfigError> {
        if self.attempts == Some(0) {
            return Err(ConfigError::new("retry.attempts", "0", "at least 1"));
        }
        if !(0.0..=1.0).contains(&self.jitter) {
            return Err(ConfigError::new("retry.jitter", self.jitter.to_string(), "between 0 and 1"));
        }
        match self.backoff {
            Backoff::Exponential { factor, .. } if !(factor >= 1.0 && factor.is_finite()) => {
                Err(ConfigError::new("retry.factor", factor.to_string(), "a finite number of at least 1"))
            }
            _ => Ok(()),
        }
    }
}

/// `first * factor^times`, without a panic at any value.
fn grow(first: Duration, factor: f64, times: u32) -> Duration {
    let power = factor.powi(i32::try_from(times).unwrap_or(i32::MAX));
    if first.is_zero() {
        return Duration::ZERO;
    }
    Duration::try_from_secs_f64(first.as_secs_f64() * power).unwrap_or(Duration::MAX)
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::Retry;
    use std::time::Duration;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    fn waits(retry: &Retry, n: u32) -> Vec<Duration> {
        (1..=n).map(|attempt| retry.delay_after(attempt)).collect()
    }

    // A-29, A-30
    #[test]
    fn an_exponential_backoff_doubles_up_to_its_cap() {
        let retry = Retry::exponential(3).max(ms(50));
        assert_eq!(waits(&retry, 8), [ms(1), ms(2), ms(4), ms(8), ms(16), ms(32), ms(50), ms(50)]);
        assert!(retry.allows_another(1) && retry.allows_another(2) && !retry.allows_another(3));
    }

    // C-17
    #[test]
    fn linear_constant_and_listed_backoffs_are_what_they_say() {
        assert_eq!(waits(&Retry::linear(3, ms(100)), 3), [ms(100), ms(200), ms(300)]);
        assert_eq!(waits(&Retry::constant(3, ms(7)), 2), [ms(7), ms(7)]);
        assert_eq!(waits(&Retry::list(9, [ms(1), ms(9)]), 3), [ms(1), ms(9), ms(9)]);
        assert_eq!(waits(&Retry::list(9, []), 1), [Duration::ZERO]);
        assert_eq!(waits(&Retry::list(9, [ms(1), ms(9)]).max(ms(5)), 2), [ms(1), ms(5)]);
    }

    #[test]
    fn extreme_waits_and_attempts_are_harmless() {
        let longest = Retry::exponential(1).first(Duration::MAX).factor(f64::MAX).max(Duration::MAX);
        assert_eq!(longest.delay_after(u32::MAX), Duration::MAX);
        assert_eq!(Retry::linear(1, Duration::MAX).delay_after(u32::MAX), Duration::MAX);
        assert_eq!(Retry::constant(1, Duration::ZERO).delay_after(0), Duration::ZERO);
        assert!(Retry::never().unlimited().allows_another(u32::MAX));
    }

    // A-31
    #[test]
    fn impossible_policies_are_refused_with_field_value_and_bound() {
        let text = Retry::exponential(0).validate().unwrap_err().to_string();
        assert_eq!(text, "retry.attempts is 0, but must be at least 1");
        assert!(Retry::exponential(1).factor(f64::NAN).validate().is_err());
        assert!(Retry::exponential(1).factor(0.5).validate().is_err());
        assert!(Retry::exponential(1).validate().is_ok());
        let text = Retry::never().jitter(1.5).validate().unwrap_err().to_string();
        assert_eq!(text, "retry.jitter is 1.5, but must be between 0 and 1");
        assert!(Retry::never().jitter(f64::NAN).validate().is_err() && Retry::never().jitter(-0.1).validate().is_err());
        assert!(Retry::never().jitter(1.0).validate().is_ok());
    }

    // A-E9
    #[test]
    fn jitter_shortens_a_wait_by_no_more_than_its_fraction() {
        let retry = Retry::constant(9, ms(8)).jitter(0.5);
        assert_eq!((retry.jittered(1, 0), retry.jittered(1, 1 << 63)), (ms(8), ms(6)));
        let least = retry.jittered(1, u64::MAX);
        assert!(least >= ms(4) && least < ms(5), "{least:?}");
        let all = Retry::constant(9, Duration::MAX).jitter(1.0);
        assert!(all.jittered(1, u64::MAX) < Duration::MAX);
        assert_eq!(Retry::constant(9, ms(8)).jittered(1, u64::MAX), ms(8));
    }
}
