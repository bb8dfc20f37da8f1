//! The lock of an attempt: while it is taken, something of the attempt may still act.
//!
//! It is an `flock` on a file of its own. The guard takes it and lets every process of the attempt
//! inherit it; the kernel frees it with the last of them, however they end. So a free lock proves
//! what no list of process ids can: that nobody is left.
//!
//! A lock file is deleted only by one who holds its lock. Whoever has waited for a file that was
//! deleted meanwhile holds a lock on nothing; so a lock counts only if the file still stands under
//! its name *after* the lock was taken.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use intendant_journal::format::entry::Key;
use rustix::fs::FlockOperation;
use rustix::io::FdFlags;

/// Pauses between two looks at a lock that is taken. The first are short: a guard that has just
/// lost its engine is done within milliseconds.
const PAUSE_FIRST: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(50);

/// Pause after a look that failed (a folder that may not be read, say).
const PAUSE_AFTER_ERROR: Duration = Duration::from_secs(1);

/// A held lock of one attempt. Dropping it gives it up, unless a process has inherited it.
#[derive(Debug)]
pub struct AttemptLock {
    file: File,
    path: PathBuf,
}

impl AttemptLock {
    /// The lock file of an attempt in the folder of attempts.
    pub fn path(attempts: &Path, key: &Key, attempt: u32) -> PathBuf {
        attempts.join(format!("{key}-{attempt}.lock"))
    }

    /// Takes the lock, making the file (and its folder) if there is none. `None`: somebody has it.
    ///
    /// # Errors
    /// If the file cannot be made, opened or locked.
    pub fn try_take(path: &Path) -> io::Result<Option<Self>> {
        loop {
            let file = match Self::create(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if let Some(folder) = path.parent() {
                        std::fs::create_dir_all(folder)?;
                    }
                    Self::create(path)?
                }
                other => other?,
            };
            match Self::lock(file, path)? {
                Lock::Taken(lock) => return Ok(Some(lock)),
                Lock::Busy => return Ok(None),
                Lock::Stale => {}
            }
        }
    }

    /// Whether nothing of the attempt lives. If so, its file is removed.
    ///
    /// Says something only about an attempt whose engine's end is closed: else a guard on its way
    /// may still take the lock and begin.
    ///
    /// # Errors
    /// If that cannot be found out.
    pub fn is_gone(path: &Path) -> io::Result<bool> {
        loop {
            let file = match OpenOptions::new().read(true).write(true).open(path) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
                Err(error) => return Err(error),
            };
            match Self::lock(file, path)? {
                Lock::Taken(lock) => {
                    lock.remove();
                    return Ok(true);
                }
                Lock::Busy => return Ok(false),
                Lock::Stale => {}
            }
        }
    }

    /// Waits until nothing of the attempt lives, then removes its file. See [`Self::is_gone`].
    ///
    /// Can be dropped at any time: it holds nothing while it waits. A look that fails proves
    /// nothing, so it is reported and repeated; the attempt is taken to be running until then.
    pub async fn wait_gone(path: &Path) {
        let mut pause = PAUSE_FIRST;
        let mut reported = false;
        loop {
            match Self::is_gone(path) {
                Ok(true) => return,
                Ok(false) => {}
                Err(error) => {
                    if !reported {
                        tracing::warn!(
                            path = %path.display(),
                            %error,
                            "cannot look at the lock of an attempt, so it counts as running; \
                             make the file readable and writable to this user"
                        );
                        reported = true;
                    }
                    pause = PAUSE_AFTER_ERROR;
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    /// Lets processes that are started from now on inherit the lock.
    pub(crate) fn share_with_children(&self) -> io::Result<()> {
        rustix::io::fcntl_setfd(&self.file, FdFlags::empty())?;
        Ok(())
    }

    /// Removes the file, then gives up the lock. Only for one who knows that nothing of the
    /// attempt lives. A file that cannot be removed does no harm: it is free.
    pub(crate) fn remove(self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(path = %self.path.display(), %error, "a free lock file stays behind");
        }
    }

    fn create(path: &Path) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
    }

    fn lock(file: File, path: &Path) -> io::Result<Lock> {
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(Lock::Busy),
            Err(error) => return Err(error.into()),
        }
        let ours = file.metadata()?;
        match std::fs::metadata(path) {
            Ok(there) if there.ino() == ours.ino() && there.dev() == ours.dev() => {
                Ok(Lock::Taken(Self {
                    file,
                    path: path.to_owned(),
                }))
            }
            Ok(_) => Ok(Lock::Stale),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Lock::Stale),
            Err(error) => Err(error),
        }
    }
}

/// How a try to lock a file that was opened by name can end.
enum Lock {
    Taken(AttemptLock),
    Busy,
    /// Locked, but the name means another file by now, or none.
    Stale,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = AttemptLock::path(&folder.path().join("attempts"), &Key([0xab; 16]), 3);
        (folder, path)
    }

    #[test]
    fn the_file_is_named_by_key_and_attempt() {
        let (_folder, path) = place();
        assert_eq!(
            path.file_name().unwrap().to_str().unwrap(),
            "abababababababababababababababab-3.lock"
        );
    }

    #[test]
    fn one_holder_at_a_time_and_gone_only_after_it() {
        let (_folder, path) = place();
        assert!(AttemptLock::is_gone(&path).unwrap(), "never begun");
        let lock = AttemptLock::try_take(&path).unwrap().unwrap();
        assert!(AttemptLock::try_take(&path).unwrap().is_none());
        assert!(!AttemptLock::is_gone(&path).unwrap());
        drop(lock);
        assert!(path.exists());
        assert!(AttemptLock::is_gone(&path).unwrap());
        assert!(!path.exists(), "the file goes with the attempt");
    }

    #[test]
    fn a_lock_on_a_deleted_file_does_not_count() {
        let (_folder, path) = place();
        let first = AttemptLock::try_take(&path).unwrap().unwrap();
        let late = AttemptLock::create(&path).unwrap();
        first.remove();
        assert!(matches!(
            AttemptLock::lock(late, &path).unwrap(),
            Lock::Stale
        ));
        let late = {
            let second = AttemptLock::try_take(&path).unwrap().unwrap();
            let late = AttemptLock::create(&path).unwrap();
            second.remove();
            let _third = AttemptLock::try_take(&path).unwrap().unwrap();
            AttemptLock::lock(late, &path).unwrap()
        };
        assert!(
            matches!(late, Lock::Stale),
            "the name means another file by now"
        );
    }

    #[tokio::test]
    async fn waiting_ends_with_the_holder_and_can_be_dropped_before() {
        let (_folder, path) = place();
        let lock = AttemptLock::try_take(&path).unwrap().unwrap();
        let short = Duration::from_millis(30);
        assert!(
            tokio::time::timeout(short, AttemptLock::wait_gone(&path))
                .await
                .is_err()
        );
        let waiting = tokio::spawn({
            let path = path.clone();
            async move { AttemptLock::wait_gone(&path).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(lock);
        tokio::time::timeout(Duration::from_secs(5), waiting)
            .await
            .unwrap()
            .unwrap();
    }

    #[tokio::test]
    async fn what_cannot_be_looked_at_counts_as_running() {
        let folder = tempfile::tempdir().unwrap();
        // A folder in the place of the file cannot be opened for writing, by any user.
        let path = folder.path().join("x.lock");
        std::fs::create_dir(&path).unwrap();
        assert!(AttemptLock::is_gone(&path).is_err());
        let short = Duration::from_millis(30);
        assert!(
            tokio::time::timeout(short, AttemptLock::wait_gone(&path))
                .await
                .is_err()
        );
    }
}
