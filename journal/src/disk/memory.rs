//! A disk in memory, for tests and fuzz targets that open a journal thousands of times over bytes of
//! their own making. It keeps what it is told at once and loses nothing; what power cuts do is played
//! elsewhere.
//!
//! Invariants:
//! - What a folder holds can be taken as a whole ([`MemoryDisk::files`]) and laid as a whole
//!   ([`MemoryDisk::lay`]), so that two states can be compared byte by byte.
//! - An open file stays the same file when its name is taken away or laid anew, as on a real disk.
//! - A lock ends with the open file that took it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Access, Disk, DiskFile, Kind, Lock, Site};

/// Files by their paths.
pub type Files = BTreeMap<PathBuf, Vec<u8>>;

/// A disk in memory. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryDisk(Arc<Mutex<Tree>>);

#[derive(Debug, Default)]
struct Tree {
    folders: BTreeSet<PathBuf>,
    files: BTreeMap<PathBuf, Arc<Node>>,
}

#[derive(Debug, Default)]
struct Node {
    bytes: Mutex<Vec<u8>>,
    locks: Mutex<Locks>,
}

#[derive(Debug, Default)]
struct Locks {
    exclusive: bool,
    shared: u32,
}

/// Tests go on after a panic of a thread under test; each change here is one step.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn not_found() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Tree {
    fn make_folders(&mut self, path: &Path) {
        for folder in path.ancestors() {
            self.folders.insert(folder.to_owned());
        }
    }

    fn has_folder(&self, path: &Path) -> bool {
        path.parent().is_none() || self.folders.contains(path)
    }

    fn node(&self, path: &Path) -> io::Result<Arc<Node>> {
        match self.files.get(path) {
            Some(node) => Ok(Arc::clone(node)),
            None if self.has_folder(path) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(not_found()),
        }
    }
}

impl MemoryDisk {
    /// Every file below a folder, with its content.
    #[must_use]
    pub fn files(&self, below: &Path) -> Files {
        let tree = held(&self.0);
        tree.files
            .iter()
            .filter(|(path, _)| path.starts_with(below))
            .map(|(path, node)| (path.clone(), held(&node.bytes).clone()))
            .collect()
    }

    /// True if the files below a folder are exactly these.
    #[must_use]
    pub fn holds(&self, below: &Path, files: &Files) -> bool {
        let tree = held(&self.0);
        let mut found = tree
            .files
            .iter()
            .filter(|(path, _)| path.starts_with(below));
        let same = files.iter().all(|(name, bytes)| {
            found
                .next()
                .is_some_and(|(path, node)| path == name && *held(&node.bytes) == *bytes)
        });
        same && found.next().is_none()
    }

    /// Replaces everything below a folder by these files.
    pub fn lay(&self, below: &Path, files: &Files) {
        let mut tree = held(&self.0);
        tree.files.retain(|path, _| !path.starts_with(below));
        tree.folders.retain(|path| !path.starts_with(below));
        for (path, bytes) in files {
            tree.make_folders(super::parent_of(path));
            let node = Node {
                bytes: Mutex::new(bytes.clone()),
                locks: Mutex::default(),
            };
            tree.files.insert(path.clone(), Arc::new(node));
        }
    }

    /// Makes a folder and those above it.
    pub fn make_folder(&self, path: &Path) {
        held(&self.0).make_folders(path);
    }

    /// Changes the content of a file in place; nothing happens if there is none.
    pub fn change(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let node = held(&self.0).files.get(path).cloned();
        if let Some(node) = node {
            change(&mut held(&node.bytes));
        }
    }

    fn open_node(node: Arc<Node>) -> Arc<dyn DiskFile> {
        Arc::new(MemoryFile {
            node,
            lock: Mutex::new(None),
        })
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &Path, _access: Access) -> io::Result<Arc<dyn DiskFile>> {
        let node = held(&self.0).node(path)?;
        Ok(Self::open_node(node))
    }

    fn create(&self, path: &Path, _site: Site) -> io::Result<Arc<dyn DiskFile>> {
        let mut tree = held(&self.0);
        if tree.files.contains_key(path) || tree.has_folder(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !tree.has_folder(super::parent_of(path)) {
            return Err(not_found());
        }
        let node = Arc::new(Node::default());
        tree.files.insert(path.to_owned(), Arc::clone(&node));
        Ok(Self::open_node(node))
    }

    fn create_private(&self, path: &Path, site: Site) -> io::Result<Arc<dyn DiskFile>> {
        self.create(path, site)
    }

    fn rename(&self, from: &Path, to: &Path, _site: Site) -> io::Result<()> {
        let mut tree = held(&self.0);
        if tree.has_folder(to) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        let node = tree.files.remove(from).ok_or_else(not_found)?;
        tree.files.insert(to.to_owned(), node);
        Ok(())
    }

    fn remove(&self, path: &Path, _site: Site) -> io::Result<()> {
        let removed = held(&self.0).files.remove(path);
        removed.map(drop).ok_or_else(not_found)
    }

    fn list(&self, path: &Path) -> io::Result<Vec<OsString>> {
        let tree = held(&self.0);
        if !tree.has_folder(path) {
            return Err(not_found());
        }
        let names: BTreeSet<OsString> = tree
            .files
            .keys()
            .chain(&tree.folders)
            .filter(|found| found.parent() == Some(path))
            .filter_map(|found| found.file_name().map(ToOwned::to_owned))
            .collect();
        Ok(names.into_iter().collect())
    }

    fn kind(&self, path: &Path) -> io::Result<Option<Kind>> {
        let tree = held(&self.0);
        Ok(if tree.files.contains_key(path) {
            Some(Kind::File)
        } else if tree.has_folder(path) {
            Some(Kind::Folder)
        } else {
            None
        })
    }

    fn canonical(&self, path: &Path) -> io::Result<PathBuf> {
        match self.kind(path)? {
            Some(_) => Ok(path.to_owned()),
            None => Err(not_found()),
        }
    }

    fn create_dir(&self, path: &Path, _site: Site) -> io::Result<()> {
        let mut tree = held(&self.0);
        if tree.files.contains_key(path) || tree.has_folder(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !tree.has_folder(super::parent_of(path)) {
            return Err(not_found());
        }
        tree.folders.insert(path.to_owned());
        Ok(())
    }

    fn sync_dir(&self, path: &Path, _site: Site) -> io::Result<()> {
        match held(&self.0).has_folder(path) {
            true => Ok(()),
            false => Err(not_found()),
        }
    }
}

#[derive(Debug)]
struct MemoryFile {
    node: Arc<Node>,
    lock: Mutex<Option<Lock>>,
}

impl MemoryFile {
    fn unlock(&self) {
        let Some(lock) = held(&self.lock).take() else {
            return;
        };
        let mut locks = held(&self.node.locks);
        match lock {
            Lock::Exclusive => locks.exclusive = false,
            Lock::Shared => locks.shared -= 1,
        }
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.unlock();
    }
}

fn index(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::FileTooLarge.into())
}

impl DiskFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(held(&self.node.bytes).len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let bytes = held(&self.node.bytes);
        let from = index(offset)?.min(bytes.len());
        let to = from.saturating_add(buffer.len()).min(bytes.len());
        buffer[..to - from].copy_from_slice(&bytes[from..to]);
        Ok(to - from)
    }

    fn write_at(&self, bytes: &[u8], offset: u64, _site: Site) -> io::Result<usize> {
        let mut content = held(&self.node.bytes);
        let from = index(offset)?;
        let to = from
            .checked_add(bytes.len())
            .ok_or(io::ErrorKind::FileTooLarge)?;
        if content.len() < to {
            content.resize(to, 0);
        }
        content[from..to].copy_from_slice(bytes);
        Ok(bytes.len())
    }

    fn set_len(&self, bytes: u64, _site: Site) -> io::Result<()> {
        held(&self.node.bytes).resize(index(bytes)?, 0);
        Ok(())
    }

    fn sync_data(&self, _site: Site) -> io::Result<()> {
        Ok(())
    }

    fn sync_all(&self, _site: Site) -> io::Result<()> {
        Ok(())
    }

    fn try_lock(&self, lock: Lock) -> io::Result<bool> {
        self.unlock();
        let mut locks = held(&self.node.locks);
        match lock {
            Lock::Exclusive if locks.exclusive || locks.shared > 0 => return Ok(false),
            Lock::Shared if locks.exclusive => return Ok(false),
            Lock::Exclusive => locks.exclusive = true,
            Lock::Shared => locks.shared += 1,
        }
        *held(&self.lock) = Some(lock);
        Ok(true)
    }
}
