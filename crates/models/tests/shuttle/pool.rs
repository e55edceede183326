//! A pool around a design, without files: what tickets need of it.

use super::design::{Decoupled, Design};
use crate::Error;
use crate::sync::Arc;
use words::TxId;

pub(crate) use crate::options::Shape;

pub struct Pool<D: Design = Decoupled> {
    pub(crate) design: D,
    pub(crate) names: Arc<Names>,
}

/// Names of files: there are none to lose.
#[derive(Default)]
pub struct Names;

impl Names {
    pub(crate) fn check_sometimes(&self, _id: TxId) -> Result<(), Error> {
        Ok(())
    }
}

impl<D: Design> Pool<D> {
    pub(crate) fn design(&self) -> &D {
        &self.design
    }

    pub(crate) fn own_process(&self, _call: &'static str) -> Result<(), Error> {
        Ok(())
    }

    pub(crate) fn names(&self) -> &Arc<Names> {
        &self.names
    }

    pub(crate) fn durable_id(&self) -> TxId {
        self.design.durable_id()
    }

    pub(crate) fn wait_for(&self, id: TxId) -> Result<(), Error> {
        self.design.wait(id)
    }
}
