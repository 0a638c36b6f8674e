//! The user's own trust: records, and the copies that run. What others could write there counts for nothing.

use std::path::PathBuf;

use super::modes::{self, Insecure};
use super::record::Records;
use super::store::Store;
use crate::failure::StrategyFailure;

/// The user's own trust, and the copies.
#[derive(Debug)]
pub(super) struct State {
    pub(super) folder: PathBuf,
    pub(super) records: Records,
    pub(super) store: Store,
    /// Why it counts for nothing.
    pub(super) insecure: Option<Insecure>,
}

impl State {
    pub(super) fn open(folder: PathBuf) -> Self {
        // One that is not there yet will be made as it should be.
        let insecure = modes::check_one(&folder).unwrap_or_default();
        Self {
            records: Records(folder.join("records")),
            store: Store(folder.join("store")),
            folder,
            insecure,
        }
    }

    pub(super) fn check(&self) -> Result<(), StrategyFailure> {
        self.insecure.clone().map_or(Ok(()), |insecure| Err(StrategyFailure::Insecure(insecure)))
    }
}
