//! The files of the signing key, outside of every journal: the secret half, readable by its owner
//! alone, and beside it the public half, to be given away.
//!
//! A key is made once and never replaced: one that cannot be read stays what it is, and is told.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::key::{BadKey, Signer, Verifier};
use crate::disk::{
    Access, Disk, Lock, Publish, Site, create_dirs, publish, publish_private, read_small,
};

/// Name of the file of the secret half.
pub const SECRET: &str = "signing-key";
/// Name of the file of the public half: one line, a C2SP verifier key.
pub const PUBLIC: &str = "signing-key.pub";
const LOCK: &str = "signing-key.lock";
const MAX_BYTES: usize = 16 * 1024;
/// How long another process that is making the key is waited for.
const PATIENCE: Duration = Duration::from_secs(2);
const AGAIN_AFTER: Duration = Duration::from_millis(5);

/// Why there is no signing key to be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The user has no folder for it.
    #[error(
        "neither XDG_CONFIG_HOME nor HOME is set: there is no place for a signing key; set HOME"
    )]
    NoPlace,
    /// What is there is not a key.
    #[error("{}: it cannot be used as a key: {why}; bring the key back from where you keep it, or move the file away to have a new one made", path.display())]
    Bad {
        /// The file.
        path: PathBuf,
        /// What is wrong with it. Nothing of its content.
        why: BadKey,
    },
    /// The disk failed.
    #[error("{}: {doing}: {source}; make it readable and writable for this user", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What was being done.
        doing: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

fn failed(path: &Path, doing: &'static str) -> impl FnOnce(io::Error) -> KeyFileError {
    move |source| KeyFileError::Io {
        path: path.to_owned(),
        doing,
        source,
    }
}

/// `$XDG_CONFIG_HOME/intendant`, or `$HOME/.config/intendant`.
///
/// # Errors
/// [`KeyFileError::NoPlace`] if neither is set.
pub fn config_folder() -> Result<PathBuf, KeyFileError> {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    set("XDG_CONFIG_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".config")))
        .map(|config| config.join("intendant"))
        .ok_or(KeyFileError::NoPlace)
}

fn read_line(disk: &dyn Disk, path: &Path) -> Result<Option<String>, KeyFileError> {
    let Some(bytes) = read_small(disk, path, MAX_BYTES).map_err(failed(path, "reading it"))? else {
        return Ok(None);
    };
    let text = String::from_utf8(bytes).map_err(|_| KeyFileError::Bad {
        path: path.to_owned(),
        why: BadKey::Form,
    })?;
    Ok(Some(text.trim_end_matches('\n').to_owned()))
}

fn bad(path: &Path) -> impl FnOnce(BadKey) -> KeyFileError {
    move |why| KeyFileError::Bad {
        path: path.to_owned(),
        why,
    }
}

/// The key in a folder; `None` if there is none. Changes nothing.
///
/// # Errors
/// [`KeyFileError`].
pub fn read(disk: &dyn Disk, folder: &Path) -> Result<Option<Signer>, KeyFileError> {
    let path = folder.join(SECRET);
    let text = read_line(disk, &path)?;
    text.map(|text| Signer::from_secret_text(&text).map_err(bad(&path)))
        .transpose()
}

/// The public half of the key in a folder; `None` if there is none. Changes nothing.
///
/// # Errors
/// [`KeyFileError`].
pub fn read_public(disk: &dyn Disk, folder: &Path) -> Result<Option<Verifier>, KeyFileError> {
    let path = folder.join(PUBLIC);
    let text = read_line(disk, &path)?;
    text.map(|text| text.parse().map_err(bad(&path)))
        .transpose()
}

/// The key in a folder, made durably if there is none.
///
/// # Errors
/// [`KeyFileError`]; a key that is there and cannot be used is not replaced.
pub fn read_or_make(disk: &dyn Disk, folder: &Path) -> Result<Signer, KeyFileError> {
    let whole = |signer: &Signer| {
        let public = read_public(disk, folder);
        public.is_ok_and(|public| public.as_ref() == Some(signer.verifier()))
    };
    if let Some(signer) = read(disk, folder)?
        && whole(&signer)
    {
        return Ok(signer);
    }
    create_dirs(disk, folder, Site::KeyDirCreate, Site::KeyDirSync)
        .map_err(failed(folder, "creating it"))?;
    // Two processes that start for the first time at once must come to one key.
    let lock_path = folder.join(LOCK);
    let _lock = take_lock(disk, &lock_path).map_err(failed(&lock_path, "locking it"))?;
    let signer = match read(disk, folder)? {
        Some(signer) => signer,
        None => {
            let path = folder.join(SECRET);
            let signer = Signer::generate().map_err(failed(&path, "making a key"))?;
            let text = format!("{}\n", signer.secret_text());
            let temporary = folder.join(format!("{SECRET}.tmp"));
            publish_private(disk, &path, &temporary, text.as_bytes(), SITES)
                .map_err(failed(&path, "writing it"))?;
            signer
        }
    };
    if !whole(&signer) {
        let path = folder.join(PUBLIC);
        let text = format!("{}\n", signer.verifier());
        let temporary = folder.join(format!("{PUBLIC}.tmp"));
        publish(disk, &path, &temporary, text.as_bytes(), SITES)
            .map_err(failed(&path, "writing it"))?;
    }
    Ok(signer)
}

const SITES: Publish = Publish {
    create: Site::KeyCreate,
    write: Site::KeyWrite,
    sync: Site::KeySync,
    rename: Site::KeyRename,
    dir_sync: Site::KeyDirSync,
    remove: Site::KeyRemove,
};

/// The lock lasts until the file is dropped. It stays where it is: taking it away would let two
/// processes lock two files of one name.
fn take_lock(
    disk: &dyn Disk,
    path: &Path,
) -> io::Result<std::sync::Arc<dyn crate::disk::DiskFile>> {
    let file = match disk.create(path, Site::KeyLockCreate) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            disk.open(path, Access::ReadWrite)?
        }
        created => created?,
    };
    let until = Instant::now() + PATIENCE;
    while !file.try_lock(Lock::Exclusive)? {
        if Instant::now() >= until {
            return Err(io::Error::new(
                io::ErrorKind::WouldBlock,
                "another process is making the key",
            ));
        }
        std::thread::sleep(AGAIN_AFTER);
    }
    Ok(file)
}
