//! Opening a journal: the only place of the program that does.
#![expect(
    clippy::result_large_err,
    reason = "the journal's own error; it is made once in a process"
)]

use std::path::{Path, PathBuf};

use intendant_journal::checkpoints::audit::{self, AuditReport, Evidence};
use intendant_journal::disk::RealDisk;
use intendant_journal::lock::{self, Owner};
use intendant_journal::scan::{ScanReport, Whereabouts};
use intendant_journal::{Journal, Options};

use intendant_journal::error::OpenError;
use intendant_journal::format::entry::Recorded;

use crate::exit::{Exit, Failure};
use crate::keys;

/// Name and version of this program, recorded with every opening.
const PROGRAM: &str = concat!("intendant ", env!("CARGO_PKG_VERSION"));

/// Said where there is no place for records of journals.
pub(crate) const NO_RECORDS: &str = "neither XDG_STATE_HOME nor HOME is set: the journal cannot be \
     recorded outside its folder, and its loss would be taken for a fresh start";

/// How `run` opens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Creation {
    /// Size of segments that are made from now on.
    pub(crate) segment_bytes: Option<u64>,
    /// Begin a new journal although one is recorded for the folder.
    pub(crate) new_journal: bool,
}

fn options() -> Options {
    let options = Options::new().program(PROGRAM);
    match keys::signer() {
        Some(signer) => options.signer(signer),
        None => options,
    }
}

/// Opens a journal that exists.
pub(crate) fn existing(data: &Path) -> Result<Journal, OpenError> {
    options().open(data)
}

/// Opens a journal, or creates one where none was.
pub(crate) fn or_create(data: &Path, creation: Creation) -> Result<Journal, OpenError> {
    let mut options = options().new_journal(creation.new_journal);
    if let Some(bytes) = creation.segment_bytes {
        options = options.segment_bytes(bytes);
    }
    options.open_or_create(data)
}

/// Who holds the journal now, if anybody does.
pub(crate) fn owner(data: &Path) -> Result<Option<Owner>, Failure> {
    lock::owner(&RealDisk, data)
        .map_err(|error| Failure::io(&data.join("LOCK"), "asking who holds it", &error))
}

/// Reads all entries without lock, projection or writes.
pub(crate) fn scan(data: &Path, visit: impl FnMut(Recorded)) -> Result<ScanReport, OpenError> {
    intendant_journal::scan::scan_knowing(data, &keys::known(), visit)
        .map_err(|error| or_gone(data, error))
}

/// Checks everything that can be checked from outside.
pub(crate) fn audit(data: &Path, evidence: &Evidence) -> Result<AuditReport, OpenError> {
    audit::audit(data, evidence).map_err(|error| or_gone(data, error))
}

/// Which journal the folder holds, and which one is recorded for it.
pub(crate) fn whereabouts(data: &Path) -> Result<Whereabouts, OpenError> {
    intendant_journal::scan::whereabouts(data)
}

/// A journal that is not there is gone if one is recorded for the folder: as `run` says it.
fn or_gone(data: &Path, error: OpenError) -> OpenError {
    if !matches!(error, OpenError::Missing { .. } | OpenError::Foreign { .. }) {
        return error;
    }
    match whereabouts(data) {
        Ok(Whereabouts {
            there: None,
            recorded: Some(id),
            ..
        }) => OpenError::Gone {
            path: data.to_owned(),
            id: id.to_string(),
        },
        _ => error,
    }
}

/// The folder of the locks of attempts that are going on.
pub(crate) fn attempts(data: &Path) -> PathBuf {
    data.join("attempts")
}

/// Where the reason of the last failure of the storage is kept, for those who look later.
pub(crate) fn last_failure(data: &Path) -> PathBuf {
    data.join("last-failure")
}

/// Leaves the reason of a failed storage for those who look later; of any other failure nothing.
/// On a failing disk that may fail too. In a folder that holds no journal yet nothing is left: a
/// folder that is not empty and has no identity is refused as foreign by the next start.
pub(crate) fn leave_word(data: &Path, failure: &Failure) {
    if failure.exit != Exit::Storage || !data.join("IDENTITY").is_file() {
        return;
    }
    let at = jiff::Timestamp::now();
    let word = format!(
        "at {at:.0} the journal's storage failed: {}\n",
        failure.message
    );
    let _ = std::fs::write(last_failure(data), word);
}
