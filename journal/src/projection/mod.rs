//! What is derived from the log for questions: the runs and their histories, in `projection.redb`.
//! The only place that knows redb.
//!
//! Invariants:
//! - The log is the authority. A projection can be thrown away at any time; built again from the
//!   log it has the same content, since rows are made by one pure function ([`mod@apply`]).
//! - It holds exactly the entries up to its *applied* sequence. Entries come in the order of the
//!   log, without gaps; a gap stops projecting.
//! - It is off the critical path: [`Projection::feed`] only puts entries into a queue. A projection
//!   that fails (full disk, damage, a panic in redb) stops projecting, never recording; questions
//!   then get [`ReadError::Projection`].
//! - Opening one changes nothing until the journal is known to be in order ([`Look`]).
//! - A question is answered after everything fed before it has been applied, so people read their
//!   own writes.
//! - redb checks nothing on ordinary reads, so every value carries its own checksum ([`mod@value`]). A
//!   file found damaged is set aside under another name, unchanged, and the next opening builds a
//!   new one.
//! - The names of these files are not synced: if a power cut undoes a renaming or creation, the
//!   next opening finds an older projection, or none, and goes on from there.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use crate::disk::{Access, Disk, Site};
use crate::drive::Drive;
use crate::error::{OpenError, ReadError};
use crate::face::{RunFilter, RunRow};
use crate::format::entry::{JournalId, Recorded, Sequence};

pub(crate) mod apply;
mod backend;
mod chunk;
mod row;
mod store;
mod value;
mod worker;

use backend::Backend;
use store::{Store, StoreError};
use worker::{Queue, Worker, WorkerStart};

/// Name of the projection's file in the journal's folder.
pub(crate) const FILE_NAME: &str = "projection.redb";

/// Files set aside at most; one more replaces the last.
const SET_ASIDE_MAX: u32 = 9;

/// The projection of one opening of a journal.
///
/// Dropping it applies what was fed, makes it durable and closes the file.
#[derive(Debug)]
pub(crate) struct Projection {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    queue: Arc<Queue>,
    /// Taken only when the projection is dropped.
    store: Option<Arc<Store>>,
    hand: Hand,
}

/// Who applies what was fed.
#[derive(Debug)]
enum Hand {
    /// A thread, until it is joined.
    Thread(Option<JoinHandle<()>>),
    /// Whoever waits for it, until the projection is dropped.
    Caller(Mutex<Option<Worker>>),
}

/// A projection that was read, and not changed yet: what it remembers may show that the journal is
/// damaged, and then no byte of it may be changed either.
#[derive(Debug)]
pub(crate) struct Look {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    store: Store,
    backend: Backend,
    /// As [`Opening::applied`].
    pub(crate) applied: Sequence,
    set_aside: Option<SetAside>,
}

/// A projection just opened.
#[derive(Debug)]
pub(crate) struct Opening {
    /// It.
    pub(crate) projection: Projection,
    /// All entries up to here are in it; those above are to be fed. A sequence beyond the log's end
    /// means that the log has lost entries.
    pub(crate) applied: Sequence,
    /// What had to be set aside, if something was.
    pub(crate) set_aside: Option<SetAside>,
}

/// A projection that could not be used: kept unchanged under another name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SetAside {
    /// Where it is now.
    pub(crate) path: PathBuf,
    /// Why it could not be used.
    pub(crate) why: String,
}

impl Projection {
    /// Looks at the projection in the journal's folder. One that is missing is begun empty; one that
    /// is damaged, of another journal or not to be opened is set aside first: neither remembers
    /// anything.
    ///
    /// # Errors
    /// [`OpenError::Io`] if the file cannot be reached or no new one can be made.
    pub(crate) fn look(
        disk: Arc<dyn Disk>,
        folder: &Path,
        journal: JournalId,
    ) -> Result<Look, OpenError> {
        let path = folder.join(FILE_NAME);
        let mut set_aside = None;
        let opened = match open_store(&*disk, &path, journal) {
            Err(StoreError::Damaged(why)) => {
                let aside = self::set_aside(&*disk, &path).map_err(|source| {
                    io_error(&path, "setting a damaged projection aside", source)
                })?;
                tracing::warn!(
                    path = %path.display(), aside = %aside.display(), why,
                    "the projection cannot be used and is built again from the log"
                );
                set_aside = Some(SetAside { path: aside, why });
                open_store(&*disk, &path, journal)
            }
            opened => opened,
        };
        let (store, backend, applied) = opened.map_err(|error| {
            let source = match error {
                StoreError::Io(source) => source,
                StoreError::Damaged(why) => io::Error::other(why),
            };
            io_error(&path, "opening the projection", source)
        })?;
        Ok(Look {
            disk,
            path,
            store,
            backend,
            applied,
            set_aside,
        })
    }

    /// [`Projection::look`] and [`Look::open`] in one.
    #[cfg(test)]
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        folder: &Path,
        journal: JournalId,
        drive: Drive,
    ) -> Result<Opening, OpenError> {
        Self::look(disk, folder, journal)?.open(drive)
    }
}

impl Look {
    /// Opens it for good: what redb changed at the look is done to the file.
    ///
    /// # Errors
    /// [`OpenError::Io`] if that fails.
    pub(crate) fn open(self, drive: Drive) -> Result<Opening, OpenError> {
        let Self {
            disk,
            path,
            store,
            backend,
            applied,
            set_aside,
        } = self;
        backend
            .let_through()
            .map_err(|source| io_error(&path, "opening the projection", source))?;
        let store = Arc::new(store);
        let queue = Arc::new(Queue::new(applied));
        let start = WorkerStart {
            queue: Arc::clone(&queue),
            store: Arc::clone(&store),
            disk: Arc::clone(&disk),
            path: path.clone(),
        };
        let hand = match drive {
            Drive::Threads => {
                let worker = Worker::paced(start);
                let thread = std::thread::Builder::new()
                    .name("projection".to_owned())
                    .spawn(move || worker.run());
                Hand::Thread(Some(thread.map_err(|source| {
                    io_error(&path, "starting the projection's thread", source)
                })?))
            }
            Drive::Caller => Hand::Caller(Mutex::new(Some(Worker::unpaced(start)))),
        };
        Ok(Opening {
            projection: Projection {
                disk,
                path,
                queue,
                store: Some(store),
                hand,
            },
            applied,
            set_aside,
        })
    }
}

impl Projection {
    /// Hands over durable entries in the order of the log, going on where the last call or the
    /// opening ended; those already applied are skipped. Never waits for the disk.
    pub(crate) fn feed(&self, entries: Vec<Recorded>) {
        self.queue.feed(entries);
    }

    /// Waits until at most so many entries are fed and not applied, or projecting has failed. For
    /// whoever feeds a whole log, which need not be in memory at once.
    pub(crate) fn wait_for_backlog(&self, at_most: u64) {
        self.turn_now();
        self.queue.wait_for_backlog(at_most);
    }

    /// The entries of a run, in order; empty for an unknown one.
    ///
    /// # Errors
    /// [`ReadError::Projection`] if the projection has failed or is damaged.
    pub(crate) fn history(&self, run: &str) -> Result<Vec<Recorded>, ReadError> {
        self.ask(|store| store.history(run))
    }

    /// The rows of the runs that the filter lets through, oldest first.
    ///
    /// # Errors
    /// As for [`Projection::history`].
    pub(crate) fn runs(&self, filter: RunFilter) -> Result<Vec<RunRow>, ReadError> {
        self.ask(|store| store.runs(filter))
    }

    /// If there is no thread, applies what was fed.
    pub(crate) fn turn_now(&self) {
        if let Hand::Caller(worker) = &self.hand {
            let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
            worker.as_mut().map(Worker::turn_now);
        }
    }

    /// If there is no thread, makes durable what was applied.
    #[cfg(any(test, feature = "simulated"))]
    pub(crate) fn checkpoint_now(&self) {
        if let Hand::Caller(worker) = &self.hand {
            let mut worker = worker.lock().unwrap_or_else(PoisonError::into_inner);
            worker.as_mut().map(Worker::checkpoint_now);
        }
    }

    /// Waits until what was fed is applied, then reads.
    fn ask<T>(
        &self,
        question: impl FnOnce(&Store) -> Result<T, StoreError>,
    ) -> Result<T, ReadError> {
        let refused = |why| ReadError::Projection {
            path: self.path.clone(),
            why,
        };
        self.turn_now();
        self.queue.wait_until_applied().map_err(refused)?;
        let store = self
            .store
            .as_ref()
            .expect("taken only when the projection is dropped, after which nobody asks");
        contained(|| question(store)).map_err(|error| {
            if let StoreError::Damaged(why) = &error
                && self.queue.mark_damaged()
            {
                abandon(&*self.disk, &self.path, why);
            }
            refused(error.to_string())
        })
    }
}

impl Drop for Projection {
    fn drop(&mut self) {
        self.queue.close();
        self.turn_now();
        match &mut self.hand {
            Hand::Thread(thread) => {
                if let Some(thread) = thread.take() {
                    // The worker contains panics of redb; there is nothing more to learn from its
                    // end.
                    let _ = thread.join();
                }
            }
            Hand::Caller(worker) => {
                *worker.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
            }
        }
        drop(self.store.take());
    }
}

/// Runs something that calls redb. A panic in there means that the file is damaged.
fn contained<T>(call: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(StoreError::Damaged(format!("redb panicked: {text}")))
    })
}

fn open_store(
    disk: &dyn Disk,
    path: &Path,
    journal: JournalId,
) -> Result<(Store, Backend, Sequence), StoreError> {
    // An error here is no damage: a file that cannot be reached may be a good one.
    let file = match disk.open(path, Access::ReadWrite) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            disk.create(path, Site::ProjectionCreate)
        }
        opened => opened,
    }
    .map_err(StoreError::Io)?;
    let backend = Backend::held_back(file).map_err(StoreError::Io)?;
    let (store, applied) = contained(|| Store::open(backend.clone(), journal))?;
    Ok((store, backend, applied))
}

/// The applied sequence of the projection in a journal's folder, asked by somebody who may change
/// nothing; `None` if there is none of this journal that can be read as one. Its owner must not be at
/// work: what is read then is a mixture.
pub(crate) fn remembered(disk: &dyn Disk, folder: &Path, journal: JournalId) -> Option<Sequence> {
    let file = disk.open(&folder.join(FILE_NAME), Access::Read).ok()?;
    let backend = Backend::of_bystander(file).ok()?;
    contained(|| Store::open(backend, journal))
        .ok()
        .map(|(_, applied)| applied)
}

/// Renames a projection that cannot be used; no byte of it is changed.
fn set_aside(disk: &dyn Disk, path: &Path) -> io::Result<PathBuf> {
    let named = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".damaged-{number}"));
        PathBuf::from(name)
    };
    let mut number = 1;
    while number < SET_ASIDE_MAX && disk.kind(&named(number))?.is_some() {
        number += 1;
    }
    let aside = named(number);
    disk.rename(path, &aside, Site::ProjectionRename)?;
    Ok(aside)
}

/// Sets a file aside that was found damaged while in use, so that the next opening builds a new
/// one. The open file stays readable under its new name.
fn abandon(disk: &dyn Disk, path: &Path, why: &str) {
    match set_aside(disk, path) {
        Ok(aside) => tracing::error!(
            path = %path.display(), aside = %aside.display(), why,
            "the projection is damaged; the next start builds it again from the log"
        ),
        Err(error) => tracing::error!(
            path = %path.display(), why, %error,
            "the projection is damaged and cannot be set aside; delete it while stopped"
        ),
    }
}

fn io_error(path: &Path, doing: &str, source: io::Error) -> OpenError {
    OpenError::Io {
        path: path.to_owned(),
        doing: doing.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests;
