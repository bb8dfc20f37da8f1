//! The key that signs checkpoints, and the keys that are believed: outside of every journal.

use std::path::{Path, PathBuf};

use intendant_journal::checkpoints::key_file::{self, KeyFileError, config_folder};
use intendant_journal::checkpoints::{Signer, Verifier};
use intendant_journal::disk::RealDisk;

use crate::exit::Failure;
use crate::print;

/// The user's key, made if there is none. Recording does not depend on it: where there is none to
/// be had, that is told, and the journal is unsigned for as long as it is open.
pub(crate) fn signer() -> Option<Signer> {
    let signer = config_folder().and_then(|folder| key_file::read_or_make(&RealDisk, &folder));
    signer
        .inspect_err(|error| {
            print::note(format!(
                "warning: checkpoints are not signed, so that a truncation of the journal may go \
                 unseen: {error}"
            ));
        })
        .ok()
}

/// The public half of the user's key, if there is one. Changes nothing.
pub(crate) fn own() -> Result<Option<Verifier>, KeyFileError> {
    let folder = config_folder()?;
    if let Some(public) = key_file::read_public(&RealDisk, &folder)? {
        return Ok(Some(public));
    }
    let signer = key_file::read(&RealDisk, &folder)?;
    Ok(signer.map(|signer| signer.verifier().clone()))
}

/// As [`own`]; one that cannot be read is told, and believed by nobody.
pub(crate) fn known() -> Vec<Verifier> {
    let own = own().unwrap_or_else(|error| {
        if !matches!(error, KeyFileError::NoPlace) {
            print::note(format!("warning: no checkpoint can be believed: {error}"));
        }
        None
    });
    own.into_iter().collect()
}

/// The keys in files that were named: one a line, in the form of `signing-key.pub`.
pub(crate) fn in_files(paths: &[PathBuf]) -> Result<Vec<Verifier>, Failure> {
    let mut keys = Vec::new();
    for path in paths {
        let before = keys.len();
        for line in read(path)?.lines().filter(|line| !line.trim().is_empty()) {
            let key = line.trim().parse().map_err(|why| {
                let what = format!("{}: it is no public key: {why}", path.display());
                bad_file(path, what)
            })?;
            keys.push(key);
        }
        if keys.len() == before {
            return Err(bad_file(path, format!("{}: no key in it", path.display())));
        }
    }
    Ok(keys)
}

fn read(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| bad_file(path, format!("{}: reading it: {error}", path.display())))
}

fn bad_file(path: &Path, what: String) -> Failure {
    Failure::usage(
        what,
        "name the file of a public key, such as signing-key.pub, with --key",
    )
    .at(path)
}
