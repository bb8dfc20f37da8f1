//! The folder of one test. It is removed when the test ends well; when it fails, it is kept and its
//! path printed with what is needed to repeat the failure.

use std::collections::BTreeMap;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Everything a test leaves behind: data folder, job, ledger, XDG folders, the program's output.
#[derive(Debug)]
pub struct Scene {
    root: PathBuf,
    repeat: String,
    outputs: AtomicU32,
}

impl Scene {
    /// A new empty folder. `repeat` says how to repeat the test, such as `seed 7`.
    ///
    /// # Panics
    /// If it cannot be made.
    #[must_use]
    pub fn new(name: &str, repeat: impl Into<String>) -> Self {
        let root = tempfile::Builder::new()
            .prefix(&format!("intendant-{name}-"))
            .tempdir()
            .expect("a temporary folder")
            .keep()
            .canonicalize()
            .expect("its real path");
        for part in ["home", "state", "config", "runtime", "output"] {
            fs::create_dir(root.join(part)).expect("a folder in a new folder");
        }
        Self {
            root,
            repeat: repeat.into(),
            outputs: AtomicU32::new(0),
        }
    }

    /// A path in the folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The program's data folder, not yet made.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.path("data")
    }

    /// A number that no other output of this scene has.
    pub(crate) fn next_output(&self) -> u32 {
        self.outputs.fetch_add(1, Ordering::Relaxed)
    }

    /// Copies the parts that a run changes aside.
    ///
    /// # Panics
    /// If that fails.
    pub fn save(&self, parts: &[&str], under: &str) {
        let saved = self.path(under);
        drop(fs::remove_dir_all(&saved));
        for part in parts {
            copy(&self.path(part), &saved.join(part));
        }
    }

    /// Puts the parts back as they were saved.
    ///
    /// # Panics
    /// If that fails.
    pub fn restore(&self, parts: &[&str], under: &str) {
        for part in parts {
            drop(fs::remove_dir_all(self.path(part)));
            copy(&self.path(under).join(part), &self.path(part));
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("kept: {} ({})", self.root.display(), self.repeat);
        } else {
            drop(fs::remove_dir_all(&self.root));
        }
    }
}

/// Copies a folder; one that is not there is not copied. Sockets are left out.
///
/// # Panics
/// If that fails.
pub fn copy(from: &Path, to: &Path) {
    if !from.exists() {
        return;
    }
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (kind, target) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &target);
        } else if kind.is_file() {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Length and hash of a file.
pub type Content = (usize, u64);

/// Length and hash of a file.
///
/// # Panics
/// If it cannot be read.
#[must_use]
pub fn content(file: &Path) -> Content {
    let bytes = fs::read(file).unwrap();
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    (bytes.len(), hasher.finish())
}

/// Every file below a folder with its length and a hash of its content, to show that nothing was
/// changed.
///
/// # Panics
/// If it cannot be read.
#[must_use]
pub fn contents(folder: &Path) -> BTreeMap<PathBuf, Content> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            all.append(&mut contents(&entry.path()));
        } else if kind.is_file() {
            all.insert(entry.path(), content(&entry.path()));
        }
    }
    all
}
