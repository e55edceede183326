//! A pool around a design, without files: what tickets need of it.

use super::design::{Decoupled, Design};
use crate::Error;
use words::TxId;

pub(crate) use crate::options::Shape;

pub struct Pool<D: Design = Decoupled> {
    pub(crate) design: D,
}

impl<D: Design> Pool<D> {
    pub(crate) fn design(&self) -> &D {
        &self.design
    }

    pub(crate) fn durable_id(&self) -> TxId {
        self.design.durable_id()
    }

    pub(crate) fn wait_for(&self, id: TxId) -> Result<(), Error> {
        self.design.wait(id)
    }
}
