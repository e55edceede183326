//! The interface between data structures and designs: transactions on a heap of words.
//!
//! ```text
//!   workloads   collections   alloc          above: plain code over `Words`
//!        \           |          /
//!         ========= words =========          this crate
//!        /           |          \
//!   lastword        sim         mock         below: designs, and a checker for tests
//! ```
//!
//! Data structures know only this crate, so each runs on every design and on a simulated machine.
//!
//! Data lives in a *heap* of 8-byte words, divided into *objects*. A program refers to an object by
//! a [`Ptr`], to a field of it by [`field!`], and to an element of a large sequence by
//! [`Array::at`]. It reads and writes them inside a transaction:
//!
//! ```
//! use words::{Objects, Ptr, Stop, Transact, field, mock::Mock};
//! use zerocopy::{Immutable, IntoBytes, KnownLayout, TryFromBytes};
//!
//! #[derive(Clone, Copy, TryFromBytes, IntoBytes, Immutable, KnownLayout)]
//! #[repr(C)]
//! struct Account {
//!     cents: u64,
//!     transfers: u64,
//! }
//!
//! let mut mock = Mock::new(1 << 16);
//! let account: Ptr<Account> =
//!     mock.transact(|tx| tx.alloc(Account { cents: 100, transfers: 0 }))?;
//! mock.transact(|tx| tx.update(field!(account, Account, cents), |cents| cents - 40))?;
//! assert_eq!(mock.transact(|tx| tx.get(account))?.cents, 60);
//! # Ok::<(), words::mock::Refused>(())
//! ```
//!
//! This crate does not define how transactions become atomic and durable: a *design* does.

mod addr;
mod array;
mod bytes;
mod definition;
mod erased;
pub mod mock;
mod objects;
mod part;
mod persist;
mod ptr;
mod stop;
mod text;
mod transaction;
mod view;
pub mod work;

pub use addr::{
    ADDRESS_BITS, Addr, BLOCK_BYTES, BLOCK_STRIDE, HEADER_BYTES, OBJECT_BYTES_MAX, PIECE_BYTES,
    PIECE_STRIDE, block_stride,
};
pub use array::Array;
pub use bytes::Bytes;
#[doc(hidden)]
pub use definition::{Body, DefinedType, Definition, FieldDefinition, Placed, no_padding_after};
pub use erased::{AnyError, Erased, ErasedTx};
pub use objects::Objects;
pub use persist::{Persist, words_in};
#[doc(hidden)]
pub use persist::{definition_of, size_allowed};
pub use ptr::{Field, HasFields, Place, Ptr};
#[doc(hidden)]
pub use ptr::{field_of, field_offset};
pub use stop::Stop;
pub use text::Text;
pub use transaction::{Allocate, LockId, Transact, TxId, Words};
pub use view::{Seen, View};

#[doc(hidden)]
pub use zerocopy;
