//! A pool around a design, without files, for the tickets.

use super::design::{Decoupled, Design};
use crate::Error;
use crate::sync::Arc;
use words::TxId;

pub(crate) use crate::options::Shape;

pub struct Pool<D: Design = Decoupled> {
    pub(crate) design: D,
    pub(crate) file_check: Arc<FileCheck>,
}

/// The check of a pool's files, which a model does not have.
#[derive(Default)]
pub struct FileCheck;

impl FileCheck {
    pub(crate) fn check_sometimes(&self, _id: TxId) -> Result<(), Error> {
        Ok(())
    }

    pub(crate) fn check_at_times(&self) {}
}

impl<D: Design> Pool<D> {
    pub(crate) fn design(&self) -> &D {
        &self.design
    }

    pub(crate) fn own_process(&self, _call: &'static str) -> Result<(), Error> {
        Ok(())
    }

    pub(crate) fn file_check(&self) -> &Arc<FileCheck> {
        &self.file_check
    }

    pub(crate) fn expedite(&self, id: TxId) {
        self.design.expedite(id);
    }

    pub(crate) fn durable_id(&self) -> TxId {
        self.design.durable_id()
    }

    pub(crate) fn wait_for(&self, id: TxId) -> Result<(), Error> {
        self.design.wait(id)
    }
}
