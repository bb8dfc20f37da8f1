//! A journal that is only read: without its lock, without its projection, without a write.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use intendant::action::doubt::Surroundings;
use intendant::clock::{Clock, SystemClock};
use intendant::operator::report::{HistoryLine, Pending, RunDetail, RunLine};
use intendant::operator::{history, view};
use intendant::run::state::{Misfit, RunState};
use intendant_journal::error::{AppendError, ReadError};
use intendant_journal::face::{Append, Batch, IntentLog, RunFilter, RunRow, Stats};
use intendant_journal::format::entry::{
    BlobRef, Body, Epoch, JournalId, Moment, Recorded, Sequence,
};
use intendant_journal::scan::ScanReport;

use crate::exit::{Exit, Failure};
use crate::job::JobInput;
use crate::job::recorded::input_of;
use crate::open;

/// What was read.
pub(crate) struct Still {
    runs: BTreeMap<String, Folded>,
    /// Runs that do not begin as a run does.
    headless: BTreeMap<String, Misfit>,
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

/// A run as far as its entries follow each other.
struct Folded {
    state: RunState,
    /// The first entry that does not, and when the last one was written. The others can be read.
    broken: Option<(Misfit, Moment)>,
}

impl Folded {
    fn apply(&mut self, recorded: &Recorded) {
        match &mut self.broken {
            Some((_, last_at)) => *last_at = recorded.entry.at,
            None => {
                let misfit = self.state.apply(recorded).err();
                self.broken = misfit.map(|misfit| (misfit, recorded.entry.at));
            }
        }
    }
}

impl Still {
    /// Reads the journal in a folder; the whole history only of the run `in_full`.
    pub(crate) fn read(data: &Path, in_full: Option<&str>, live: bool) -> Result<Self, Failure> {
        let mut runs: BTreeMap<String, Folded> = BTreeMap::new();
        let mut headless: BTreeMap<String, Misfit> = BTreeMap::new();
        let mut history = Vec::new();
        let mut openings = Vec::new();
        let mut last_wall_ms = i64::MIN;
        let report = open::scan(data, |recorded| {
            last_wall_ms = last_wall_ms.max(recorded.entry.at.wall_ms);
            if let Body::Opened(opened) = &recorded.entry.body {
                openings.push((recorded.epoch, opened.boot_id.clone()));
            }
            let Some(run) = recorded.entry.run.clone() else {
                return;
            };
            match runs.get_mut(&run) {
                Some(folded) => folded.apply(&recorded),
                None if headless.contains_key(&run) => {}
                None => match RunState::begin(&run, &recorded) {
                    Ok(state) => {
                        let broken = None;
                        runs.insert(run.clone(), Folded { state, broken });
                    }
                    Err(misfit) => {
                        headless.insert(run.clone(), misfit);
                    }
                },
            }
            if in_full == Some(run.as_str()) {
                history.push(recorded);
            }
        })?;
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
            headless,
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
        let mut alarms = self.alarms.clone();
        alarms.extend(self.headless.values().map(Misfit::to_string));
        for folded in self.runs.values() {
            let state = &folded.state;
            if let Some((misfit, _)) = &folded.broken {
                alarms.push(misfit.to_string());
                continue;
            }
            if state.end.is_some() && state.incidents.is_empty() {
                continue;
            }
            let input = input_of(&self.log, &state.pass);
            let around = |tool: &str| self.surroundings(input.as_ref(), tool);
            items.extend(view::pending_of(state, self.live, &around));
        }
        view::add_keys(&mut items, self.report.id);
        items.sort_by(|a, b| (&a.since, &a.intent).cmp(&(&b.since, &b.intent)));
        Pending {
            schema: 1,
            engine: if self.live { "live" } else { "stopped" }.to_owned(),
            as_of_sequence: self.report.end.0,
            alarms,
            items,
        }
    }

    /// All runs, oldest first.
    pub(crate) fn runs(&self) -> Vec<RunLine> {
        let mut runs: Vec<&Folded> = self.runs.values().collect();
        runs.sort_by_key(|folded| (folded.state.first_at.wall_ms, &folded.state.run));
        runs.into_iter()
            .map(|folded| {
                let mut line = view::run_line_read(&folded.state, self.live);
                if let Some((_, last_at)) = &folded.broken {
                    line.state = "broken".to_owned();
                    line.updated = view::rfc3339(*last_at);
                }
                line
            })
            .collect()
    }

    /// The run that was asked for in full.
    pub(crate) fn show(&self, run: &str) -> Result<Option<RunDetail>, Failure> {
        let found = self.runs.get(run);
        let broken = found.and_then(|folded| folded.broken.as_ref());
        let broken = broken.map(|(misfit, _)| misfit);
        if let Some(misfit) = broken.or_else(|| self.headless.get(run)) {
            return Err(Failure::new(
                Exit::JournalRefused,
                "broken",
                misfit.to_string(),
                "keep the folder and report it; intendant tail shows what is recorded",
            ));
        }
        let Some(Folded { state, .. }) = found else {
            return Ok(None);
        };
        let input = input_of(&self.log, &state.pass);
        let around = |tool: &str| self.surroundings(input.as_ref(), tool);
        Ok(Some(view::run_detail(
            state,
            &self.history,
            None,
            Sequence(0),
            self.live,
            &around,
            Some(&self.log),
        )))
    }
}

/// The lines of the log behind a sequence, of one run or of all, and the log's end.
pub(crate) fn tail(
    data: &Path,
    run: Option<&str>,
    after: u64,
) -> Result<(Vec<HistoryLine>, u64), Failure> {
    let mut lines = Vec::new();
    let mut known = run.is_none();
    let report = open::scan(data, |recorded| {
        let wanted = run.is_none_or(|run| recorded.entry.run.as_deref() == Some(run));
        known |= wanted;
        if wanted && recorded.sequence.0 > after {
            lines.push(history::history_line(&recorded));
        }
    })?;
    match run.filter(|_| !known) {
        Some(run) => Err(no_run(run)),
        None => Ok((lines, report.end.0)),
    }
}

/// No run has that id.
pub(crate) fn no_run(run: &str) -> Failure {
    Failure::new(
        Exit::Usage,
        "not_found",
        format!("there is no run {run:?}"),
        "see `intendant runs`",
    )
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
    use intendant_journal::Options;
    use intendant_journal::format::entry::{
        Digest, Entry, NotedEntry, PassStarted, Payload, ScopePath, TimerSet,
    };

    use super::*;

    fn entry(run: &str, body: Body) -> Entry {
        Entry {
            at: Moment::default(),
            run: Some(run.to_owned()),
            body,
        }
    }

    fn begins(run: &str, pass: u32) -> Entry {
        let started = PassStarted {
            pass,
            workflow: "of a program".to_owned(),
            version: 1,
            input: Payload::Json("null".to_owned()),
            input_digest: Digest([0; 32]),
        };
        entry(run, Body::PassStarted(started))
    }

    #[test]
    fn p9_a_run_that_does_not_fold_hides_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        let journal = Options::new()
            .segment_bytes(65_536)
            .state_home(folder.path().join("state"))
            .open_or_create(&data)
            .unwrap();
        let path = ScopePath("0".to_owned());
        let what = "note".to_owned();
        let value = "1".to_owned();
        let noted = NotedEntry { path, what, value };
        let timer = TimerSet {
            path: ScopePath("sleep".to_owned()),
            due_wall_ms: 1,
        };
        let entries = vec![
            entry("headless", Body::Noted(noted.clone())),
            begins("broken", 1),
            begins("broken", 3),
            begins("good", 1),
            entry("broken", Body::Noted(noted)),
            entry("good", Body::TimerSet(timer)),
        ];
        let batch = Batch {
            entries,
            starts_effects: false,
        };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(journal.append(batch)).unwrap();
        journal.close();

        let still = Still::read(&data, Some("good"), false).unwrap();
        let pending = still.pending();
        assert_eq!(pending.items.len(), 1, "{pending:?}");
        assert_eq!(pending.items[0].run, "good");
        for run in ["headless", "broken"] {
            let told = |alarm: &String| alarm.contains(&format!("run {run}: entry"));
            assert!(pending.alarms.iter().any(told), "{run}: {pending:?}");
            assert_eq!(still.show(run).unwrap_err().code, "broken");
        }
        let states: Vec<_> = still
            .runs()
            .into_iter()
            .map(|run| (run.run, run.state))
            .collect();
        let of = |run: &str, state: &str| (run.to_owned(), state.to_owned());
        assert_eq!(states, [of("broken", "broken"), of("good", "waiting")]);
        assert_eq!(still.show("good").unwrap().unwrap().line.run, "good");
        assert!(still.show("nobody").unwrap().is_none());
    }

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
