//! Medians, ratios and quantiles of measurements.

use serde::{Deserialize, Serialize};

/// Median, minimum and maximum of one number over rounds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct OverRounds {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl OverRounds {
    /// Returns the statistics of one value a round; zeros without a round.
    pub fn of(values: Vec<f64>) -> OverRounds {
        let values = sorted(values);
        let at = |value: Option<&f64>| value.copied().unwrap_or(0.0);
        OverRounds {
            median: median(&values).unwrap_or(0.0),
            min: at(values.first()),
            max: at(values.last()),
        }
    }

    /// Formats as `median (min to max)`.
    pub fn show(&self, each: impl Fn(f64) -> String) -> String {
        format!("{} ({} to {})", each(self.median), each(self.min), each(self.max))
    }
}

/// Quantiles of a latency in nanoseconds; `None` where too few samples support one.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Quantiles {
    /// Transactions that were timed. Results of earlier versions lack the field.
    #[serde(default)]
    pub samples: u64,
    pub p50: Option<u64>,
    pub p90: Option<u64>,
    pub p99: Option<u64>,
    pub max: Option<u64>,
}

impl Quantiles {
    /// Returns the quantiles of a histogram.
    pub fn of(histogram: &hdrhistogram::Histogram<u64>) -> Quantiles {
        let samples = histogram.len();
        // A quantile needs a sample beyond it: with fewer it is the maximum under another name.
        let at = |percent: u64| {
            let is_supported = samples * (100 - percent) >= 100;
            is_supported.then(|| histogram.value_at_quantile(percent as f64 / 100.0))
        };
        let max = (samples > 0).then(|| histogram.max());
        Quantiles { samples, p50: at(50), p90: at(90), p99: at(99), max }
    }
}

/// Returns the values in ascending order.
pub fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Returns the median of sorted values; for an even count the mean of the middle two.
pub fn median(sorted: &[f64]) -> Option<f64> {
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted[sorted.len() / 2]);
    Some((low + high) / 2.0)
}

/// Returns `part / of`, or 0 where `of` is 0: JSON has no infinity.
pub fn ratio(part: f64, of: f64) -> f64 {
    if of > 0.0 { part / of } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[1.0, 2.0, 9.0]), Some(2.0));
    }

    #[test]
    fn quantile_needs_a_sample_beyond_it() {
        let of = |samples: u64| {
            let mut histogram = hdrhistogram::Histogram::<u64>::new(3).unwrap();
            histogram.record_n(100, samples).unwrap();
            let Quantiles { samples: counted, p50, p90, p99, max } = Quantiles::of(&histogram);
            assert_eq!(counted, samples);
            [p50, p90, p99, max].map(|value| value.is_some())
        };
        assert_eq!(of(0), [false; 4]);
        assert_eq!(of(1), [false, false, false, true]);
        assert_eq!(of(2), [true, false, false, true]);
        assert_eq!(of(9), [true, false, false, true]);
        assert_eq!(of(10), [true, true, false, true]);
        assert_eq!(of(99), [true, true, false, true]);
        assert_eq!(of(100), [true; 4]);
    }
}
