//! The trust records and plugin copies of the user, in a folder that no other user may write to.

use std::path::PathBuf;

use super::error::Error;
use super::modes::{self, Insecure};
use super::record::Records;
use super::store::Store;

#[derive(Debug)]
pub(super) struct State {
    pub(super) folder: PathBuf,
    pub(super) records: Records,
    pub(super) store: Store,
    /// The reason why the folder must not be used.
    pub(super) insecure: Option<Insecure>,
}

impl State {
    pub(super) fn open(folder: PathBuf) -> Self {
        // A missing folder is created later with the right mode.
        let insecure = modes::check_one(&folder).unwrap_or_default();
        Self {
            records: Records(folder.join("records")),
            store: Store(folder.join("store")),
            folder,
            insecure,
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        self.insecure.clone().map_or(Ok(()), |insecure| Err(Error::Insecure(insecure)))
    }
}
