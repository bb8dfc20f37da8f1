//! For tests: a real disk that notes the order of all changes and fails those it is told to fail.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::{Access, Disk, DiskFile, Kind, Lock, RealDisk, Site};

/// A real disk under observation. Clones watch together.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchedDisk {
    watch: Arc<Mutex<Watch>>,
}

#[derive(Debug, Default)]
struct Watch {
    sites: Vec<Site>,
    failing: Option<(Site, io::ErrorKind)>,
}

impl WatchedDisk {
    /// The changes since the last call, in order.
    pub(crate) fn take_sites(&self) -> Vec<Site> {
        std::mem::take(&mut self.watch.lock().unwrap().sites)
    }

    /// Fails every operation at the site from now on; `None` fails nothing.
    pub(crate) fn fail(&self, failing: Option<(Site, io::ErrorKind)>) {
        self.watch.lock().unwrap().failing = failing;
    }

    fn pass(&self, site: Site) -> io::Result<()> {
        let mut watch = self.watch.lock().unwrap();
        watch.sites.push(site);
        match watch.failing {
            Some((failing, kind)) if failing == site => Err(io::Error::from(kind)),
            _ => Ok(()),
        }
    }

    fn file(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(WatchedFile {
            file,
            disk: self.clone(),
        })
    }
}

#[derive(Debug)]
struct WatchedFile {
    file: Arc<dyn DiskFile>,
    disk: WatchedDisk,
}

impl Disk for WatchedDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(RealDisk.open(path, access)?))
    }

    fn create(&self, path: &Path, site: Site) -> io::Result<Arc<dyn DiskFile>> {
        self.pass(site)?;
        Ok(self.file(RealDisk.create(path, site)?))
    }

    fn create_private(&self, path: &Path, site: Site) -> io::Result<Arc<dyn DiskFile>> {
        self.pass(site)?;
        Ok(self.file(RealDisk.create_private(path, site)?))
    }

    fn rename(&self, from: &Path, to: &Path, site: Site) -> io::Result<()> {
        self.pass(site)?;
        RealDisk.rename(from, to, site)
    }

    fn remove(&self, path: &Path, site: Site) -> io::Result<()> {
        self.pass(site)?;
        RealDisk.remove(path, site)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        RealDisk.list(path)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        RealDisk.kind(path)
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        RealDisk.canonical(path)
    }

    fn create_dir(&self, path: &Path, site: Site) -> io::Result<()> {
        self.pass(site)?;
        RealDisk.create_dir(path, site)
    }

    fn sync_dir(&self, path: &Path, site: Site) -> io::Result<()> {
        self.pass(site)?;
        RealDisk.sync_dir(path, site)
    }
}

impl DiskFile for WatchedFile {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, site: Site) -> io::Result<usize> {
        self.disk.pass(site)?;
        self.file.write_at(bytes, offset, site)
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
