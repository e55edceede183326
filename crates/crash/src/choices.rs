//! Choices as text: `0*12,1` is twelve times 0, and then 1.

use std::fmt;

/// Limit of the choices of an execution.
const CHOICES_MAX: usize = 1 << 20;

/// Writes choices.
pub(crate) fn write(f: &mut fmt::Formatter<'_>, choices: &[u16]) -> fmt::Result {
    for (number, run) in choices.chunk_by(|a, b| a == b).enumerate() {
        let comma = if number == 0 { "" } else { "," };
        match run {
            [once] => write!(f, "{comma}{once}")?,
            _ => write!(f, "{comma}{}*{}", run[0], run.len())?,
        }
    }
    Ok(())
}

/// Reads choices, or returns the part that is none.
pub(crate) fn parse(text: &str) -> Result<Vec<u16>, &str> {
    let mut choices = Vec::new();
    for choice in text.split(',').filter(|choice| !choice.is_empty()) {
        let (value, times) = choice.split_once('*').unwrap_or((choice, "1"));
        let value: u16 = value.parse().map_err(|_| choice)?;
        let times: usize = times.parse().map_err(|_| choice)?;
        if times > CHOICES_MAX - choices.len() {
            return Err(choice);
        }
        choices.extend(std::iter::repeat_n(value, times));
    }
    Ok(choices)
}

/// Removes the zeros at the end, which are the default.
pub(crate) fn trimmed(mut choices: Vec<u16>) -> Vec<u16> {
    while choices.pop_if(|choice| *choice == 0).is_some() {}
    choices
}
