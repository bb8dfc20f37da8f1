//! The tables in redb, and the transactions over them.
//!
//! | table | key | value (each under its checksum) |
//! |---|---|---|
//! | `meta` | `state` | format version, journal id, applied sequence |
//! | `runs` | run | row |
//! | `history` | run, sequence of the chunk's first entry | entries |

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{
    Builder, Database, Durability, ReadableDatabase, ReadableTable, TableDefinition, TableError,
    TableHandle, WriteTransaction,
};

use crate::face::{RunFilter, RunRow};
use crate::format::entry::{JournalId, Recorded, Sequence};

use super::apply;
use super::backend::Backend;
use super::value::{Parts, seal, unseal};
use super::{chunk, row};

/// Version of the tables. A projection of another version is built again from the log.
const FORMAT_VERSION: u32 = 1;

/// Memory that redb may use for pages.
const CACHE_BYTES: usize = 64 * 1024 * 1024;

/// A chunk that has grown beyond this is closed and another one begun.
const CHUNK_BYTES: usize = 256 * 1024;

const META: TableDefinition<&str, &[u8]> = TableDefinition::new("meta");
const RUNS: TableDefinition<&str, &[u8]> = TableDefinition::new("runs");
const HISTORY: TableDefinition<(&str, u64), &[u8]> = TableDefinition::new("history");

const STATE: &str = "state";

/// Why the projection's file cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum StoreError {
    /// What is in it cannot be right, or is of another journal.
    #[error("damaged: {0}")]
    Damaged(String),
    /// The disk refused; the file itself may be good.
    #[error("the disk failed: {0}")]
    Io(io::Error),
}

impl From<redb::Error> for StoreError {
    fn from(error: redb::Error) -> Self {
        match error {
            redb::Error::Io(error) if is_refusal(error.kind()) => Self::Io(error),
            error => Self::Damaged(error.to_string()),
        }
    }
}

/// Errors that say nothing about the file's content. All others (an end of file where pages should
/// be, an unreadable sector) count as damage: the log has it all, so rebuilding is always safe.
fn is_refusal(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::StorageFull
            | io::ErrorKind::QuotaExceeded
            | io::ErrorKind::FileTooLarge
            | io::ErrorKind::ReadOnlyFilesystem
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::OutOfMemory
    )
}

/// Which of two promises a commit makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Commit {
    /// Seen by every later read; lost in a crash, back to the last checkpoint.
    InMemory,
    /// Durable, and everything before it. In two phases: data is on disk before the file's root
    /// names it, so no torn page can be taken for a commit.
    Checkpoint,
}

/// The open tables.
#[derive(Debug)]
pub(super) struct Store {
    /// Taken only when the store is dropped.
    database: Option<Database>,
    journal: JournalId,
}

impl Drop for Store {
    fn drop(&mut self) {
        let database = self.database.take();
        // Closing a damaged file may panic, as anything redb does with one. What was applied is
        // durable already.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(database)));
    }
}

impl Store {
    /// Opens the tables, or makes them in an empty file, and gives the applied sequence.
    pub(super) fn open(
        backend: Backend,
        journal: JournalId,
    ) -> Result<(Self, Sequence), StoreError> {
        let database = Builder::new()
            .set_cache_size(CACHE_BYTES)
            .create_with_backend(backend)
            .map_err(redb::Error::from)?;
        let store = Self {
            database: Some(database),
            journal,
        };
        let applied = match store.applied()? {
            Some(applied) => applied,
            None => {
                store.create()?;
                Sequence(0)
            }
        };
        Ok((store, applied))
    }

    fn database(&self) -> &Database {
        self.database
            .as_ref()
            .expect("taken only when the store is dropped, after which nobody asks")
    }

    /// The applied sequence; `None` if there are no tables yet.
    fn applied(&self) -> Result<Option<Sequence>, StoreError> {
        let read = self.database().begin_read().map_err(redb::Error::from)?;
        let meta = match read.open_table(META) {
            Ok(meta) => meta,
            Err(TableError::TableDoesNotExist(_)) => {
                let others: Vec<String> = read
                    .list_tables()
                    .map_err(redb::Error::from)?
                    .map(|table| table.name().to_owned())
                    .collect();
                return if others.is_empty() {
                    Ok(None)
                } else {
                    Err(StoreError::Damaged(format!(
                        "no projection, it holds the tables {others:?}"
                    )))
                };
            }
            Err(error) => return Err(redb::Error::from(error).into()),
        };
        let state = meta.get(STATE).map_err(redb::Error::from)?;
        let Some(state) = state else {
            return Err(StoreError::Damaged("its state is missing".to_owned()));
        };
        let (version, journal, applied) = unseal(&[b"meta", STATE.as_bytes()], state.value())
            .and_then(|bytes| {
                let mut parts = Parts(bytes);
                Ok((parts.u32()?, JournalId(parts.array()?), parts.u64()?))
            })
            .map_err(StoreError::Damaged)?;
        if version != FORMAT_VERSION {
            return Err(StoreError::Damaged(format!(
                "its tables have version {version}, this program uses {FORMAT_VERSION}"
            )));
        }
        if journal != self.journal {
            return Err(StoreError::Damaged(format!(
                "it belongs to the journal {journal}, this is {}",
                self.journal
            )));
        }
        Ok(Some(Sequence(applied)))
    }

    fn create(&self) -> Result<(), StoreError> {
        let write = self.begin(Commit::Checkpoint)?;
        self.put_applied(&write, Sequence(0))?;
        write.open_table(RUNS).map_err(redb::Error::from)?;
        write.open_table(HISTORY).map_err(redb::Error::from)?;
        write.commit().map_err(redb::Error::from)?;
        Ok(())
    }

    fn begin(&self, commit: Commit) -> Result<WriteTransaction, StoreError> {
        let mut write = self.database().begin_write().map_err(redb::Error::from)?;
        match commit {
            Commit::InMemory => write
                .set_durability(Durability::None)
                .map_err(redb::Error::from)?,
            Commit::Checkpoint => write.set_two_phase_commit(true),
        }
        Ok(write)
    }

    fn put_applied(&self, write: &WriteTransaction, applied: Sequence) -> Result<(), StoreError> {
        let mut state = Vec::with_capacity(28);
        state.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        state.extend_from_slice(&self.journal.0);
        state.extend_from_slice(&applied.0.to_le_bytes());
        let sealed = seal(&[b"meta", STATE.as_bytes()], &state);
        let mut meta = write.open_table(META).map_err(redb::Error::from)?;
        meta.insert(STATE, &*sealed).map_err(redb::Error::from)?;
        Ok(())
    }

    /// Applies entries, which go on where the applied ones end.
    pub(super) fn apply(&self, entries: &[Recorded], commit: Commit) -> Result<(), StoreError> {
        let write = self.begin(commit)?;
        if let Some(last) = entries.last() {
            self.put_runs(&write, entries)?;
            self.put_applied(&write, last.sequence)?;
        }
        write.commit().map_err(redb::Error::from)?;
        Ok(())
    }

    fn put_runs(&self, write: &WriteTransaction, entries: &[Recorded]) -> Result<(), StoreError> {
        let mut by_run: BTreeMap<&str, Vec<&Recorded>> = BTreeMap::new();
        for recorded in entries {
            if let Some(run) = recorded.entry.run.as_deref() {
                by_run.entry(run).or_default().push(recorded);
            }
        }
        let mut runs = write.open_table(RUNS).map_err(redb::Error::from)?;
        let mut history = write.open_table(HISTORY).map_err(redb::Error::from)?;
        for (run, entries) in by_run {
            let before = runs
                .get(run)
                .map_err(redb::Error::from)?
                .map(|sealed| read_row(run, sealed.value()))
                .transpose()?;
            let after = entries
                .iter()
                .fold(before, |row, recorded| apply::apply(row, recorded))
                .expect("entries of a run make a row");
            let sealed = seal(&[b"runs", run.as_bytes()], &row::encode(&after));
            runs.insert(run, &*sealed).map_err(redb::Error::from)?;
            let mut put = |first: Sequence, chunk: &[u8]| {
                let sealed = seal(&history_place(run, &first.0.to_le_bytes()), chunk);
                history
                    .insert((run, first.0), &*sealed)
                    .map(drop)
                    .map_err(redb::Error::from)
            };
            let mut chunk = Vec::new();
            let mut first = entries[0].sequence;
            for recorded in entries {
                if chunk.len() > CHUNK_BYTES {
                    put(first, &chunk)?;
                    chunk.clear();
                    first = recorded.sequence;
                }
                chunk::push(&mut chunk, recorded).map_err(StoreError::Damaged)?;
            }
            put(first, &chunk)?;
        }
        Ok(())
    }

    /// The entries of a run, in order, checked against the number and the last one that its row
    /// names.
    pub(super) fn history(&self, run: &str) -> Result<Vec<Recorded>, StoreError> {
        let read = self.database().begin_read().map_err(redb::Error::from)?;
        let runs = read.open_table(RUNS).map_err(redb::Error::from)?;
        let row = runs
            .get(run)
            .map_err(redb::Error::from)?
            .map(|sealed| read_row(run, sealed.value()))
            .transpose()?;
        let chunks = read.open_table(HISTORY).map_err(redb::Error::from)?;
        let mut history = Vec::new();
        let range = chunks
            .range((run, 0)..=(run, u64::MAX))
            .map_err(redb::Error::from)?;
        for found in range {
            let (key, sealed) = found.map_err(redb::Error::from)?;
            let first = key.value().1.to_le_bytes();
            unseal(&history_place(run, &first), sealed.value())
                .and_then(|bytes| chunk::decode(run, bytes, &mut history))
                .map_err(|what| StoreError::Damaged(format!("history of run {run:?}: {what}")))?;
        }
        let expected = row.map_or((0, None), |row| (row.entries, Some(row.last)));
        let last = history.last().map(|recorded| recorded.sequence);
        if (history.len() as u64, last) != expected {
            return Err(StoreError::Damaged(format!(
                "the history of run {run:?} has {} entries up to {last:?}, its row says {} up to {:?}",
                history.len(),
                expected.0,
                expected.1,
            )));
        }
        Ok(history)
    }

    /// The rows that the filter lets through, oldest first.
    pub(super) fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>, StoreError> {
        let read = self.database().begin_read().map_err(redb::Error::from)?;
        let runs = read.open_table(RUNS).map_err(redb::Error::from)?;
        let mut rows = Vec::new();
        for found in runs.iter().map_err(redb::Error::from)? {
            let (run, sealed) = found.map_err(redb::Error::from)?;
            let row = read_row(run.value(), sealed.value())?;
            if apply::matches(filter, &row) {
                rows.push(row);
            }
        }
        rows.sort_unstable_by_key(|row| row.first);
        Ok(rows)
    }
}

fn read_row(run: &str, sealed: &[u8]) -> Result<RunRow, StoreError> {
    unseal(&[b"runs", run.as_bytes()], sealed)
        .and_then(|bytes| row::decode(run, bytes))
        .map_err(|what| StoreError::Damaged(format!("row of run {run:?}: {what}")))
}

fn history_place<'a>(run: &'a str, first: &'a [u8; 8]) -> [&'a [u8]; 3] {
    [b"history", run.as_bytes(), first]
}
