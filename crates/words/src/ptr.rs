//! Typed pointers into a heap: [`Ptr`] to an object, [`Field`] to a part of one.

use std::fmt;
use std::marker::PhantomData;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Addr, Persist};

/// A pointer to an object that holds a `T`, and itself a value that objects can hold.
///
/// Any bit pattern is allowed, and every access is checked. Each of these is
/// [`Stop::BadPointer`](crate::Stop::BadPointer): a pointer out of the heap, a pointer into another
/// pool, and a write through a pointer to no live object. The type is not checked: reading through
/// a pointer of another type returns other values, never undefined behaviour.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(transparent)]
pub struct Ptr<T> {
    bits: u64,
    target: PhantomData<fn() -> T>,
}

impl<T> Ptr<T> {
    /// The null pointer, to which no heap has an object.
    pub const NULL: Ptr<T> = Ptr::from_bits(0);

    /// Makes a pointer from the bits of an [`Addr::object`].
    #[inline]
    pub const fn from_bits(bits: u64) -> Ptr<T> {
        Ptr { bits, target: PhantomData }
    }

    /// Returns the object's address as one number, to be stored where no type is known.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.bits
    }

    /// Returns whether this is [`Ptr::NULL`].
    #[inline]
    pub const fn is_null(self) -> bool {
        self.bits == 0
    }

    /// Returns a pointer to the same object, seen as another type.
    #[inline]
    pub const fn cast<U>(self) -> Ptr<U> {
        Ptr::from_bits(self.bits)
    }

    /// Returns a part of the object, `offset` bytes in, as [`field!`](crate::field) computes it.
    #[inline]
    pub const fn field_at<F>(self, offset: usize) -> Field<F> {
        Field::new(Addr::new(self.bits, offset as u64))
    }
}

impl<T> Clone for Ptr<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Ptr<T> {}
impl<T> PartialEq for Ptr<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bits == other.bits
    }
}
impl<T> Eq for Ptr<T> {}
impl<T> std::hash::Hash for Ptr<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.bits.hash(state);
    }
}
impl<T> fmt::Debug for Ptr<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ptr({:#x})", self.bits)
    }
}

/// A typed place inside an object, made by [`field!`](crate::field) or
/// [`Array::at`](crate::Array::at).
pub struct Field<T> {
    addr: Addr,
    target: PhantomData<fn() -> T>,
}

impl<T> Field<T> {
    /// Makes the place at `addr`.
    #[inline]
    pub const fn new(addr: Addr) -> Field<T> {
        Field { addr, target: PhantomData }
    }

    /// Returns a part of this place, `offset` bytes in, as [`field!`](crate::field) computes it.
    #[inline]
    pub const fn field_at<F>(self, offset: usize) -> Field<F> {
        Field::new(self.addr.plus(offset as u64))
    }
}

impl<T> Clone for Field<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Field<T> {}
impl<T> fmt::Debug for Field<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Field({:#x} + {})", self.addr.object, self.addr.offset)
    }
}

/// A whole object or a part of one, which a transaction reads and writes as a value.
pub trait Place: Copy {
    /// The type of the value there.
    type Value: Persist;
    /// Returns the address of the first word.
    fn addr(self) -> Addr;
}

impl<T: Persist> Place for Ptr<T> {
    type Value = T;
    #[inline]
    fn addr(self) -> Addr {
        Addr::new(self.bits, 0)
    }
}

impl<T: Persist> Place for Field<T> {
    type Value = T;
    #[inline]
    fn addr(self) -> Addr {
        self.addr
    }
}

/// Returns a field of the struct behind a [`Ptr`] or [`Field`], as a [`Field`] of its type.
///
/// ```
/// use words::{Field, Place, Ptr, field};
///
/// #[repr(C)]
/// struct Node { key: u64, next: Ptr<Node> }
///
/// let node: Ptr<Node> = Ptr::from_bits(64);
/// let next: Field<Ptr<Node>> = field!(node, Node, next);
/// assert_eq!(next.addr().offset, 8);
/// ```
/// The struct must be the pointer's own:
/// ```compile_fail
/// # use words::{Ptr, field};
/// # struct Node { key: u64 }
/// # struct Leaf { key: u64 }
/// let node: Ptr<Node> = Ptr::from_bits(64);
/// let wrong = field!(node, Leaf, key);
/// ```
/// The field may be narrower than a word. Its type must have 1 to 1024 bytes and implement
/// [`Persist`]. The compiler reports a wrong field at its `field!`:
/// ```compile_fail,E0080
/// # use words::{Ptr, field};
/// struct Node { key: u64, none: [u64; 0] }
/// let node: Ptr<Node> = Ptr::from_bits(64);
/// let wrong = field!(node, Node, none);
/// ```
/// ```compile_fail,E0277
/// # use words::{Ptr, field};
/// struct Node { key: u64, name: String }
/// let node: Ptr<Node> = Ptr::from_bits(64);
/// let wrong = field!(node, Node, name);
/// ```
/// ```compile_fail,E0277
/// # use words::{Ptr, field};
/// struct Node { key: u64, name: &'static str }
/// let node: Ptr<Node> = Ptr::from_bits(64);
/// let wrong = field!(node, Node, name);
/// ```
#[macro_export]
macro_rules! field {
    ($place:expr, $object:ty, $field:ident) => {{
        const OFFSET: usize =
            $crate::field_offset(::core::mem::offset_of!($object, $field), |object: &$object| {
                &object.$field
            });
        $crate::field_of($place, OFFSET, |object: &$object| &object.$field)
    }};
}

/// A pointer or field whose target has fields; see [`field!`](crate::field).
pub trait HasFields<T> {
    /// Returns the part `offset` bytes in.
    fn part<F>(self, offset: usize) -> Field<F>;
}

impl<T> HasFields<T> for Ptr<T> {
    #[inline]
    fn part<F>(self, offset: usize) -> Field<F> {
        self.field_at(offset)
    }
}

impl<T> HasFields<T> for Field<T> {
    #[inline]
    fn part<F>(self, offset: usize) -> Field<F> {
        self.field_at(offset)
    }
}

/// Returns the offset of a readable field; [`field!`](crate::field) evaluates it at compile time.
/// The compiler reports an error where the macro is called.
#[doc(hidden)]
#[track_caller]
pub const fn field_offset<T, F>(offset: usize, _typed: fn(&T) -> &F) -> usize {
    crate::persist::value_words(size_of::<F>());
    offset
}

/// The expansion of [`field!`](crate::field), in which `_typed` only fixes the field's type.
#[doc(hidden)]
#[inline]
pub fn field_of<T, F: Persist>(
    place: impl HasFields<T>,
    offset: usize,
    _typed: impl FnOnce(&T) -> &F,
) -> Field<F> {
    place.part(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_field_offsets_add_up() {
        #[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
        #[repr(C)]
        struct Inner {
            a: u32,
            b: u16,
            c: u16,
        }
        #[repr(C)]
        struct Outer {
            x: u32,
            inner: Inner,
        }
        let outer: Ptr<Outer> = Ptr::from_bits(4096);
        let c: Field<u16> = field!(field!(outer, Outer, inner), Inner, c);
        assert_eq!(c.addr, Addr::new(4096, 10));
        let _ = (|o: &Outer| o.x, |i: &Inner| i.a, |i: &Inner| i.b);
    }

    #[test]
    fn wrong_field_is_reported_at_its_caller() {
        use std::panic::{Location, catch_unwind, set_hook, take_hook};
        use std::sync::Mutex;
        static LINES: Mutex<Vec<u32>> = Mutex::new(Vec::new());

        struct Wrong {
            none: [u64; 0],
            large: [u8; 1025],
        }
        let note = |at: &Location<'_>| LINES.lock().unwrap().push(at.line());
        let before = take_hook();
        set_hook(Box::new(move |info| {
            info.location().filter(|at| at.file() == file!()).into_iter().for_each(note);
        }));
        let none = catch_unwind(|| field_offset(0, |wrong: &Wrong| &wrong.none));
        let large = catch_unwind(|| field_offset(0, |wrong: &Wrong| &wrong.large));
        set_hook(before);
        // The compiler reports the same line: that of the `field!`.
        assert!(none.is_err() && large.is_err());
        assert_eq!(*LINES.lock().unwrap(), [line!() - 5, line!() - 4]);
        assert_eq!(field_offset(3, |pair: &(u64, u8)| &pair.1), 3);
    }

    #[test]
    fn null_points_to_no_object() {
        assert!(Ptr::<u64>::NULL.is_null());
        assert!(!Ptr::<u64>::from_bits(16).is_null());
    }
}
