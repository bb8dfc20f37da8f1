//! A disk over another one, the real one unless told otherwise, that fails, shortens or holds back
//! chosen operations.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};

use intendant_journal::disk::{Access, Disk, DiskFile, Kind, Lock, RealDisk, Site};

pub const EIO: i32 = 5;
pub const ENOSPC: i32 = 28;

/// What to do at a site.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Fail with this error.
    Error(i32),
    /// Take half of the bytes.
    Short,
    /// Take half of the bytes, and fail with this error at the next write there.
    ShortThen(i32),
}

#[derive(Debug, Default)]
struct State {
    faults: BTreeMap<Site, (Fault, u32)>,
    held: BTreeSet<Site>,
    /// Operations that may pass a held site.
    tickets: BTreeMap<Site, u32>,
    waiting: BTreeMap<Site, u32>,
    passed: BTreeMap<Site, u64>,
    order: Vec<Site>,
}

/// A disk with faults. Clones share them.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    under: Arc<dyn Disk>,
    shared: Arc<(Mutex<State>, Condvar)>,
}

impl Default for FaultyDisk {
    fn default() -> Self {
        Self::over(Arc::new(RealDisk))
    }
}

impl FaultyDisk {
    pub fn over(under: Arc<dyn Disk>) -> Self {
        Self {
            under,
            shared: Arc::default(),
        }
    }

    /// The next `times` operations at the site meet the fault.
    pub fn fail(&self, site: Site, fault: Fault, times: u32) {
        self.shared
            .0
            .lock()
            .unwrap()
            .faults
            .insert(site, (fault, times));
    }

    /// No more faults.
    pub fn heal(&self) {
        self.shared.0.lock().unwrap().faults.clear();
    }

    /// Operations at the site wait until they are let go.
    pub fn hold(&self, site: Site) {
        self.shared.0.lock().unwrap().held.insert(site);
    }

    pub fn let_go(&self, site: Site) {
        self.shared.0.lock().unwrap().held.remove(&site);
        self.shared.1.notify_all();
    }

    /// Lets the one operation go that is held back; the next one waits again.
    pub fn let_one_go(&self, site: Site) {
        let mut state = self.shared.0.lock().unwrap();
        assert_eq!(state.waiting.get(&site), Some(&1));
        state.waiting.insert(site, 0);
        state.tickets.insert(site, 1);
        self.shared.1.notify_all();
    }

    /// Waits until an operation at the site is held back.
    pub fn wait_held(&self, site: Site) {
        let mut state = self.shared.0.lock().unwrap();
        while state.waiting.get(&site).copied().unwrap_or(0) == 0 {
            state = self.shared.1.wait(state).unwrap();
        }
    }

    /// How often the site was passed without fault.
    pub fn passed(&self, site: Site) -> u64 {
        self.shared
            .0
            .lock()
            .unwrap()
            .passed
            .get(&site)
            .copied()
            .unwrap_or(0)
    }

    /// The sites passed without fault since the last call, in order.
    pub fn take_order(&self) -> Vec<Site> {
        std::mem::take(&mut self.shared.0.lock().unwrap().order)
    }

    fn pass(&self, site: Site) -> io::Result<bool> {
        let mut state = self.shared.0.lock().unwrap();
        if state.held.contains(&site) {
            *state.waiting.entry(site).or_default() += 1;
            self.shared.1.notify_all();
            while state.held.contains(&site) {
                if let Some(ticket @ 1..) = state.tickets.get_mut(&site) {
                    *ticket -= 1;
                    break;
                }
                state = self.shared.1.wait(state).unwrap();
            }
            if !state.held.contains(&site) {
                state.waiting.insert(site, 0);
            }
        }
        let Some((fault, times)) = state.faults.get(&site).copied().filter(|(_, t)| *t > 0) else {
            *state.passed.entry(site).or_default() += 1;
            state.order.push(site);
            return Ok(false);
        };
        let next = match fault {
            Fault::ShortThen(code) => (Fault::Error(code), times),
            fault => (fault, times - 1),
        };
        state.faults.insert(site, next);
        match fault {
            Fault::Error(code) => Err(io::Error::from_raw_os_error(code)),
            Fault::Short | Fault::ShortThen(_) => Ok(true),
        }
    }
}

impl Disk for FaultyDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.under.open(path, access)?))
    }

    fn create(&self, path: &Path, site: Site) -> io::Result<Arc<dyn DiskFile>> {
        self.pass(site)?;
        Ok(self.file(self.under.create(path, site)?))
    }

    fn create_private(&self, path: &Path, site: Site) -> io::Result<Arc<dyn DiskFile>> {
        self.pass(site)?;
        Ok(self.file(RealDisk.create_private(path, site)?))
    }

    fn rename(&self, from: &Path, to: &Path, site: Site) -> io::Result<()> {
        self.pass(site)?;
        self.under.rename(from, to, site)
    }

    fn remove(&self, path: &Path, site: Site) -> io::Result<()> {
        self.pass(site)?;
        self.under.remove(path, site)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        self.under.list(path)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        self.under.kind(path)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        self.under.canonical(path)
    }

    fn create_dir(&self, path: &Path, site: Site) -> io::Result<()> {
        self.pass(site)?;
        self.under.create_dir(path, site)
    }

    fn sync_dir(&self, path: &Path, site: Site) -> io::Result<()> {
        self.pass(site)?;
        self.under.sync_dir(path, site)
    }
}

impl FaultyDisk {
    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(FaultyFile {
            disk: self.clone(),
            file,
        })
    }
}

#[derive(Debug)]
struct FaultyFile {
    disk: FaultyDisk,
    file: Arc<dyn DiskFile>,
}

impl DiskFile for FaultyFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, site: Site) -> io::Result<usize> {
        let short = self.disk.pass(site)?;
        let taken = if short {
            bytes.len().div_ceil(2)
        } else {
            bytes.len()
        };
        self.file.write_at(&bytes[..taken], offset, site)
    }

    fn set_len(&self, bytes: u64, site: Site) -> io::Result<()> {
        self.disk.pass(site)?;
        self.file.set_len(bytes, site)
    }

    fn sync_data(&self, site: Site) -> io::Result<()> {
        self.disk.pass(site)?;
        self.file.sync_data(site)
    }

    fn sync_all(&self, site: Site) -> io::Result<()> {
        self.disk.pass(site)?;
        self.file.sync_all(site)
    }

    fn try_lock(&self, lock: Lock) -> io::Result<bool> {
        self.file.try_lock(lock)
    }
}
