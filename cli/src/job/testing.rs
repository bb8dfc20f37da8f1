//! Jobs in temporary folders, for the tests of several files.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::file::{Loaded, load};

/// A folder with a job in it.
pub(super) struct JobFolder {
    folder: tempfile::TempDir,
}

impl JobFolder {
    /// With the scripts `pay.sh` and `reconcile.sh` and these files.
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        let folder = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for script in ["pay.sh", "reconcile.sh"] {
            folder.write(script, "#!/bin/sh\n");
            let mode = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(folder.path().join(script), mode).unwrap();
        }
        for (name, text) in files {
            folder.write(name, text);
        }
        folder
    }

    pub(super) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn job(&self) -> PathBuf {
        self.path().join("job.toml")
    }

    pub(super) fn load(&self) -> Loaded {
        load(&self.job()).unwrap()
    }
}
