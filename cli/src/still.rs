//! A journal that is only read: without its lock, without its projection, without a write.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use intendant::action::doubt::Surroundings;
use intendant::clock::{Clock, SystemClock};
use intendant::operator::report::{HistoryLine, Pending, RunDetail, RunLine};
use intendant::operator::view;
use intendant::run::state::RunState;
use intendant_journal::error::{AppendError, ReadError};
use intendant_journal::face::{Append, Batch, IntentLog, RunFilter, RunRow, Stats};
use intendant_journal::format::entry::{BlobRef, Body, Epoch, JournalId, Recorded, Sequence};
use intendant_journal::scan::ScanReport;

use crate::exit::{Exit, Failure};
use crate::job::JobInput;
use crate::job::recorded::input_of;
use crate::open;

/// What was read.
pub(crate) struct Still {
    runs: BTreeMap<String, RunState>,
    /// Entries of the one run that was asked for in full.
    history: Vec<Recorded>,
    report: ScanReport,
    boot_since: Epoch,
    last_wall_ms: i64,
    log: OnlyRead,
    /// An engine that cannot be asked is at work in another process.
    live: bool,
    alarms: Vec<String>,
}

impl Still {
    /// Reads the journal in a folder; the whole history only of the run `in_full`.
    pub(crate) fn read(data: &Path, in_full: Option<&str>, live: bool) -> Result<Self, Failure> {
        let mut runs: BTreeMap<String, RunState> = BTreeMap::new();
        let mut history = Vec::new();
        let mut openings = Vec::new();
        let mut last_wall_ms = i64::MIN;
        let mut misfit = None;
        let report = open::scan(data, |recorded| {
            last_wall_ms = last_wall_ms.max(recorded.entry.at.wall_ms);
            if let Body::Opened(opened) = &recorded.entry.body {
                openings.push((recorded.epoch, opened.boot_id.clone()));
            }
            let Some(run) = recorded.entry.run.clone() else {
                return;
            };
            if misfit.is_none() {
                let folded = match runs.get_mut(&run) {
                    Some(state) => state.apply(&recorded),
                    None => RunState::begin(&run, &recorded).map(|state| {
                        runs.insert(run.clone(), state);
                    }),
                };
                misfit = folded.err();
            }
            if in_full == Some(run.as_str()) {
                history.push(recorded);
            }
        })?;
        if let Some(misfit) = misfit {
            return Err(Failure::new(
                Exit::JournalRefused,
                "broken",
                misfit.to_string(),
                "keep the folder and report it",
            ));
        }
        let boot_since = boot_since(&openings, &boot_id()).unwrap_or(Epoch(report.epoch.0 + 1));
        let alarms = match std::fs::read_to_string(open::last_failure(data)) {
            Ok(why) => vec![why.trim().to_owned()],
            Err(_) => Vec::new(),
        };
        let log = OnlyRead {
            data: data.to_owned(),
            id: report.id,
            epoch: report.epoch,
            end: report.end,
        };
        Ok(Self {
            runs,
            history,
            report,
            boot_since,
            last_wall_ms,
            log,
            live,
            alarms,
        })
    }

    fn surroundings(&self, input: Option<&JobInput>, tool: &str) -> Surroundings {
        let now = SystemClock.now();
        Surroundings {
            now,
            boot_since: self.boot_since,
            clock_behind: now.wall_ms < self.last_wall_ms,
            reconciler: input.and_then(|input| input.ask_rule(tool)),
        }
    }

    /// What is pending in all runs.
    pub(crate) fn pending(&self) -> Pending {
        let mut items = Vec::new();
        for state in self.runs.values() {
            if state.end.is_some() && state.incidents.is_empty() {
                continue;
            }
            let input = input_of(&self.log, &state.pass);
            let around = |tool: &str| self.surroundings(input.as_ref(), tool);
            items.extend(view::pending_of(state, self.live, &around));
        }
        items.sort_by(|a, b| (&a.since, &a.intent).cmp(&(&b.since, &b.intent)));
        Pending {
            schema: 1,
            engine: if self.live { "live" } else { "stopped" }.to_owned(),
            as_of_sequence: self.report.end.0,
            alarms: self.alarms.clone(),
            items,
        }
    }

    /// All runs, oldest first.
    pub(crate) fn runs(&self) -> Vec<RunLine> {
        let mut states: Vec<&RunState> = self.runs.values().collect();
        states.sort_by_key(|state| (state.first_at.wall_ms, &state.run));
        states
            .into_iter()
            .map(|state| view::run_line(state, None, Sequence(0)))
            .collect()
    }

    /// The run that was asked for in full.
    pub(crate) fn show(&self, run: &str) -> Option<RunDetail> {
        let state = self.runs.get(run)?;
        let input = input_of(&self.log, &state.pass);
        let around = |tool: &str| self.surroundings(input.as_ref(), tool);
        Some(view::run_detail(
            state,
            &self.history,
            None,
            Sequence(0),
            self.live,
            &around,
            Some(&self.log),
        ))
    }
}

/// The lines of the log behind a sequence, of one run or of all, and the log's end.
pub(crate) fn tail(
    data: &Path,
    run: Option<&str>,
    after: u64,
) -> Result<(Vec<HistoryLine>, u64), Failure> {
    let mut lines = Vec::new();
    let report = open::scan(data, |recorded| {
        let wanted = run.is_none_or(|run| recorded.entry.run.as_deref() == Some(run));
        if wanted && recorded.sequence.0 > after {
            lines.push(view::history_line(&recorded));
        }
    })?;
    Ok((lines, report.end.0))
}

/// The machine's boot, as the kernel names it.
fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// The first of the last unbroken row of openings within this boot.
fn boot_since(openings: &[(Epoch, String)], boot: &str) -> Option<Epoch> {
    openings
        .iter()
        .rev()
        .take_while(|(_, id)| !boot.is_empty() && id.trim() == boot)
        .last()
        .map(|(epoch, _)| *epoch)
}

/// The journal's face, as far as it can be shown without owning the journal.
struct OnlyRead {
    data: PathBuf,
    id: JournalId,
    epoch: Epoch,
    end: Sequence,
}

const ONLY_READ: &str = "this process only reads the journal";

impl IntentLog for OnlyRead {
    fn id(&self) -> JournalId {
        self.id
    }

    fn epoch(&self) -> Epoch {
        self.epoch
    }

    fn append(&self, _: Batch) -> Append {
        Append::new(std::future::ready(Err(AppendError::Refused {
            why: ONLY_READ.to_owned(),
        })))
    }

    fn durable(&self) -> Sequence {
        self.end
    }

    fn disabled(&self) -> Option<String> {
        Some(ONLY_READ.to_owned())
    }

    fn history(&self, _: &str) -> Result<Vec<Recorded>, ReadError> {
        Ok(Vec::new())
    }

    fn runs(&self, _: RunFilter) -> Result<Vec<RunRow>, ReadError> {
        Ok(Vec::new())
    }

    fn claim(&self) -> Result<Vec<String>, ReadError> {
        Ok(Vec::new())
    }

    fn put_blob(&self, _: &[u8]) -> Result<BlobRef, AppendError> {
        Err(AppendError::Refused {
            why: ONLY_READ.to_owned(),
        })
    }

    fn get_blob(&self, blob: &BlobRef) -> Result<Vec<u8>, ReadError> {
        intendant_journal::scan::read_blob(&self.data, blob)
    }

    fn inline_max_bytes(&self) -> usize {
        0
    }

    fn stats(&self) -> Stats {
        Stats::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_of_openings_within_this_boot_ends_at_the_first_other_one() {
        let of = |ids: &[(u32, &str)]| {
            let openings: Vec<_> = ids
                .iter()
                .map(|(epoch, id)| (Epoch(*epoch), (*id).to_owned()))
                .collect();
            boot_since(&openings, "b")
        };
        assert_eq!(
            of(&[(1, "b"), (2, "a"), (3, "b"), (4, "b")]),
            Some(Epoch(3))
        );
        assert_eq!(of(&[(1, "b"), (2, "a")]), None);
        assert_eq!(of(&[]), None);
    }
}
