//! Scale of a chart's axis: positions of values, and ticks.

/// Scale that covers some values.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    log: bool,
    low: f64,
    high: f64,
    /// All values are powers of two, and so are the ticks.
    binary: bool,
}

/// Value that an axis includes besides those of the points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Base {
    /// Zero, unless all values are far from it.
    Zero,
    Values,
}

/// Limit of readable ticks.
const TICKS: usize = 8;

impl Scale {
    /// Returns the scale of all values that it can show, with room at the ends.
    pub(crate) fn of(values: &[f64], log: bool, base: Base) -> Scale {
        let shown = || values.iter().copied().filter(|value| is_shown(*value, log));
        let (low, high) = (shown().fold(f64::MAX, f64::min), shown().fold(f64::MIN, f64::max));
        let binary = shown().all(|value| value > 0.0 && value.log2().fract() == 0.0);
        let (low, high) = match low <= high {
            true => (low, high),
            false => (1.0, 1.0),
        };
        let (low, high) = match (log, base) {
            (true, _) => log_room(low, high),
            (false, Base::Zero) if low >= 0.0 && low < 0.7 * high => (0.0, high * 1.06),
            (false, _) => room(low, high),
        };
        Scale { log, low, high, binary }
    }

    /// Returns the position of a value, clamped to 0..=1.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let at = match self.log {
            true if value <= 0.0 => 0.0,
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => (value - self.low) / (self.high - self.low),
        };
        at.clamp(0.0, 1.0)
    }

    /// Returns the ticks in ascending order.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let ticks = match self.log {
            true if self.binary => self.powers(2.0, &[1.0]),
            true if self.high / self.low >= 500.0 => self.powers(10.0, &[1.0]),
            true => self.powers(10.0, &[1.0, 2.0, 5.0]),
            false => vec![],
        };
        if ticks.len() >= 2 { thinned(ticks) } else { self.even() }
    }

    /// Returns whether the scale can show a value.
    pub(crate) fn shows(&self, value: f64) -> bool {
        is_shown(value, self.log)
    }

    fn powers(&self, base: f64, factors: &[f64]) -> Vec<f64> {
        let exponent = |value: f64| value.log(base).floor() as i32;
        (exponent(self.low)..=exponent(self.high))
            .flat_map(|power| factors.iter().map(move |factor| factor * base.powi(power)))
            .filter(|tick| (self.low..=self.high).contains(tick))
            .collect()
    }

    /// Returns ticks in steps of 1, 2 or 5 times a power of ten.
    fn even(&self) -> Vec<f64> {
        let rough = (self.high - self.low) / 6.0;
        let power = 10f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0];
        let step = power * steps.into_iter().find(|step| step * power >= rough).unwrap_or(10.0);
        let first = (self.low / step - 1e-9).ceil() as i64;
        let last = (self.high / step + 1e-9).floor() as i64;
        // Multiples of the step: sums would accumulate rounding errors.
        (first..=last).map(|count| count as f64 * step).collect()
    }
}

fn is_shown(value: f64, log: bool) -> bool {
    value.is_finite() && (!log || value > 0.0)
}

fn room(low: f64, high: f64) -> (f64, f64) {
    let more = match high > low {
        true => (high - low) * 0.06,
        false => (high.abs() / 2.0).max(0.5),
    };
    (low - more, high + more)
}

fn log_room(low: f64, high: f64) -> (f64, f64) {
    let more = if high > low { (high / low).powf(0.06) } else { 2.0 };
    (low / more, high * more)
}

/// Keeps every second or third tick until few are left.
fn thinned(ticks: Vec<f64>) -> Vec<f64> {
    let step = ticks.len().div_ceil(TICKS);
    ticks.into_iter().step_by(step).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round() {
        let scale = Scale::of(&[0.4, 9.7], false, Base::Zero);
        assert_eq!(scale.ticks(), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(scale.place(0.0), 0.0);
        let scale = Scale::of(&[0.97, 0.99], false, Base::Zero);
        assert!(scale.ticks().len() >= 3);
        assert!(scale.place(0.97) < 0.1, "zero is far away");
    }

    #[test]
    fn logarithmic_ticks_are_powers() {
        let scale = Scale::of(&[1.0, 2.0, 16.0], true, Base::Values);
        assert_eq!(scale.ticks(), [1.0, 2.0, 4.0, 8.0, 16.0]);
        let scale = Scale::of(&[1.0, 30.0, 10_000.0], true, Base::Values);
        assert_eq!(scale.ticks(), [1.0, 10.0, 100.0, 1000.0, 10_000.0]);
        assert!((scale.place(100.0) - 0.5).abs() < 1e-9);
        let scale = Scale::of(&[300e3, 2.1e6], true, Base::Zero);
        assert_eq!(scale.ticks(), [500e3, 1e6, 2e6]);
        assert!(Scale::of(&[1.0, 1e12], true, Base::Values).ticks().len() <= TICKS);
    }

    #[test]
    fn odd_values_make_an_axis() {
        for values in [&[][..], &[0.0], &[3.0], &[f64::NAN], &[-1.0, f64::INFINITY], &[0.0, 5.0]] {
            for log in [false, true] {
                let scale = Scale::of(values, log, Base::Zero);
                assert!(scale.low < scale.high);
                assert!(!scale.ticks().is_empty(), "{values:?} {log}");
                let places = [f64::MIN, 0.0, 1.0, f64::MAX].map(|value| scale.place(value));
                assert!(places.iter().all(|place| (0.0..=1.0).contains(place)));
            }
        }
    }
}
