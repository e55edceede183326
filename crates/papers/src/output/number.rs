//! Numbers for people: three significant digits, `k`, `M` and `G` for powers of 1000.

use crate::statistics::OverRounds;

/// Formats with three significant digits and the power of 1000: `0.970`, `12.0`, `5.71 M`.
pub(crate) fn number(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    let step = 10f64.powi(exponent(value) - 2);
    let rounded = (value / step).round() * step;
    let (scaled, power) = match rounded.abs() {
        n if n >= 1e9 * LEAST => (rounded / 1e9, " G"),
        n if n >= 1e6 * LEAST => (rounded / 1e6, " M"),
        n if n >= 1e3 * LEAST => (rounded / 1e3, " k"),
        n if n < 1e-6 => return format!("{value:.2e}"),
        _ => (rounded, ""),
    };
    let decimals = usize::try_from(2 - exponent(scaled)).unwrap_or(0);
    format!("{scaled:.decimals$}{power}")
}

/// Formats as short as possible, for ticks: `0.5`, `3500`, `20k`.
pub(crate) fn tick(value: f64) -> String {
    if value.abs() < 10_000.0 && value.fract() == 0.0 {
        return format!("{value}");
    }
    let text = number(value);
    let (digits, power) = text.split_once(' ').unwrap_or((&text, ""));
    let is_cut = digits.contains('.') && !digits.contains('e');
    let digits = if is_cut { digits.trim_end_matches('0').trim_end_matches('.') } else { digits };
    format!("{digits}{power}")
}

/// Formats a number with its unit; a ratio has none.
pub(crate) fn with_unit(value: f64, unit: &str) -> String {
    match unit {
        "" | "ratio" => number(value),
        "/s" => format!("{}/s", number(value)),
        unit => format!("{} {unit}", number(value)),
    }
}

/// Converts a time to the unit that suits its median, as in 1.2 ms; returns other values unchanged.
pub(crate) fn in_its_unit<'u>(over: &OverRounds, unit: &'u str) -> (OverRounds, &'u str) {
    const TIMES: [&str; 4] = ["ns", "us", "ms", "s"];
    let (mut over, mut unit) = (*over, unit);
    while let Some(next) = TIMES.iter().position(|time| *time == unit).map(|at| at + 1)
        && next < TIMES.len()
        && over.median.abs() >= 1000.0
    {
        unit = TIMES[next];
        let OverRounds { median, min, max } = over;
        over = OverRounds { median: median / 1e3, min: min / 1e3, max: max / 1e3 };
    }
    (over, unit)
}

/// Formats minimum and maximum without a unit; `None` if they print alike.
pub(crate) fn spread(over: &OverRounds) -> Option<String> {
    let (min, max) = (number(over.min), number(over.max));
    (min != max).then(|| format!("{min} to {max}"))
}

/// Tolerance that lets a power of 1000 with a rounding error count as one.
const LEAST: f64 = 1.0 - 1e-9;

/// Returns the decimal exponent of the first digit.
fn exponent(value: f64) -> i32 {
    (value.abs().log10() + 1e-9).floor() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_has_three_significant_digits() {
        let cases = [
            (0.0, "0"),
            (0.97, "0.970"),
            (0.031_24, "0.0312"),
            (1.0, "1.00"),
            (12.0, "12.0"),
            (999.4, "999"),
            (999.6, "1.00 k"),
            (1000.0, "1.00 k"),
            (310_000.0, "310 k"),
            (5_712_345.0, "5.71 M"),
            (-20_500.0, "-20.5 k"),
            (3e9, "3.00 G"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn ticks_are_short() {
        let cases =
            [(0.5, "0.5"), (1.0, "1"), (3500.0, "3500"), (20_000.0, "20k"), (2.5e6, "2.5M")];
        for (value, text) in cases {
            assert_eq!(tick(value), text);
        }
        assert_eq!(tick(100_000.0), "100k");
    }

    #[test]
    fn ratio_has_no_unit() {
        assert_eq!(with_unit(0.97, "ratio"), "0.970");
        assert_eq!(with_unit(0.97, ""), "0.970");
        assert_eq!(with_unit(93.04, "%"), "93.0 %");
        assert_eq!(with_unit(5_712_345.0, "tx/s"), "5.71 M tx/s");
    }

    #[test]
    fn long_time_has_a_larger_unit() {
        let over = OverRounds { median: 12_400.0, min: 900.0, max: 1e6 };
        let larger = OverRounds { median: 12.4, min: 0.9, max: 1000.0 };
        assert_eq!(in_its_unit(&over, "ns"), (larger, "us"));
        assert_eq!(in_its_unit(&over, "tx"), (over, "tx"));
        assert_eq!(in_its_unit(&OverRounds { median: 5e9, ..over }, "us").1, "s");
        assert_eq!(with_unit(2e6, "/s"), "2.00 M/s");
    }

    #[test]
    fn single_round_has_no_spread() {
        assert_eq!(spread(&OverRounds { median: 2.0, min: 2.0, max: 2.0 }), None);
        let over = OverRounds { median: 2.0, min: 1.0, max: 3.0 };
        assert_eq!(spread(&over).as_deref(), Some("1.00 to 3.00"));
    }
}
