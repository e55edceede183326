//! The macros of stored types and keys, with their documentation.

/// Makes a struct, or an enum without fields, a type that can be stored in a pool.
///
/// ```
/// use lastword::prelude::*;
///
/// #[lastword::persist]
/// struct Ledger { savings: u64, current: u64 }
///
/// # fn go(pool: &Pool) -> Result<(), Error> {
/// let ledger: Ptr<Ledger> = pool.run(|tx| tx.alloc(Ledger { savings: 100, current: 0 }))?.value;
/// pool.run(|tx| tx.update(ledger.savings(), |cents| cents - 30))?.ticket.wait()
/// # }
/// ```
///
/// * The type is `Clone`, `Copy` and `Persist`, and has zerocopy's traits `TryFromBytes`,
///   `IntoBytes` and `Immutable`. A struct gets `#[repr(C)]`. An enum has a `repr` of its own, such
///   as `#[repr(u8)]`.
/// * A struct `Ledger` with named fields has a trait `LedgerFields`, for `Ptr<Ledger>` and
///   `Field<Ledger>`. Its methods have the names of the fields and return the same as `field!`. The
///   trait has the struct's visibility. Fields with a lower one are in a trait of their own:
///   `LedgerCrateFields`, `LedgerSuperFields` or `LedgerPrivateFields`. Another module imports the
///   trait. A field with the name of a method of pointers, such as `cast`, has no method: use
///   `field!`.
/// * A collection with a name stores the names, types and offsets of the fields, and the variants
///   of enums. Opening it with other fields is an error. An enum may get further variants.
/// * `#[lastword::persist(name = "User")]` gives the type another name there. So the old version of
///   a type, which a migration reads, may have a name of its own in the program.
///
/// # Errors of the compiler
/// Padding is an error at the field before it:
/// ```compile_fail,E0080
/// #[lastword::persist]
/// struct Padded { small: u8, large: u64 }
/// ```
/// A field that cannot be stored is an error at its type. A struct has no type parameters and 1 to
/// 1024 bytes.
/// ```compile_fail
/// #[lastword::persist]
/// struct User { name: String }
/// ```
pub use macros::persist;

/// Makes a struct or enum a key of maps and sets.
///
/// ```
/// use lastword::prelude::*;
///
/// #[derive(PartialEq, Debug, lastword::Key)]
/// struct City { country: String, name: String }
///
/// # fn go(pool: &Pool) -> Result<(), Error> {
/// let people = pool.btree_map::<City, u64>("people")?;
/// pool.run(|tx| {
///     people.put(tx, City { country: "de".into(), name: "Berlin".into() }, 3_700_000)?;
///     assert_eq!(people.get(tx, ("de", "Berlin"))?, Some(3_700_000));
///     people.prefix(("de",)).collect(tx)
/// })?;
/// # Ok(())
/// # }
/// ```
///
/// * The order is that of a derived `Ord`: a struct's fields one after the other, an enum's
///   variants by their discriminants and then by their fields.
/// * Fields are keys themselves, with `String` and `Vec<u8>` for strings.
/// * A call accepts the type, a reference to it, and for a struct also a tuple of its fields. A
///   prefix is a tuple of its first fields.
/// * Discriminants are integer literals. An enum with one below 0 or above 255 has an integer type
///   as its `repr`.
/// * A collection with a name stores the names and types of the fields. Opening it with other
///   fields is an error. An enum may get further variants.
pub use macros::Key;
