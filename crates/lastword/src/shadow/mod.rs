//! Shadow memory: the DRAM that transactions work on, a copy of the heap at home plus everything
//! that is committed and not yet there.
//!
//! (DudeTM, section 3.1: one shadow shared by all transactions, not one of each.)

mod full;

pub(crate) use full::Full;
