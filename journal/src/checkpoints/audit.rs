//! Checking a journal against its checkpoints, from outside: offline, on a copy or beside a live
//! owner, changing nothing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::checkpoint::Checkpoint;
use super::key::Verifier;
use super::note::{MAX_BYTES, Note, Standing};
use super::{CHECKPOINTS, folder};
use crate::disk::{Disk, RealDisk, read_small};
use crate::error::OpenError;
use crate::format::entry::Sequence;
use crate::recovery::{Readers, Seen, io_error};
use crate::scan::{Place, VerifyReport, verify_watching};

/// What a journal is checked against.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// Keys that are believed.
    pub keys: Vec<Verifier>,
    /// Checkpoints kept elsewhere: what to call them, and their bytes.
    pub kept_elsewhere: Vec<(PathBuf, Vec<u8>)>,
}

/// What was found of one checkpoint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Checked {
    /// Its file.
    pub path: PathBuf,
    /// What it says, if it can be read.
    pub checkpoint: Option<Checkpoint>,
    /// What its signatures are worth; `None` if it is not a note.
    pub standing: Option<Standing>,
    /// What it means for the log.
    pub finding: Finding,
}

/// What a checkpoint means for the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Finding {
    /// The log has this chain value at this sequence.
    Fits,
    /// The log ends before its sequence: it was truncated.
    Beyond,
    /// The log has another chain value there: it was altered at or before it, or the checkpoint was.
    Differs,
    /// A signature by a known key does not hold: the checkpoint was altered.
    BrokenSignature,
    /// It is a checkpoint of another journal.
    OtherJournal,
    /// It is not a checkpoint, or bears the name of another one.
    Unreadable(String),
}

/// A log in itself in order, and its checkpoints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditReport {
    /// The log.
    pub verified: VerifyReport,
    /// Every checkpoint that was looked at, those of the folder first, by sequence.
    pub checkpoints: Vec<Checked>,
    /// Where the log has the entries that checkpoints end with.
    places: BTreeMap<Sequence, Seen>,
}

/// What it comes to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Conclusion<'a> {
    /// The chain is whole, and a signed checkpoint vouches for it up to this one's sequence.
    Valid(&'a Checked),
    /// Something was altered.
    Altered {
        /// The first checkpoint that shows it.
        by: &'a Checked,
        /// The first entry that may be another than was signed: behind the last checkpoint before
        /// that fits.
        first: Sequence,
        /// The batch with the checkpoint's entry, if the log has it.
        place: Option<Place>,
    },
    /// The log ends before a checkpoint's sequence.
    Truncated {
        /// The checkpoint of the highest sequence.
        by: &'a Checked,
        /// The log's last entry.
        end: Sequence,
        /// The last entry that is known to have been there.
        durable: Sequence,
        /// Behind the log's last entry, if it has one.
        place: Option<&'a Place>,
    },
    /// The chain is whole in itself, and nothing signed by a known key vouches for it.
    Unsigned {
        /// Why nothing does.
        why: String,
    },
}

impl AuditReport {
    /// What it comes to. What is altered is told before what is missing.
    #[must_use]
    pub fn conclusion(&self) -> Conclusion<'_> {
        let sequence = |checked: &Checked| checked.checkpoint.map_or(Sequence(0), |it| it.sequence);
        let altered = self
            .checkpoints
            .iter()
            .filter(|checked| !matches!(checked.finding, Finding::Fits | Finding::Beyond))
            .min_by_key(|checked| (checked.finding != Finding::Differs, sequence(checked)));
        if let Some(by) = altered {
            let at = sequence(by);
            let before = self
                .checkpoints
                .iter()
                .filter(|checked| checked.finding == Finding::Fits && sequence(checked) < at)
                .map(sequence)
                .max();
            let place = match by.finding {
                Finding::Differs => self.places.get(&at),
                _ => None,
            };
            return Conclusion::Altered {
                by,
                first: Sequence(before.unwrap_or_default().0 + 1),
                place: place.map(|seen| Place {
                    segment: seen.segment,
                    path: seen.path.clone(),
                    offset: seen.offset,
                }),
            };
        }
        let beyond = self
            .checkpoints
            .iter()
            .filter(|checked| checked.finding == Finding::Beyond)
            .max_by_key(|checked| sequence(checked));
        if let Some(by) = beyond {
            return Conclusion::Truncated {
                by,
                end: self.verified.log.end,
                durable: sequence(by),
                place: self.verified.log.ended_at.as_ref(),
            };
        }
        let head = self
            .checkpoints
            .iter()
            .filter(|checked| matches!(checked.standing, Some(Standing::Signed(_))))
            .max_by_key(|checked| sequence(checked));
        match head {
            Some(head) => Conclusion::Valid(head),
            None => Conclusion::Unsigned {
                why: self.why_unsigned(),
            },
        }
    }

    fn why_unsigned(&self) -> String {
        let Some(last) = self.checkpoints.last() else {
            return "there is no checkpoint".into();
        };
        match &last.standing {
            Some(Standing::UnknownKey(names)) => format!(
                "no key that is known has signed a checkpoint; the last one is signed by {}",
                names.join(", ")
            ),
            _ => "no checkpoint is signed".into(),
        }
    }
}

/// Checks every frame, the hash chain, the heads of the segments, every blob that an entry names,
/// and every checkpoint in the folder and of those kept elsewhere.
///
/// # Errors
/// What [`crate::scan::verify`] finds wrong with the log itself.
pub fn audit(path: impl AsRef<Path>, evidence: &Evidence) -> Result<AuditReport, OpenError> {
    let (disk, path) = (Arc::new(RealDisk), path.as_ref());
    audit_by(disk, path, Readers::per_core(), evidence)
}

/// [`audit`] on another disk than the real one, on the calling thread alone.
///
/// # Errors
/// As for [`audit`].
pub fn audit_on(
    disk: Arc<dyn Disk>,
    path: &Path,
    evidence: &Evidence,
) -> Result<AuditReport, OpenError> {
    audit_by(disk, path, Readers::Caller, evidence)
}

fn audit_by(
    disk: Arc<dyn Disk>,
    path: &Path,
    readers: Readers,
    evidence: &Evidence,
) -> Result<AuditReport, OpenError> {
    // The checkpoints first: what they say now is durable is in the log that is read afterwards.
    let notes = path.join(CHECKPOINTS);
    let listed = folder::list(&*disk, &notes).map_err(io_error(&notes, "listing it"))?;
    let mut checkpoints = Vec::with_capacity(listed.len() + evidence.kept_elsewhere.len());
    for (sequence, path) in listed {
        match read_small(&*disk, &path, MAX_BYTES) {
            Ok(bytes) => {
                let bytes = bytes.unwrap_or_default();
                let mut checked = judge(&path, &bytes, &evidence.keys);
                if checked.checkpoint.is_some_and(|it| it.sequence != sequence) {
                    let why = "it bears the name of another sequence than it says";
                    checked.finding = Finding::Unreadable(why.into());
                }
                checkpoints.push(checked);
            }
            Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                checkpoints.push(unreadable(&path, error.to_string()));
            }
            Err(error) => return Err(io_error(&path, "reading it")(error)),
        }
    }
    for (path, bytes) in &evidence.kept_elsewhere {
        checkpoints.push(judge(path, bytes, &evidence.keys));
    }
    let mut watch: Vec<Sequence> = checkpoints
        .iter()
        .filter_map(|checked| Some(checked.checkpoint?.sequence))
        .collect();
    watch.sort();
    watch.dedup();
    let (verified, seen) = verify_watching(disk, path, readers, &watch)?;
    let places: BTreeMap<_, _> = seen.into_iter().map(|seen| (seen.sequence, seen)).collect();
    for checked in &mut checkpoints {
        let Some(checkpoint) = checked.checkpoint else {
            continue;
        };
        // What is known to be wrong stays so.
        if checked.finding != Finding::Fits {
            continue;
        }
        checked.finding = if checkpoint.journal != verified.log.id {
            Finding::OtherJournal
        } else if checkpoint.sequence > verified.log.end {
            Finding::Beyond
        } else {
            match places.get(&checkpoint.sequence) {
                Some(seen) if seen.chain == checkpoint.chain => Finding::Fits,
                _ => Finding::Differs,
            }
        };
    }
    Ok(AuditReport {
        verified,
        checkpoints,
        places,
    })
}

fn unreadable(path: &Path, why: String) -> Checked {
    Checked {
        path: path.to_owned(),
        checkpoint: None,
        standing: None,
        finding: Finding::Unreadable(why),
    }
}

/// What a note says for itself; it fits until the log says otherwise.
fn judge(path: &Path, bytes: &[u8], keys: &[Verifier]) -> Checked {
    let note = match Note::parse(bytes) {
        Ok(note) => note,
        Err(error) => return unreadable(path, error.to_string()),
    };
    let standing = note.standing(keys);
    let (checkpoint, finding) = match Checkpoint::parse(note.text()) {
        Err(error) => (None, Finding::Unreadable(error.to_string())),
        Ok(checkpoint) => match standing {
            Standing::Broken(_) => (Some(checkpoint), Finding::BrokenSignature),
            _ => (Some(checkpoint), Finding::Fits),
        },
    };
    Checked {
        path: path.to_owned(),
        checkpoint,
        standing: Some(standing),
        finding,
    }
}
