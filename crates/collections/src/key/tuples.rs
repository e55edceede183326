//! Tuples as keys: the components one after the other.

use words::Stop;

use super::{AsKey, Key, KeyBuf};
use crate::definitions::Definitions;

/// Returns the length of two components, if both have one.
const fn sum(a: Option<usize>, b: Option<usize>) -> Option<usize> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a + b),
        _ => None,
    }
}

/// Implements both traits for a tuple of components, each with the type that stands for its key.
macro_rules! tuple {
    ($($key:ident $query:ident $at:tt),*; $last:ident $last_query:ident $last_at:tt) => {
        impl<$($key: Key,)* $last: Key> Key for ($($key,)* $last,) {
            type Owned = ($($key::Owned,)* $last::Owned,);
            const FIXED: Option<usize> = {
                let fixed = $last::FIXED;
                $(let fixed = sum($key::FIXED, fixed);)*
                fixed
            };

            fn name() -> String {
                let names = [$($key::name(),)* $last::name()];
                format!("({})", names.join(", "))
            }

            fn define(definitions: &mut Definitions) {
                $($key::define(definitions);)*
                $last::define(definitions);
            }

            #[inline]
            fn decode(bytes: &mut &[u8], is_last: bool) -> Result<Self::Owned, Stop> {
                Ok(($($key::decode(bytes, false)?,)* $last::decode(bytes, is_last)?,))
            }
        }

        impl<$($key: Key, $query: AsKey<$key>,)* $last: Key, $last_query: AsKey<$last>>
            AsKey<($($key,)* $last,)> for ($($query,)* $last_query,)
        {
            #[inline]
            fn encode(&self, out: &mut KeyBuf, is_last: bool) {
                $(self.$at.encode(out, false);)*
                self.$last_at.encode(out, is_last);
            }
        }
    };
}

tuple!(A QueryA 0; B QueryB 1);
tuple!(A QueryA 0, B QueryB 1; C QueryC 2);
tuple!(A QueryA 0, B QueryB 1, C QueryC 2; D QueryD 3);
