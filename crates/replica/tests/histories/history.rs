//! Histories: the operations of clients on keys, with the times of their calls and returns.

use std::fmt::{self, Write};

/// A call of the service. Every value is an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Get,
    Set(i64),
    Del,
    Incr,
}

/// The value that a key has, or the integer of a reply: the value that `Get` has read, 0 or 1 for
/// `Del`, the sum for `Incr`.
pub(crate) type Value = Option<i64>;

impl Call {
    /// Returns the next value of a key, and the reply. The service is correct if it behaves so.
    pub(crate) fn apply(self, value: Value) -> (Value, Value) {
        match self {
            Call::Get => (value, value),
            Call::Set(next) => (Some(next), None),
            Call::Del => (None, Some(i64::from(value.is_some()))),
            Call::Incr => {
                let sum = value.unwrap_or(0) + 1;
                (Some(sum), Some(sum))
            }
        }
    }
}

/// An operation of a client. Times are nanoseconds of one clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) client: u32,
    pub(crate) key: u32,
    pub(crate) call: Call,
    pub(crate) invoked: u64,
    /// The time of the reply, and the reply. `None` if no reply came: the operation may take effect
    /// at any time after the call, or never.
    pub(crate) returned: Option<(u64, Value)>,
}

impl Operation {
    /// Returns the value that this operation leaves, or `None` if its reply does not fit.
    pub(crate) fn after(&self, value: Value) -> Option<Value> {
        let (next, reply) = self.call.apply(value);
        self.returned.is_none_or(|(_, found)| found == reply).then_some(next)
    }
}

impl fmt::Display for Operation {
    /// Writes the operation as an object of JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Operation { client, key, call, invoked, returned } = self;
        write!(f, r#"{{"client":{client},"key":{key},"invoked":{invoked},"call":"#)?;
        match call {
            Call::Get => write!(f, r#""get""#)?,
            Call::Set(value) => write!(f, r#""set","value":{value}"#)?,
            Call::Del => write!(f, r#""del""#)?,
            Call::Incr => write!(f, r#""incr""#)?,
        }
        match returned {
            Some((time, Some(reply))) => write!(f, r#","returned":{time},"reply":{reply}}}"#),
            Some((time, None)) => write!(f, r#","returned":{time}}}"#),
            None => f.write_char('}'),
        }
    }
}

/// Returns a history as an array of JSON. Operations are separated by `between`, a space or a
/// newline.
pub(crate) fn to_json(history: &[Operation], between: char) -> String {
    let mut text = String::from("[");
    for (at, operation) in history.iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{between}{operation}"); // A string takes any text.
    }
    text + "]"
}
