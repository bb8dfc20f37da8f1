//! The real disk: the operating system's files, with a fail point before and after each change.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fail_point::{Effect, evaluate};
use super::{Access, Disk, DiskFile, Kind, Lock, Site};

/// The operating system's files.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

#[derive(Debug)]
struct RealFile(File);

/// Runs a change between its two fail points.
fn between<T>(site: Site, change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    evaluate(site, "before")?;
    let value = change()?;
    evaluate(site, "after")?;
    Ok(value)
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let file = OpenOptions::new()
            .read(true)
            .write(access == Access::ReadWrite)
            .open(path)?;
        Ok(Arc::new(RealFile(file)))
    }

    fn create(&self, path: &Path, site: Site) -> io::Result<Arc<dyn DiskFile>> {
        between(site, || {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .open(path)?;
            Ok(Arc::new(RealFile(file)) as Arc<dyn DiskFile>)
        })
    }

    fn create_private(&self, path: &Path, site: Site) -> io::Result<Arc<dyn DiskFile>> {
        between(site, || {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(path)?;
            Ok(Arc::new(RealFile(file)) as Arc<dyn DiskFile>)
        })
    }

    fn rename(&self, from: &Path, to: &Path, site: Site) -> io::Result<()> {
        between(site, || std::fs::rename(from, to))
    }

    fn remove(&self, path: &Path, site: Site) -> io::Result<()> {
        between(site, || std::fs::remove_file(path))
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let mut names = std::fs::read_dir(path)?
            .map(|entry| Ok(entry?.file_name()))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        match std::fs::metadata(path) {
            Ok(found) if found.is_file() => Ok(Some(Kind::File)),
            Ok(found) if found.is_dir() => Ok(Some(Kind::Folder)),
            Ok(_) => Ok(Some(Kind::Other)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    fn create_dir(&self, path: &Path, site: Site) -> io::Result<()> {
        between(site, || std::fs::create_dir(path))
    }

    fn sync_dir(&self, path: &Path, site: Site) -> io::Result<()> {
        between(site, || File::open(path)?.sync_all())
    }
}

impl DiskFile for RealFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, site: Site) -> io::Result<usize> {
        let taken = match evaluate(site, "before")? {
            Effect::None => bytes,
            Effect::Short => &bytes[..bytes.len().div_ceil(2)],
        };
        let written = self.0.write_at(taken, offset)?;
        evaluate(site, "after")?;
        Ok(written)
    }

    fn set_len(&self, bytes: u64, site: Site) -> io::Result<()> {
        between(site, || self.0.set_len(bytes))
    }

    fn sync_data(&self, site: Site) -> io::Result<()> {
        between(site, || self.0.sync_data())
    }

    fn sync_all(&self, site: Site) -> io::Result<()> {
        between(site, || self.0.sync_all())
    }

    fn try_lock(&self, lock: Lock) -> io::Result<bool> {
        let taken = match lock {
            Lock::Exclusive => self.0.try_lock(),
            Lock::Shared => self.0.try_lock_shared(),
        };
        match taken {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}
