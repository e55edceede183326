//! Numbers, sizes and times on the command line: one parser for all flags.
//!
//! ```text
//!   4096   64K = 64KiB = 65536   1KB = 1000   1.5G   2T
//!   3      0.5   500ms   2min   1h           (a bare number has the flag's own unit)
//! ```
//!
//! Unit names ignore case. A fraction of a unit is computed exactly and rounded down to whole bytes
//! or nanoseconds.

/// A unit's name in lower case, and its size in bytes or nanoseconds.
type Unit = (&'static str, u128);

const SIZES: [Unit; 17] = [
    ("", 1),
    ("b", 1),
    ("k", 1 << 10),
    ("kib", 1 << 10),
    ("kb", 1000),
    ("m", 1 << 20),
    ("mib", 1 << 20),
    ("mb", 1_000_000),
    ("g", 1 << 30),
    ("gib", 1 << 30),
    ("gb", 1_000_000_000),
    ("t", 1 << 40),
    ("tib", 1 << 40),
    ("tb", 1_000_000_000_000),
    ("p", 1 << 50),
    ("pib", 1 << 50),
    ("pb", 1_000_000_000_000_000),
];

const TIMES: [Unit; 8] = [
    ("ns", 1),
    ("us", MICROSECOND),
    ("ms", MILLISECOND),
    ("s", SECOND),
    ("sec", SECOND),
    ("m", 60 * SECOND),
    ("min", 60 * SECOND),
    ("h", 3600 * SECOND),
];

const MICROSECOND: u128 = 1000;
const MILLISECOND: u128 = 1_000_000;
const SECOND: u128 = 1_000_000_000;

const SIZE_UNITS: &str = "B, K, M, G, T, P (powers of 1024), KiB to PiB, KB to PB (powers of 1000)";
const TIME_UNITS: &str = "ns, us, ms, s, min, h";

/// Parses a number of bytes.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let unit = find(&SIZES, unit).ok_or_else(|| no_unit(unit, "size", SIZE_UNITS))?;
    if unit == 1 && number.decimals > 0 {
        return Err("bytes are whole: give a whole number, or a unit, as in 1.5G".into());
    }
    let bytes = number.times(unit).and_then(|bytes| u64::try_from(bytes).ok());
    bytes.ok_or_else(|| "it is more than 2^64 bytes".into())
}

/// Parses a time in seconds; a bare number is in seconds.
pub(crate) fn seconds(text: &str) -> Result<f64, String> {
    // A bare number may have an exponent.
    if text.ends_with(|c: char| c.is_ascii_digit() || c == '.') {
        return positive(text);
    }
    let ns = time(text, SECOND, 1_000_000_000 * SECOND)?;
    if ns > 0 { Ok(ns as f64 / 1e9) } else { Err("it must be above 0".into()) }
}

/// Parses a latency in nanoseconds, up to a second.
pub(crate) fn nanoseconds(text: &str) -> Result<u64, String> {
    time(text, 1, SECOND)
}

/// Parses a time in whole microseconds, up to an hour.
pub(crate) fn microseconds(text: &str) -> Result<u64, String> {
    Ok(time(text, MICROSECOND, 3600 * SECOND)? / MICROSECOND as u64)
}

/// Parses a time in whole milliseconds, up to an hour.
pub(crate) fn milliseconds(text: &str) -> Result<u64, String> {
    Ok(time(text, MILLISECOND, 3600 * SECOND)? / MILLISECOND as u64)
}

/// Returns nanoseconds; a bare number has the unit `own`.
fn time(text: &str, own: u128, most: u128) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let unit = match unit {
        "" => own,
        unit => find(&TIMES, unit).ok_or_else(|| no_unit(unit, "time", TIME_UNITS))?,
    };
    let most_text = || format!("it must be at most {} s", most / SECOND);
    let ns = number.times(unit).filter(|ns| *ns <= most).ok_or_else(most_text)?;
    u64::try_from(ns).map_err(|_| most_text())
}

/// A decimal number: `digits` shifted by `decimals` places.
struct Number {
    digits: u128,
    decimals: u32,
}

impl Number {
    /// Returns the product with a unit, rounded down; `None` on overflow.
    fn times(&self, unit: u128) -> Option<u128> {
        Some(self.digits.checked_mul(unit)? / 10_u128.checked_pow(self.decimals)?)
    }
}

/// Splits a text into its number and its unit.
fn split(text: &str) -> Result<(Number, &str), String> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err("it must not be negative".into());
    }
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    if whole.is_empty() || fraction.contains('.') || (fraction.is_empty() && number.contains('.')) {
        return Err("it must begin with a number, as 64 or 1.5".into());
    }
    // 10^20 times the largest unit fits into 128 bits.
    if digits.len() > 20 {
        return Err("it has too many digits".into());
    }
    let digits = digits.parse().map_err(|error| format!("{error}"))?;
    Ok((Number { digits, decimals: fraction.len() as u32 }, unit.trim_start()))
}

fn find(units: &[Unit], name: &str) -> Option<u128> {
    let name = name.to_ascii_lowercase();
    units.iter().find(|(known, _)| *known == name).map(|(_, factor)| *factor)
}

fn no_unit(unit: &str, quantity: &str, units: &str) -> String {
    format!("`{unit}` is no unit of {quantity}: use one of {units}")
}

fn number(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if number.is_finite() { Ok(number) } else { Err("it must be finite".into()) }
}

pub(crate) fn positive(text: &str) -> Result<f64, String> {
    let number = number(text)?;
    let fits = number > 0.0 && number <= 1e9;
    if fits { Ok(number) } else { Err("it must be above 0 and at most 10^9".into()) }
}

pub(crate) fn not_negative(text: &str) -> Result<f64, String> {
    let number = number(text)?;
    if number >= 0.0 { Ok(number) } else { Err("it must not be negative".into()) }
}

pub(crate) fn zipf(text: &str) -> Result<f64, String> {
    if text == "uniform" {
        return Ok(0.0);
    }
    let exponent = not_negative(text)?;
    // Beyond, one key takes nearly everything.
    if exponent <= 10.0 { Ok(exponent) } else { Err("it must be at most 10".into()) }
}

pub(crate) fn at_least_one(text: &str) -> Result<u64, String> {
    let number: u64 = text.parse().map_err(|error| format!("{error}"))?;
    if number > 0 { Ok(number) } else { Err("it must be at least 1".into()) }
}

pub(crate) fn workers(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|error| format!("{error}"))?;
    let max = workloads::CLIENTS_MAX;
    if (1..=max).contains(&number) { Ok(number) } else { Err(format!("it must be 1 to {max}")) }
}

pub(crate) fn step_threads(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|error| format!("{error}"))?;
    if (1..=64).contains(&number) { Ok(number) } else { Err("it must be 1 to 64".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_takes_units_and_fractions() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            ("4096B", 4096),
            ("64K", 64 << 10),
            ("64k", 64 << 10),
            ("64KiB", 64 << 10),
            ("64kib", 64 << 10),
            ("64 KiB", 64 << 10),
            ("1KB", 1000),
            ("1.5G", 3 << 29),
            ("1.5GiB", 3 << 29),
            ("1GB", 1_000_000_000),
            ("2.25MB", 2_250_000),
            ("1T", 1 << 40),
            ("1TiB", 1 << 40),
            ("0.5P", 1 << 49),
            ("0.3K", 307),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn invalid_size_is_refused_with_reason() {
        for (text, why) in [
            ("", "begin with a number"),
            ("K", "begin with a number"),
            (".5K", "begin with a number"),
            ("1.", "begin with a number"),
            ("1..5K", "begin with a number"),
            ("+1", "begin with a number"),
            ("-1", "negative"),
            ("-1G", "negative"),
            ("1.5", "bytes are whole"),
            ("1.5B", "bytes are whole"),
            ("1X", "`X` is no unit of size: use one of B, K, M, G, T"),
            ("1e9", "`e9` is no unit"),
            ("1G1", "`G1` is no unit"),
            ("18446744073709551616", "more than 2^64"),
            ("16384P", "more than 2^64"),
            ("99999999999G", "more than 2^64"),
            ("1.000000000000000000000000000000000001K", "too many digits"),
        ] {
            let error = size(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn time_takes_units_and_defaults_to_own() {
        for (text, expected) in [
            ("3", 3.0),
            ("0.5", 0.5),
            ("1e2", 100.0),
            ("500ms", 0.5),
            ("2min", 120.0),
            ("1h", 3600.0),
        ] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        assert_eq!((nanoseconds("300"), nanoseconds("1.5us")), (Ok(300), Ok(1500)));
        assert_eq!((microseconds("500"), microseconds("1ms")), (Ok(500), Ok(1000)));
        assert_eq!((milliseconds("1"), milliseconds("2s")), (Ok(1), Ok(2000)));
        assert_eq!((milliseconds("1h"), microseconds("0")), (Ok(3_600_000), Ok(0)));
    }

    #[test]
    fn invalid_time_is_refused_with_reason() {
        for text in ["0", "-1", "nan", "inf", "0ms", "1x", "", "2e9", "999999999h"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert!(seconds("1x").unwrap_err().contains("ns, us, ms, s, min, h"));
        assert!(nanoseconds("2s").unwrap_err().contains("at most 1 s"));
        assert!(milliseconds("2h").unwrap_err().contains("at most 3600 s"));
    }

    #[test]
    fn invalid_numbers_are_refused() {
        assert!(positive("0").is_err() && positive("nan").is_err() && positive("inf").is_err());
        assert!(not_negative("-1").is_err() && not_negative("0").is_ok());
        assert!(at_least_one("0").is_err());
        assert!(step_threads("0").is_err() && step_threads("65").is_err());
        assert!(workers("0").is_err() && workers("257").is_err() && workers("256").is_ok());
    }
}
