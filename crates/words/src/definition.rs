//! Definitions of stored types, and the compile-time checks of their layout.
//!
//! `#[lastword::persist]` makes a [`Definition`] of each type, and calls the checks of this file in
//! constants. A collection that has a name keeps the definitions of its types, so that a program
//! whose type has other fields is refused.

/// The definition of a stored type.
#[derive(Clone, Copy, Debug)]
pub struct Definition {
    /// The type's name in the pool.
    pub name: &'static str,
    /// Its fields or variants.
    pub body: Body,
}

/// The fields or variants of a stored type.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// The fields of a struct, in order of their offsets.
    Struct(&'static [FieldDefinition]),
    /// The variants of an enum, in order of their definition.
    Enum {
        /// The enum's integer type.
        tag: &'static str,
        /// Each variant's name and number.
        variants: &'static [(&'static str, i128)],
    },
}

/// A field of a stored struct.
#[derive(Clone, Copy, Debug)]
pub struct FieldDefinition {
    /// The field's name, or its number in a tuple struct.
    pub name: &'static str,
    /// Its type.
    pub ty: DefinedType,
    /// Its place, in bytes from the struct's begin.
    pub offset: usize,
}

/// The type of a field.
#[derive(Clone, Copy, Debug)]
pub enum DefinedType {
    /// An array of so many elements.
    Array(&'static DefinedType, usize),
    /// Any other type.
    One {
        /// Returns the name of the type, with its modules.
        name: fn() -> &'static str,
        /// Its definition, if it has one.
        definition: Option<&'static Definition>,
    },
}

/// A field as the compiler placed it.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    /// The field's name, or its number in a tuple struct.
    pub name: &'static str,
    /// Its place, in bytes from the struct's begin.
    pub offset: usize,
    /// The size of its type.
    pub bytes: usize,
    /// The alignment of its type, in bytes.
    pub align: usize,
}

/// Panics if padding follows field `at` of a struct, and no earlier field. The struct has `bytes`
/// bytes and this alignment. The message has an order of the fields without padding between them.
#[track_caller]
pub const fn no_padding_after(fields: &[Placed], at: usize, bytes: usize, align: usize) {
    let gap = gap_after(fields, at, bytes);
    let mut earlier = 0;
    while earlier < at {
        if gap_after(fields, earlier, bytes) > 0 {
            return;
        }
        earlier += 1;
    }
    if gap == 0 {
        return;
    }
    let mut message = Message { bytes: [0; MESSAGE_MAX], len: 0 };
    message.number(gap);
    message.text(if gap == 1 { " byte" } else { " bytes" });
    message.text(" of padding after field `");
    message.text(fields[at].name);
    message.text("`: ");
    if at + 1 < fields.len() {
        message.text("order the fields");
        message.by_alignment(fields);
    }
    let unused = unused_at_end(fields, align);
    if unused > 0 {
        message.text(if at + 1 < fields.len() { ", and " } else { "" });
        message.text("end with a field of type `[u8; ");
        message.number(unused);
        message.text("]`");
    }
    panic!("{}", message.as_str());
}

/// Returns the bytes between a field's end and the next field, or the struct's end.
const fn gap_after(fields: &[Placed], at: usize, bytes: usize) -> usize {
    let next = if at + 1 < fields.len() { fields[at + 1].offset } else { bytes };
    next - (fields[at].offset + fields[at].bytes)
}

/// Returns the padding at the end of a struct that has none between its fields.
const fn unused_at_end(fields: &[Placed], align: usize) -> usize {
    let (mut sum, mut at) = (0, 0);
    while at < fields.len() {
        sum += fields[at].bytes;
        at += 1;
    }
    sum.next_multiple_of(align) - sum
}

/// Most bytes of a message. The rest of a longer one is left out.
const MESSAGE_MAX: usize = 1024;

/// A text that grows at compile time, where there is no `String`.
struct Message {
    bytes: [u8; MESSAGE_MAX],
    len: usize,
}

impl Message {
    const fn text(&mut self, text: &str) {
        if text.len() > MESSAGE_MAX - self.len {
            return;
        }
        let (text, mut at) = (text.as_bytes(), 0);
        while at < text.len() {
            self.bytes[self.len] = text[at];
            self.len += 1;
            at += 1;
        }
    }

    const fn number(&mut self, number: usize) {
        if number >= 10 {
            self.number(number / 10);
        }
        let digit = [b'0' + (number % 10) as u8];
        if let Ok(digit) = str::from_utf8(&digit) {
            self.text(digit);
        }
    }

    /// Appends the fields' names, those of the largest alignment first. A type's size is a multiple
    /// of its alignment, so this order has no padding between fields.
    const fn by_alignment(&mut self, fields: &[Placed]) {
        let (mut align, mut is_first) = (1 << (usize::BITS - 1), true);
        while align > 0 {
            let mut at = 0;
            while at < fields.len() {
                if fields[at].align == align {
                    self.text(if is_first { " `" } else { ", `" });
                    self.text(fields[at].name);
                    self.text("`");
                    is_first = false;
                }
                at += 1;
            }
            align /= 2;
        }
    }

    const fn as_str(&self) -> &str {
        match str::from_utf8(self.bytes.split_at(self.len).0) {
            Ok(text) => text,
            Err(_) => "padding after a field",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    const fn placed(name: &'static str, offset: usize, bytes: usize, align: usize) -> Placed {
        Placed { name, offset, bytes, align }
    }

    /// Returns the message for each field, if it has one.
    fn messages(fields: &[Placed], bytes: usize, align: usize) -> Vec<Option<String>> {
        let check = |at| {
            let checked = catch_unwind(|| no_padding_after(fields, at, bytes, align));
            checked.err().map(|panic| *panic.downcast::<String>().expect("it is a text"))
        };
        (0..fields.len()).map(check).collect()
    }

    #[test]
    fn padding_is_reported_after_its_field_with_an_order() {
        let fields = [placed("small", 0, 1, 1), placed("large", 8, 8, 8), placed("half", 16, 4, 4)];
        let expected = "7 bytes of padding after field `small`: order the fields `large`, `half`, \
                        `small`, and end with a field of type `[u8; 3]`";
        assert_eq!(messages(&fields, 24, 8), [Some(expected.to_owned()), None, None]);
    }

    #[test]
    fn padding_at_the_end_needs_no_other_order() {
        let fields = [placed("large", 0, 8, 8), placed("rest", 8, 7, 1)];
        let expected = "1 byte of padding after field `rest`: end with a field of type `[u8; 1]`";
        assert_eq!(messages(&fields, 16, 8), [None, Some(expected.to_owned())]);
    }

    #[test]
    fn order_without_padding_at_the_end_is_enough() {
        let fields = [placed("a", 0, 4, 4), placed("b", 8, 8, 8), placed("c", 16, 4, 4)];
        let expected = "4 bytes of padding after field `a`: order the fields `b`, `a`, `c`";
        assert_eq!(messages(&fields, 24, 8)[0].as_deref(), Some(expected));
        let packed = [placed("a", 0, 4, 4), placed("b", 4, 4, 4)];
        assert_eq!(messages(&packed, 8, 4), [None, None]);
    }
}
