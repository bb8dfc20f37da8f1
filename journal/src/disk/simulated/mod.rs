//! A disk in memory that forgets what was not synced, as a power cut makes a real one forget.
//!
//! The model, in short: what a file holds, how long it is, and which names a folder has become
//! durable apart from each other, each by its own sync. A power cut decides for every change that
//! no sync has covered, by itself, whether it is there ([`Fate`]); of written bytes any part may be.
//! A file's sync says nothing of its name. Renaming is atomic. After a sync that failed, what it
//! should have covered may be there or not, and a later sync does not help, until it is written
//! again: that is what Linux does.
//!
//! Invariants:
//! - Deterministic: the same calls and the same fates give the same disk.
//! - A crash is a clone: the process that ran on the original is never asked to behave as if it
//!   were dead. What it does afterwards, the clone does not see.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Access, Disk, DiskFile, Kind, Lock, Site};

mod content;
mod fate;
mod fault;
mod file;
mod folder;
#[cfg(test)]
mod tests;
mod world;

pub use fate::{Fate, SECTOR_BYTES};
use fault::Planned;
pub use fault::{Calls, Fault};
use folder::NodeId;
pub use world::Unsynced;
use world::World;

/// A change that is about to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    /// Its place in the order of all changes since the disk was made or cloned, from 0.
    pub number: u64,
    /// Where in the program.
    pub site: Site,
    /// The file or folder.
    pub path: PathBuf,
    /// What is done, in words.
    pub what: String,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {}: {} of {}",
            self.number,
            self.site.name(),
            self.what,
            self.path.display()
        )
    }
}

/// Files by their paths.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Called before each change with the disk as it is then.
type Witness = Arc<dyn Fn(&SimulatedDisk, &Operation) + Send + Sync>;

/// A disk in memory. Handles made by `clone` are of the same disk; a disk of its own is made by
/// [`SimulatedDisk::killed`] and [`SimulatedDisk::cut`].
#[derive(Clone)]
pub struct SimulatedDisk {
    state: Arc<Mutex<State>>,
}

struct State {
    world: World,
    changes: u64,
    reads: u64,
    faults: Vec<Planned>,
    met: u64,
    quota: Option<u64>,
    locks: BTreeMap<NodeId, Held>,
    handles: u64,
    witness: Option<Witness>,
}

/// Who holds a file's lock, by handle.
#[derive(Clone, Debug)]
enum Held {
    Exclusive(u64),
    Shared(Vec<u64>),
}

impl fmt::Debug for SimulatedDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedDisk")
            .field("changes", &self.lock().changes)
            .finish_non_exhaustive()
    }
}

impl Default for SimulatedDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimulatedDisk {
    /// An empty disk: the root folder and nothing else.
    #[must_use]
    pub fn new() -> Self {
        Self::of(World::new())
    }

    fn of(world: World) -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                world,
                changes: 0,
                reads: 0,
                faults: Vec::new(),
                met: 0,
                quota: None,
                locks: BTreeMap::new(),
                handles: 0,
                witness: None,
            })),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The disk as it is now after the process has died: what was written is there, what was not
    /// synced can still be lost.
    #[must_use]
    pub fn killed(&self) -> Self {
        let mut world = self.lock().world.clone();
        world.forget_nameless();
        Self::of(world)
    }

    /// What a power cut now would decide about.
    #[must_use]
    pub fn unsynced(&self) -> Vec<Unsynced> {
        self.lock().world.unsynced()
    }

    /// True if a power cut now would change nothing.
    #[must_use]
    pub fn all_durable(&self) -> bool {
        self.lock().world.all_durable()
    }

    /// The disk after a power cut now.
    ///
    /// # Panics
    /// If there is not one fate for each of [`SimulatedDisk::unsynced`].
    #[must_use]
    pub fn cut(&self, fates: &[Fate]) -> Self {
        let state = self.lock();
        let mut left = fates.iter();
        let world = state.world.cut(&mut || {
            *left
                .next()
                .expect("a fate for each change that is not durable")
        });
        assert!(
            left.next().is_none(),
            "more fates than changes that are not durable"
        );
        Self::of(world)
    }

    /// Calls this before each change, with the disk as it is then. It may clone the disk, and must
    /// not change it.
    pub fn watch(&self, witness: impl Fn(&SimulatedDisk, &Operation) + Send + Sync + 'static) {
        self.lock().witness = Some(Arc::new(witness));
    }

    /// Ends the watching.
    pub fn unwatch(&self) {
        self.lock().witness = None;
    }

    /// Changes begun since the disk was made or cloned.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.lock().changes
    }

    /// Reading calls since the disk was made or cloned.
    #[must_use]
    pub fn reads(&self) -> u64 {
        self.lock().reads
    }

    /// Plans a fault for the call of that number, from 0; see [`SimulatedDisk::changes`] and
    /// [`SimulatedDisk::reads`].
    pub fn plan_fault(&self, calls: Calls, number: u64, fault: Fault) {
        self.lock().faults.push(Planned {
            calls,
            number,
            fault,
        });
    }

    /// Faults that calls have met.
    #[must_use]
    pub fn faults_met(&self) -> u64 {
        self.lock().met
    }

    /// Bytes that all files together may have; `None` for no limit.
    pub fn set_quota(&self, bytes: Option<u64>) {
        self.lock().quota = bytes;
    }

    /// Bytes that all files together have.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.lock().world.used_bytes()
    }

    /// Changes one bit of a file, as decay does: on disk and in what is seen. Nothing happens
    /// behind the file's end.
    ///
    /// # Errors
    /// `NotFound` and its like if there is no such file.
    pub fn flip(&self, path: &Path, offset: u64, bit: u8) -> io::Result<()> {
        let mut state = self.lock();
        let id = state.world.find_file(path)?;
        state.world.file_mut(id).flip(offset, bit);
        Ok(())
    }

    /// A disk that holds these files, durably.
    ///
    /// # Panics
    /// If a path is not absolute, or one is a folder of another.
    #[must_use]
    pub fn holding(files: &Files) -> Self {
        let mut world = World::new();
        for (path, bytes) in files {
            world
                .lay(path, bytes)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        world.sync_folders();
        Self::of(world)
    }

    /// Every file below a folder, with its content.
    #[must_use]
    pub fn contents(&self, below: &Path) -> Files {
        let paths = self.files().into_iter();
        paths
            .filter(|path| path.starts_with(below))
            .filter_map(|path| self.bytes(&path).ok().map(|bytes| (path, bytes)))
            .collect()
    }

    /// Changes the content of a file in place, durably, as somebody else might who does not go
    /// through the journal.
    ///
    /// # Errors
    /// `NotFound` and its like if there is no such file.
    pub fn change(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut bytes = self.bytes(path)?;
        change(&mut bytes);
        self.lock().world.lay(path, &bytes)
    }

    /// Paths of all files, in order.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        let state = self.lock();
        let world = &state.world;
        world
            .walk()
            .filter(|(_, id)| !world.is_folder(*id))
            .map(|(path, _)| path)
            .collect()
    }

    /// All that a file holds.
    ///
    /// # Errors
    /// `NotFound` and its like if there is no such file.
    pub fn bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        let state = self.lock();
        let file = state.world.file(state.world.find_file(path)?);
        let mut bytes = vec![0; usize::try_from(file.len()).map_err(io::Error::other)?];
        file.read(&mut bytes, 0);
        Ok(bytes)
    }

    /// A number that is the same for the same names, contents and unsynced changes.
    #[must_use]
    pub fn fingerprint(&self) -> u64 {
        let mut hasher = std::hash::DefaultHasher::new();
        for path in self.files() {
            path.hash(&mut hasher);
            self.bytes(&path).ok().hash(&mut hasher);
        }
        for unsynced in self.unsynced() {
            (unsynced.path, unsynced.what).hash(&mut hasher);
        }
        hasher.finish()
    }

    /// Counts a reading call and gives its planned error, if it has one.
    fn read_call(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        let number = state.reads;
        state.reads += 1;
        match state.meets(Calls::Reads, number) {
            Some(Fault::Error(kind)) => Err(injected(kind)),
            Some(Fault::Short) => Err(injected(io::ErrorKind::StorageFull)),
            None => Ok(state),
        }
    }

    /// Counts a change, shows the disk to the witness, and gives the fault it meets, if any.
    fn change_call(
        &self,
        site: Site,
        path: impl FnOnce(&State) -> PathBuf,
        what: impl FnOnce() -> String,
    ) -> (MutexGuard<'_, State>, Option<Fault>) {
        let mut state = self.lock();
        let number = state.changes;
        state.changes += 1;
        let fault = state.meets(Calls::Changes, number);
        let Some(witness) = state.witness.clone() else {
            return (state, fault);
        };
        let operation = Operation {
            number,
            site,
            path: path(&state),
            what: what(),
        };
        drop(state);
        witness(self, &operation);
        (self.lock(), fault)
    }

    fn handle(&self, state: &mut State, node: NodeId, path: &Path, access: Access) -> Arc<Handle> {
        state.handles += 1;
        Arc::new(Handle {
            disk: self.clone(),
            node,
            path: path.to_owned(),
            access,
            number: state.handles,
        })
    }
}

fn injected(kind: io::ErrorKind) -> io::Error {
    io::Error::new(kind, format!("injected: {kind}"))
}

impl State {
    fn meets(&mut self, calls: Calls, number: u64) -> Option<Fault> {
        let planned = self
            .faults
            .iter()
            .find(|planned| planned.calls == calls && planned.number == number)?;
        self.met += 1;
        Some(planned.fault)
    }

    /// How many more bytes files may have.
    fn room(&self) -> u64 {
        match self.quota {
            Some(quota) => quota.saturating_sub(self.world.used_bytes()),
            None => u64::MAX,
        }
    }
}

/// Gives the error of a fault to calls that know no other effect of it.
fn refuse(fault: Option<Fault>) -> io::Result<()> {
    match fault {
        None => Ok(()),
        Some(Fault::Error(kind)) => Err(injected(kind)),
        Some(Fault::Short) => Err(injected(io::ErrorKind::StorageFull)),
    }
}

impl Disk for SimulatedDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let mut state = self.read_call()?;
        let node = state.world.find_file(path)?;
        Ok(self.handle(&mut state, node, path, access))
    }

    fn create(&self, path: &Path, site: Site) -> io::Result<Arc<dyn DiskFile>> {
        let (mut state, fault) =
            self.change_call(site, |_| path.to_owned(), || "creation".to_owned());
        refuse(fault)?;
        let node = state.world.create_file(path)?;
        Ok(self.handle(&mut state, node, path, Access::ReadWrite))
    }

    /// There is one owner here, and nobody else.
    fn create_private(&self, path: &Path, site: Site) -> io::Result<Arc<dyn DiskFile>> {
        self.create(path, site)
    }

    fn rename(&self, from: &Path, to: &Path, site: Site) -> io::Result<()> {
        let what = || format!("renaming to {}", to.display());
        let (mut state, fault) = self.change_call(site, |_| from.to_owned(), what);
        refuse(fault)?;
        state.world.rename(from, to)
    }

    fn remove(&self, path: &Path, site: Site) -> io::Result<()> {
        let (mut state, fault) =
            self.change_call(site, |_| path.to_owned(), || "removal".to_owned());
        refuse(fault)?;
        state.world.remove(path)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.read_call()?.world.list(path)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        let state = self.read_call()?;
        Ok(state.world.find(path)?.map(|id| {
            if state.world.is_folder(id) {
                Kind::Folder
            } else {
                Kind::File
            }
        }))
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        let state = self.read_call()?;
        match state.world.find(path)? {
            Some(_) => Ok(path.to_owned()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn create_dir(&self, path: &Path, site: Site) -> io::Result<()> {
        let what = || "creation of a folder".to_owned();
        let (mut state, fault) = self.change_call(site, |_| path.to_owned(), what);
        refuse(fault)?;
        state.world.create_folder(path)
    }

    fn sync_dir(&self, path: &Path, site: Site) -> io::Result<()> {
        let what = || "sync of the folder".to_owned();
        let (mut state, fault) = self.change_call(site, |_| path.to_owned(), what);
        refuse(fault)?;
        state.world.sync_folder(path)
    }
}

/// An open simulated file.
struct Handle {
    disk: SimulatedDisk,
    node: NodeId,
    /// The name by which it was opened, for reports.
    path: PathBuf,
    access: Access,
    /// Which handle this is, for locks.
    number: u64,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("path", &self.path).finish()
    }
}

impl Handle {
    fn change(
        &self,
        site: Site,
        what: impl FnOnce() -> String,
    ) -> io::Result<(MutexGuard<'_, State>, Option<Fault>)> {
        if self.access == Access::Read {
            return Err(io::Error::new(
                io::ErrorKind::PermissionDenied,
                format!("{} is open for reading only", self.path.display()),
            ));
        }
        Ok(self.disk.change_call(site, |_| self.path.clone(), what))
    }

    fn sync(&self, site: Site, what: &str) -> io::Result<()> {
        let (mut state, fault) = self.change(site, || what.to_owned())?;
        let refused = refuse(fault);
        let file = state.world.file_mut(self.node);
        match refused {
            Ok(()) => file.sync(),
            Err(_) => file.abandon(),
        }
        refused
    }
}

impl DiskFile for Handle {
    fn len(&self) -> io::Result<u64> {
        Ok(self.disk.read_call()?.world.file(self.node).len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.read_call()?;
        Ok(state.world.file(self.node).read(buffer, offset))
    }

    fn write_at(&self, bytes: &[u8], offset: u64, site: Site) -> io::Result<usize> {
        let what = || format!("write of {} bytes at {offset}", bytes.len());
        let (mut state, fault) = self.change(site, what)?;
        let taken = match fault {
            None => bytes.len(),
            Some(Fault::Error(kind)) => return Err(injected(kind)),
            Some(Fault::Short) => {
                state.quota = Some(0);
                bytes.len() / 2
            }
        };
        let len = state.world.file(self.node).len();
        let room = match fault {
            // The half that the disk took is there, whatever the quota says from now on.
            Some(Fault::Short) => u64::MAX,
            _ => state.room(),
        };
        let reach = len.saturating_add(room);
        let taken = usize::try_from(reach.saturating_sub(offset))
            .unwrap_or(usize::MAX)
            .min(taken);
        // A full disk takes overwriting, but this one may have been told to be full for all.
        if taken == 0 && !bytes.is_empty() {
            return Err(injected(io::ErrorKind::StorageFull));
        }
        state
            .world
            .file_mut(self.node)
            .write(&bytes[..taken], offset);
        Ok(taken)
    }

    fn set_len(&self, bytes: u64, site: Site) -> io::Result<()> {
        let what = || format!("change of length to {bytes}");
        let (mut state, fault) = self.change(site, what)?;
        refuse(fault)?;
        let len = state.world.file(self.node).len();
        if bytes.saturating_sub(len) > state.room() {
            return Err(injected(io::ErrorKind::StorageFull));
        }
        state.world.file_mut(self.node).set_len(bytes);
        Ok(())
    }

    fn sync_data(&self, site: Site) -> io::Result<()> {
        self.sync(site, "sync of content")
    }

    fn sync_all(&self, site: Site) -> io::Result<()> {
        self.sync(site, "sync of content and metadata")
    }

    fn try_lock(&self, lock: Lock) -> io::Result<bool> {
        let mut state = self.disk.read_call()?;
        let held = state.locks.get_mut(&self.node);
        let taken = match (lock, held) {
            (Lock::Exclusive, None) => Some(Held::Exclusive(self.number)),
            (Lock::Shared, None) => Some(Held::Shared(vec![self.number])),
            (Lock::Shared, Some(Held::Shared(who))) => {
                who.push(self.number);
                return Ok(true);
            }
            (_, Some(_)) => None,
        };
        let free = taken.is_some();
        if let Some(held) = taken {
            state.locks.insert(self.node, held);
        }
        Ok(free)
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.disk.lock();
        let ends = match state.locks.get_mut(&self.node) {
            Some(Held::Exclusive(who)) => *who == self.number,
            Some(Held::Shared(who)) => {
                who.retain(|number| *number != self.number);
                who.is_empty()
            }
            None => false,
        };
        if ends {
            state.locks.remove(&self.node);
        }
    }
}
