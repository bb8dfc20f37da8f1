//! What the callers of the journal know: what they handed over, and what they were told.
//!
//! Kept outside of the journal, and fed by nothing but its answers.

use intendant_journal::error::AppendError;
use intendant_journal::face::Appended;
use intendant_journal::format::entry::*;

/// What is known of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Known {
    /// Nothing yet, or that nobody can say: it may be there, whole.
    Open,
    /// It is durable, with this first sequence.
    Recorded(Sequence),
    /// It is not there, and never will be.
    Refused,
}

#[derive(Clone, Debug)]
struct Handed {
    entries: Vec<Entry>,
    known: Known,
    /// Which opening it was handed to.
    opening: usize,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    handed: Vec<Handed>,
    openings: usize,
    blobs: Vec<(BlobRef, Vec<u8>)>,
}

impl Model {
    fn push(&mut self, entries: Vec<Entry>) -> usize {
        self.handed.push(Handed {
            entries,
            known: Known::Open,
            opening: self.openings,
        });
        self.handed.len() - 1
    }

    /// An opening begins, and may write its entry.
    pub(crate) fn open(&mut self, entry: Entry) -> usize {
        self.openings += 1;
        self.push(vec![entry])
    }

    /// An opening succeeded: what it found is what there is, and its own entry comes next.
    pub(crate) fn opened(&mut self, at: usize, end: Sequence, _epoch: Epoch) {
        self.handed[at].known = Known::Recorded(Sequence(end.0 + 1));
    }

    /// An opening failed. Its entry may be in the log.
    pub(crate) fn not_opened(&mut self, at: usize) {
        assert_eq!(self.handed[at].known, Known::Open);
    }

    pub(crate) fn hand_over(&mut self, entries: Vec<Entry>) -> usize {
        self.push(entries)
    }

    pub(crate) fn settle(&mut self, at: usize, told: &Result<Appended, AppendError>) {
        self.handed[at].known = match told {
            Ok(appended) => {
                let entries = self.handed[at].entries.len() as u64;
                assert_eq!(appended.last.0 - appended.first.0 + 1, entries);
                Known::Recorded(appended.first)
            }
            Err(AppendError::Unsettled { .. }) => Known::Open,
            Err(_) => Known::Refused,
        };
    }

    pub(crate) fn stored(&mut self, blob: BlobRef, content: Vec<u8>) {
        self.blobs.push((blob, content));
    }

    pub(crate) fn blobs(&self) -> &[(BlobRef, Vec<u8>)] {
        &self.blobs
    }

    /// Number of batches that callers were told are recorded.
    pub(crate) fn recorded(&self) -> usize {
        let is_recorded = |handed: &&Handed| matches!(handed.known, Known::Recorded(_));
        self.handed.iter().filter(is_recorded).count()
    }

    /// Of the batches nobody had been told of: how many turned out to be there, and how many not.
    pub(crate) fn fates(&self, later: &Self) -> (usize, usize) {
        let open = self
            .handed
            .iter()
            .zip(&later.handed)
            .filter(|(before, _)| before.known == Known::Open);
        let mut fates = (0, 0);
        for (_, after) in open {
            match after.known {
                Known::Recorded(_) => fates.0 += 1,
                Known::Refused => fates.1 += 1,
                Known::Open => {}
            }
        }
        fates
    }

    /// Compares what a log holds with what callers know, and gives what they know then: what a log
    /// that was opened shows stays, what it does not show never comes.
    ///
    /// O3: everything recorded is there. O4: nothing else than what was handed over, whole batches,
    /// in order, and of one opening without gaps.
    pub(crate) fn compare(&self, log: &[Recorded]) -> Result<Self, String> {
        for (recorded, expected) in log.iter().zip(1..) {
            if recorded.sequence.0 != expected {
                return Err(format!(
                    "entry {expected} bears the sequence {}",
                    recorded.sequence
                ));
            }
        }
        let mut after = self.clone();
        let mut rest = log;
        let mut gap_in = None;
        let mut epoch_of = None;
        for handed in &mut after.handed {
            let count = handed.entries.len();
            let there = rest.len() >= count
                && handed
                    .entries
                    .iter()
                    .zip(rest)
                    .all(|(entry, recorded)| *entry == recorded.entry);
            match handed.known {
                Known::Recorded(first) if !there => {
                    return Err(format!(
                        "recorded as entry {first} and lost: {:?}",
                        short(&handed.entries)
                    ));
                }
                Known::Recorded(first) if rest[0].sequence != first => {
                    return Err(format!(
                        "recorded as entry {first}, found as {}",
                        rest[0].sequence
                    ));
                }
                Known::Refused if there => {
                    return Err(format!(
                        "refused and there all the same: {:?}",
                        short(&handed.entries)
                    ));
                }
                _ if there && gap_in == Some(handed.opening) => {
                    return Err(format!(
                        "there behind a batch that is not: {:?}",
                        short(&handed.entries)
                    ));
                }
                _ if there => {
                    // One opening, one epoch, and none goes back.
                    let epoch = rest[0].epoch;
                    if rest[..count].iter().any(|recorded| recorded.epoch != epoch) {
                        return Err("two epochs in one batch".to_owned());
                    }
                    let fits = match epoch_of {
                        Some((opening, known)) if opening == handed.opening => epoch == known,
                        Some((_, known)) => epoch > known,
                        None => epoch.0 > 0,
                    };
                    if !fits {
                        return Err(format!("epoch {epoch} after {epoch_of:?}"));
                    }
                    epoch_of = Some((handed.opening, epoch));
                    handed.known = Known::Recorded(rest[0].sequence);
                    rest = &rest[count..];
                }
                Known::Refused => {}
                _ => {
                    handed.known = Known::Refused;
                    gap_in = Some(handed.opening);
                }
            }
        }
        match rest.first() {
            Some(recorded) => Err(format!(
                "nobody handed over what is entry {}: {:?}",
                recorded.sequence,
                short(std::slice::from_ref(&recorded.entry))
            )),
            None => Ok(after),
        }
    }
}

fn short(entries: &[Entry]) -> String {
    let text = format!("{entries:?}");
    text.chars().take(200).collect()
}
