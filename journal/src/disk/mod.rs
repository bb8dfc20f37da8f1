//! All file access of the journal goes through here, so that a simulated disk can stand in for the
//! real one and a test can cut the process at any place.
//!
//! Invariants:
//! - Nothing else in this crate opens, writes, syncs, renames, creates or deletes a file.
//! - Every such operation names its [`Site`]; [`Site::ALL`] is the one list of places.
//! - "Not there" is only what the system reports as not found: any other error stays an error.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::mutants::{self, Mutant};

mod fail_point;
mod real;
#[cfg(any(test, feature = "simulated"))]
pub mod simulated;
mod site;
#[cfg(test)]
pub(crate) mod watched;

#[cfg(feature = "failpoints")]
pub use fail_point::{arm_from_environment, reached};
pub use real::RealDisk;
pub use site::Site;

/// A disk: folders and files.
pub trait Disk: Debug + Send + Sync + 'static {
    /// Opens an existing file, for writing too if asked.
    ///
    /// # Errors
    /// The system's error.
    fn open(&self, path: &Path, access: Access) -> io::Result<Arc<dyn DiskFile>>;

    /// Creates a file that does not exist and opens it for reading and writing.
    ///
    /// # Errors
    /// `AlreadyExists` if it is there; else the system's error.
    fn create(&self, path: &Path, site: Site) -> io::Result<Arc<dyn DiskFile>>;

    /// As [`Disk::create`], readable and writable by the owner of the process alone from the first
    /// moment on.
    ///
    /// # Errors
    /// As for [`Disk::create`].
    fn create_private(&self, path: &Path, site: Site) -> io::Result<Arc<dyn DiskFile>>;

    /// Renames a file, replacing what bears the new name.
    ///
    /// # Errors
    /// The system's error.
    fn rename(&self, from: &Path, to: &Path, site: Site) -> io::Result<()>;

    /// Deletes a file.
    ///
    /// # Errors
    /// The system's error.
    fn remove(&self, path: &Path, site: Site) -> io::Result<()>;

    /// Names of what a folder holds, sorted.
    ///
    /// # Errors
    /// The system's error.
    fn list(&self, path: &Path) -> io::Result<Vec<OsString>>;

    /// What bears this name; `None` only if nothing does.
    ///
    /// # Errors
    /// The system's error, other than not found.
    fn kind(&self, path: &Path) -> io::Result<Option<Kind>>;

    /// The path without links and relative parts. It must exist.
    ///
    /// # Errors
    /// The system's error.
    fn canonical(&self, path: &Path) -> io::Result<PathBuf>;

    /// Creates one folder whose parent exists.
    ///
    /// # Errors
    /// The system's error.
    fn create_dir(&self, path: &Path, site: Site) -> io::Result<()>;

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// The system's error.
    fn sync_dir(&self, path: &Path, site: Site) -> io::Result<()>;
}

/// An open file.
pub trait DiskFile: Debug + Send + Sync + 'static {
    /// Its length in bytes.
    ///
    /// # Errors
    /// The system's error.
    fn len(&self) -> io::Result<u64>;

    /// True if it has no bytes.
    ///
    /// # Errors
    /// The system's error.
    fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Reads up to `buffer.len()` bytes; 0 at the end.
    ///
    /// # Errors
    /// The system's error.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Writes some of the bytes and returns how many; see [`write_all_at`].
    ///
    /// # Errors
    /// The system's error.
    fn write_at(&self, bytes: &[u8], offset: u64, site: Site) -> io::Result<usize>;

    /// Cuts or extends the file.
    ///
    /// # Errors
    /// The system's error.
    fn set_len(&self, bytes: u64, site: Site) -> io::Result<()>;

    /// Makes the content durable, and of the metadata what is needed to read it back.
    ///
    /// # Errors
    /// The system's error. After one, nothing may be assumed of what was written since the last
    /// success, and asking again proves nothing.
    fn sync_data(&self, site: Site) -> io::Result<()>;

    /// Makes content and metadata durable.
    ///
    /// # Errors
    /// As for [`DiskFile::sync_data`].
    fn sync_all(&self, site: Site) -> io::Result<()>;

    /// Takes a lock tied to this open file, without waiting; false if somebody else holds one.
    /// It ends when the file is closed or the process dies.
    ///
    /// # Errors
    /// The system's error.
    fn try_lock(&self, lock: Lock) -> io::Result<bool>;
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// For reading.
    Read,
    /// For reading and writing.
    ReadWrite,
}

/// What bears a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A file.
    File,
    /// A folder.
    Folder,
    /// Something else: a socket, a device.
    Other,
}

/// Which lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lock {
    /// Held by one alone.
    Exclusive,
    /// Held by any number, while nobody holds the exclusive one.
    Shared,
}

/// Writes all bytes, going on after short writes and interruptions.
///
/// # Errors
/// The first real error; a write of nothing is one. Part of the bytes may be on disk then.
pub fn write_all_at(
    file: &dyn DiskFile,
    mut bytes: &[u8],
    mut offset: u64,
    site: Site,
) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write_at(bytes, offset, site) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::WriteZero,
                    "the disk took no bytes",
                ));
            }
            Ok(_) if mutants::is(Mutant::ShortWriteIgnored) => return Ok(()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills the buffer as far as the file reaches and returns how far that is.
///
/// # Errors
/// The system's error.
pub fn read_full_at(file: &dyn DiskFile, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Reads a whole small file; `None` if there is none. Longer than `max` is an error.
///
/// # Errors
/// The system's error, or `InvalidData` if the file is longer than `max`.
pub fn read_small(disk: &dyn Disk, path: &Path, max: usize) -> io::Result<Option<Vec<u8>>> {
    let file = match disk.open(path, Access::Read) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let len = file.len()?;
    if len > max as u64 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{len} bytes long, expected at most {max}"),
        ));
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(max)];
    let read = read_full_at(&*file, &mut bytes, 0)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

/// Creates a folder and those of its ancestors that are missing, each durable in its parent before
/// the next one is made in it. The name of one that is there is made durable too: whoever made it
/// may have been killed before its sync, and then it would vanish with all that is put into it.
///
/// # Errors
/// The system's error.
pub fn create_dirs(disk: &dyn Disk, path: &Path, create: Site, sync: Site) -> io::Result<()> {
    if path.as_os_str().is_empty() || path.parent().is_none() {
        return Ok(());
    }
    if disk.kind(path)?.is_some() {
        if mutants::is(Mutant::NameMadeBeforeNotSynced) {
            return Ok(());
        }
        return match disk.sync_dir(parent_of(path), sync) {
            // Not a folder that we could have made it in.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
            synced => synced,
        };
    }
    let parent = parent_of(path);
    create_dirs(disk, parent, create, sync)?;
    match disk.create_dir(path, create) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    disk.sync_dir(parent, sync)
}

/// The folder that holds the name; `.` for a bare name.
#[must_use]
pub fn parent_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Sites of [`publish`], in the order in which they are passed.
#[derive(Clone, Copy, Debug)]
pub struct Publish {
    /// Creation under the temporary name.
    pub create: Site,
    /// Writing of the content.
    pub write: Site,
    /// Sync of the content.
    pub sync: Site,
    /// Renaming into place.
    pub rename: Site,
    /// Sync of the folder.
    pub dir_sync: Site,
    /// Removal of a temporary file left by an interrupted earlier try.
    pub remove: Site,
}

/// Puts a small file into place so that after any crash it is there whole or not at all.
///
/// # Errors
/// The system's error.
pub fn publish(
    disk: &dyn Disk,
    path: &Path,
    temporary: &Path,
    content: &[u8],
    sites: Publish,
) -> io::Result<()> {
    remove_if_there(disk, temporary, sites.remove)?;
    let file = disk.create(temporary, sites.create)?;
    fill_and_place(disk, &*file, path, temporary, content, sites)
}

/// As [`publish`], for what only its owner may read.
///
/// # Errors
/// The system's error.
pub fn publish_private(
    disk: &dyn Disk,
    path: &Path,
    temporary: &Path,
    content: &[u8],
    sites: Publish,
) -> io::Result<()> {
    remove_if_there(disk, temporary, sites.remove)?;
    let file = disk.create_private(temporary, sites.create)?;
    fill_and_place(disk, &*file, path, temporary, content, sites)
}

fn fill_and_place(
    disk: &dyn Disk,
    file: &dyn DiskFile,
    path: &Path,
    temporary: &Path,
    content: &[u8],
    sites: Publish,
) -> io::Result<()> {
    write_all_at(file, content, 0, sites.write)?;
    let mutated = match sites.sync {
        Site::IdentitySync => mutants::is(Mutant::IdentityNotSynced),
        Site::BlobSync => mutants::is(Mutant::BlobNotSynced),
        _ => false,
    };
    if !mutated {
        file.sync_all(sites.sync)?;
    }
    disk.rename(temporary, path, sites.rename)?;
    disk.sync_dir(parent_of(path), sites.dir_sync)
}

/// Deletes a file; that it is not there is no error.
///
/// # Errors
/// The system's error.
pub fn remove_if_there(disk: &dyn Disk, path: &Path, site: Site) -> io::Result<()> {
    if disk.kind(path)?.is_none() {
        return Ok(());
    }
    match disk.remove(path, site) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Names of all fail points: `disk::<site>::before` and `disk::<site>::after` for each site.
/// They do something only when the crate is built with the feature `failpoints`.
#[must_use]
pub fn fail_points() -> Vec<String> {
    Site::ALL
        .iter()
        .flat_map(|site| ["before", "after"].map(|when| fail_point::name(*site, when)))
        .collect()
}
