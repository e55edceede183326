//! `empty`: transactions that access no data, which measure the cost of a transaction itself
//! (DudeTM, section 5.2.2).

use words::{Allocate, Stop, Transact, Words};

use crate::root::{self, Build};
use crate::{Options, Violation, Workload};

/// The workload without data.
#[derive(Clone, Copy, Debug)]
pub struct Empty;

/// A client without parameters.
#[derive(Clone, Copy, Debug)]
pub struct EmptyClient;

impl Build for Empty {
    const NAME: &'static str = "empty";
    type Parts = u64;

    fn reserve<W: Allocate>(_tx: &mut W, _size: u64) -> Result<u64, Stop> {
        Ok(0)
    }

    fn step<W: Allocate>(
        _parts: u64,
        _tx: &mut W,
        _size: u64,
        _progress: u64,
    ) -> Result<Option<u64>, Stop> {
        Ok(None)
    }

    fn free<W: Allocate>(_parts: u64, _tx: &mut W) -> Result<bool, Stop> {
        Ok(true)
    }
}

impl Workload for Empty {
    const NAME: &'static str = <Empty as Build>::NAME;
    const ABOUT: &'static str = "empty transactions: the cost of a transaction itself";
    type Client = EmptyClient;

    fn heap_bytes(_options: &Options) -> u64 {
        crate::with_slack(0)
    }

    fn load<T: Transact>(worker: &mut T, _options: &Options) -> Result<Empty, T::Error> {
        root::load::<Empty, T>(worker, 0).map(|_| Empty)
    }

    fn open<T: Transact>(worker: &mut T) -> Result<Option<Empty>, T::Error> {
        Ok(root::open::<Empty, T>(worker)?.map(|_| Empty))
    }

    fn client(&self, index: usize, _seed: u64) -> EmptyClient {
        assert!(index < crate::CLIENTS_MAX, "client {index} of {}", crate::CLIENTS_MAX);
        EmptyClient
    }

    #[inline]
    fn next(&self, _client: &mut EmptyClient) {}

    #[inline]
    fn run<W: Allocate>(&self, _client: &EmptyClient, _tx: &mut W) -> Result<(), Stop> {
        Ok(())
    }

    /// Returns true, as an empty transaction leaves no trace.
    fn is_present<W: Words>(&self, _client: &EmptyClient, _tx: &mut W) -> Result<bool, Stop> {
        Ok(true)
    }

    fn check<T: Transact>(&self, _worker: &mut T) -> Result<Vec<Violation>, T::Error> {
        Ok(Vec::new())
    }
}
