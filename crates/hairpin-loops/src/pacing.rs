//! Due times of messages at a fixed rate.

/// The timetable of a fixed rate: message `k` is due `k / rate` after the start, independently of the other messages.
#[derive(Clone, Copy, Debug)]
pub struct Timetable {
    start_ns: u64,
    period_ns: f64,
}

impl Timetable {
    pub fn new(start_ns: u64, rate_per_s: f64) -> Self {
        Self { start_ns, period_ns: 1e9 / rate_per_s }
    }

    /// When message `number` is due, in ns. Computed from the start, so that rounding errors do not accumulate.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a product of two positive numbers below 2^53"
    )]
    pub fn due_ns(&self, number: u64) -> u64 {
        self.start_ns + (number as f64 * self.period_ns).round() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_errors_do_not_accumulate() {
        let timetable = Timetable::new(100, 3.0);
        assert_eq!(timetable.due_ns(0), 100);
        assert_eq!(timetable.due_ns(1), 333_333_433);
        assert_eq!(timetable.due_ns(3_000_000), 1_000_000_000_000_100);
    }
}
