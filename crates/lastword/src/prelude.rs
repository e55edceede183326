//! Everything that a first program needs: `use lastword::prelude::*`.

#[cfg(feature = "serde")]
pub use collections::Postcard;
pub use collections::{BTreeMap, BTreeSet, Counter, HashMap, HashSet, Index, IndexedMap, Key};
pub use words::{Allocate, Array, Bytes, Objects, Place, Ptr, Stop, Text, Words, field};

pub use crate::derives::{Key, persist};
pub use crate::{Error, Options, Pool, Ticket, Worker};
