//! Adapter that runs a workload as a program of the simulated machine.

use sim::program::{Client, Ended, Loaded, Program};
use words::{Erased, ErasedTx, Stop};
use workloads::{AnyClient, AnyWorkload, Kind, Options};

use crate::error::Error;

/// Number of the run. Every simulation makes a new heap, so that its only run is the first.
const RUN: u64 = 1;

/// A workload that is not loaded yet.
pub struct Unloaded {
    kind: Kind,
    options: Options,
}

impl Unloaded {
    /// Returns the program of a workload. Each core keeps to its own part of the data where the
    /// workload supports it, as the papers' copies of a workload do, unless the options say
    /// otherwise.
    ///
    /// # Errors
    /// [`Error::Unsupported`] for an option that the workload does not support.
    pub fn new(kind: Kind, options: Options) -> Result<Unloaded, Error> {
        let low_conflict = kind.supported.low_conflict && options.low_conflict;
        let options = Options { low_conflict, ..options };
        match options.unsupported(kind.supported) {
            Some(option) => Err(Error::Unsupported { workload: kind.name, option }),
            None => Ok(Unloaded { kind, options }),
        }
    }
}

impl Program for Unloaded {
    fn name(&self) -> &str {
        self.kind.name
    }

    fn heap_bytes(&self) -> u64 {
        self.kind.heap_bytes(&self.options)
    }

    fn load(&self, worker: &mut Erased<'_, Ended>, cores: usize) -> Result<Box<dyn Loaded>, Ended> {
        let options = Options { workers: cores, ..self.options };
        let workload = self.kind.load(&mut Erased::any(worker), &options)?;
        Ok(Box::new(InHeap { workload, options }))
    }
}

/// A workload whose data are loaded.
struct InHeap {
    workload: AnyWorkload,
    options: Options,
}

impl Loaded for InHeap {
    fn client(&self, core: usize) -> Box<dyn Client> {
        let mut client = self.workload.client(core, workloads::client_seed(self.options.seed, RUN));
        self.workload.tune(&mut client, &self.options);
        Box::new(Drawing { workload: self.workload.clone(), client })
    }

    fn check(&self, worker: &mut Erased<'_, Ended>) -> Result<Vec<String>, Ended> {
        let violations = self.workload.check(&mut Erased::any(worker))?;
        Ok(violations.iter().map(ToString::to_string).collect())
    }
}

/// A client with its workload.
struct Drawing {
    workload: AnyWorkload,
    client: AnyClient,
}

impl Client for Drawing {
    fn next(&mut self) {
        self.workload.next(&mut self.client);
    }

    fn run(&self, tx: &mut ErasedTx<'_>) -> Result<(), Stop> {
        self.workload.run(&self.client, tx)
    }

    fn gives_up(&self) -> bool {
        self.workload.gives_up(&self.client)
    }

    fn reads_only(&self) -> bool {
        self.workload.reads_only(&self.client)
    }

    fn outside_instructions(&self) -> u32 {
        self.workload.outside_instructions()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use words::Transact;
    use words::mock::{Mock, Refused};

    /// A mock with the error type of a program's load.
    struct Heap(Mock);

    impl Transact for Heap {
        type Tx<'t> = <Mock as Transact>::Tx<'t>;
        type Error = Ended;

        fn transact<R>(
            &mut self,
            body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Stop>,
        ) -> Result<R, Ended> {
            self.0.transact(body).map_err(|Refused { stop }| Ended { stop })
        }
    }

    #[test]
    fn workload_loads_runs_and_passes_its_check() {
        let options = Options { scale: 0.0001, ..Options::default() };
        let kind = Kind::by_name("hashtable").unwrap();
        let program = Unloaded::new(kind, options).unwrap();
        let unsupported = Options { data: Some(workloads::DataSet::DEFAULT), ..options };
        assert!(Unloaded::new(kind, unsupported).is_err());
        assert_eq!(program.name(), "hashtable");
        let mut heap = Heap(Mock::new(program.heap_bytes() as usize));
        let loaded = program.load(&mut Erased::new(&mut heap), 2).unwrap();
        for core in 0..2 {
            let mut client = loaded.client(core);
            for _ in 0..50 {
                client.next();
                assert!(!client.gives_up() && !client.reads_only());
                heap.transact(|tx| client.run(&mut ErasedTx::new(tx))).unwrap();
            }
        }
        assert_eq!(loaded.check(&mut Erased::new(&mut heap)), Ok(vec![]));
    }
}
