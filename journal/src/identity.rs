//! Which journal a folder holds, kept in two places: the file `IDENTITY` inside, and a record
//! outside, under the user's state folder, by the folder's path. So a journal that is gone (volume
//! not mounted, wrong path) is not taken for a fresh start.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::disk::{Disk, Kind, Publish, Site, create_dirs, parent_of, publish, read_small};
use crate::error::{Damage, OpenError};
use crate::format::entry::{Digest, JournalId};
use crate::format::segment::FORMAT_VERSION;
use crate::journal::SEGMENTS;
use crate::recovery::{Testimony, testimony};

/// Name of the file in the journal's folder.
pub(crate) const IDENTITY: &str = "IDENTITY";
const TEMPORARY: &str = "IDENTITY.tmp";
const MAGIC: &str = "intendant-journal";
const MAX_BYTES: usize = 16 * 1024;

#[derive(Serialize, Deserialize)]
struct Identity {
    magic: String,
    format: u32,
    id: String,
}

#[derive(Serialize, Deserialize)]
struct Record {
    magic: String,
    id: String,
    path: String,
}

/// Enough of a file to see whose it is before its fields are believed.
#[derive(Deserialize)]
struct Head {
    magic: String,
    format: Option<u32>,
}

pub(crate) fn parse_id(text: &str) -> Option<JournalId> {
    let digit = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 32 || !text.bytes().all(digit) {
        return None;
    }
    u128::from_str_radix(text, 16)
        .ok()
        .map(|number| JournalId(number.to_be_bytes()))
}

fn io(path: &Path, doing: &str) -> impl FnOnce(std::io::Error) -> OpenError {
    crate::recovery::io_error(path, doing)
}

/// Reads `IDENTITY`; `None` if the folder has none.
pub(crate) fn read(disk: &dyn Disk, folder: &Path) -> Result<Option<JournalId>, OpenError> {
    let path = folder.join(IDENTITY);
    let Some(text) = read_small(disk, &path, MAX_BYTES).map_err(io(&path, "reading it"))? else {
        return Ok(None);
    };
    // Another program's file of this name, unless there are segments beside it.
    let foreign = |what: String| match testimony(disk, &folder.join(SEGMENTS)) {
        Some(all) => damaged(folder, what, Some(all)).into(),
        None => OpenError::Foreign {
            path: path.clone(),
            what,
        },
    };
    let head: Head = serde_json::from_slice(&text)
        .map_err(|error| foreign(format!("its text is not an identity: {error}")))?;
    if head.magic != MAGIC {
        return Err(foreign(format!("it is marked {:?}", head.magic)));
    }
    match head.format {
        Some(FORMAT_VERSION) => {}
        Some(found) if found > FORMAT_VERSION => {
            return Err(OpenError::Newer {
                path,
                found,
                known: FORMAT_VERSION,
            });
        }
        _ => return Err(foreign("it names no format version".into())),
    }
    let identity: Identity = serde_json::from_slice(&text)
        .map_err(|error| foreign(format!("its text is not an identity: {error}")))?;
    parse_id(&identity.id)
        .map(Some)
        .ok_or_else(|| foreign(format!("{:?} is no journal's id", identity.id)))
}

/// The damage of an `IDENTITY` that is missing or not to be believed.
pub(crate) fn damaged(folder: &Path, what: String, all: Option<Testimony>) -> Damage {
    let lost = match all {
        Some(all) => format!("nothing of the log: {all}"),
        None => "which journal this is".into(),
    };
    Damage {
        path: folder.join(IDENTITY),
        segment: None,
        offset: 0,
        what,
        lost,
        remedy: "Nothing was changed: restore this file from a backup".into(),
    }
}

/// The damage of a folder that has segments and no `IDENTITY`; `None` if it has no segments either.
pub(crate) fn missing(disk: &dyn Disk, folder: &Path) -> Option<Damage> {
    let all = testimony(disk, &folder.join(SEGMENTS))?;
    Some(damaged(folder, "the file is missing".into(), Some(all)))
}

/// The damage of an `IDENTITY` that names another journal than is recorded for its path, if the
/// segments belong to the one that is recorded.
pub(crate) fn contradicted(
    disk: &dyn Disk,
    folder: &Path,
    there: JournalId,
    recorded: JournalId,
) -> Option<Damage> {
    let all = testimony(disk, &folder.join(SEGMENTS))?;
    let what = format!("it names journal {there}, and {all}");
    (all.journal == recorded).then(|| damaged(folder, what, Some(all)))
}

/// Puts `IDENTITY` into the folder, durably.
pub(crate) fn write(disk: &dyn Disk, folder: &Path, id: JournalId) -> Result<(), OpenError> {
    let path = folder.join(IDENTITY);
    let identity = Identity {
        magic: MAGIC.into(),
        format: FORMAT_VERSION,
        id: id.to_string(),
    };
    let sites = Publish {
        create: Site::IdentityCreate,
        write: Site::IdentityWrite,
        sync: Site::IdentitySync,
        rename: Site::IdentityRename,
        dir_sync: Site::IdentityDirSync,
        remove: Site::IdentityRemove,
    };
    serde_json::to_vec(&identity)
        .map_err(std::io::Error::other)
        .and_then(|text| publish(disk, &path, &folder.join(TEMPORARY), &text, sites))
        .map_err(io(&path, "writing it"))
}

/// True if nothing but what an opening leaves behind before there is an identity is in the folder.
pub(crate) fn is_empty(disk: &dyn Disk, folder: &Path) -> Result<bool, OpenError> {
    let names = disk.list(folder).map_err(io(folder, "listing it"))?;
    Ok(names
        .iter()
        .all(|name| name == crate::lock::LOCK || name == TEMPORARY))
}

/// What bears the folder's name.
pub(crate) fn folder_kind(disk: &dyn Disk, folder: &Path) -> Result<Option<Kind>, OpenError> {
    disk.kind(folder).map_err(io(folder, "looking for it"))
}

/// Where records of journals are kept, outside of them.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    /// `None` if the user has no state folder: then there are no records.
    folder: Option<PathBuf>,
}

impl Records {
    /// `state_home` in place of `$XDG_STATE_HOME` (or `$HOME/.local/state`).
    pub(crate) fn new(state_home: Option<PathBuf>) -> Self {
        let from_environment = || {
            let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
            let absolute = |path: PathBuf| path.is_absolute().then_some(path);
            set("XDG_STATE_HOME")
                .map(PathBuf::from)
                .and_then(absolute)
                .or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".local/state")))
        };
        Self {
            folder: state_home
                .or_else(from_environment)
                .map(|home| home.join("intendant/journals")),
        }
    }

    /// False if the user has no state folder.
    pub(crate) fn have_a_place(&self) -> bool {
        self.folder.is_some()
    }

    /// The path by which a folder is known: without links and relative parts, even if it is gone.
    pub(crate) fn known_path(disk: &dyn Disk, folder: &Path) -> Result<PathBuf, OpenError> {
        let missing = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
        match disk.canonical(folder) {
            Ok(path) => return Ok(path),
            Err(error) if missing(&error) => {}
            Err(error) => return Err(io(folder, "resolving its path")(error)),
        }
        // What exists of the path is resolved, the rest is taken as it is written.
        let Some(name) = folder.file_name() else {
            return Ok(folder.to_owned());
        };
        let parent = parent_of(folder);
        if parent == folder {
            return Ok(folder.to_owned());
        }
        Ok(Self::known_path(disk, parent)?.join(name))
    }

    fn path(&self, known_path: &Path) -> Option<PathBuf> {
        let hash = Sha256::digest(known_path.as_os_str().as_encoded_bytes());
        let name = Digest(hash.into()).to_string();
        Some(self.folder.as_ref()?.join(name))
    }

    /// The journal recorded for a path, if one is.
    pub(crate) fn read(
        &self,
        disk: &dyn Disk,
        known_path: &Path,
    ) -> Result<Option<JournalId>, OpenError> {
        let Some(path) = self.path(known_path) else {
            return Ok(None);
        };
        let Some(text) = read_small(disk, &path, MAX_BYTES).map_err(io(&path, "reading it"))?
        else {
            return Ok(None);
        };
        // A record that cannot be read is no reason to believe that there was no journal.
        serde_json::from_slice::<Record>(&text)
            .ok()
            .filter(|record| record.magic == MAGIC)
            .and_then(|record| parse_id(&record.id))
            .map(Some)
            .ok_or_else(|| {
                OpenError::Damaged(Damage {
                    path: path.clone(),
                    segment: None,
                    offset: 0,
                    what: format!("the record of the journal at {}", known_path.display()),
                    lost: "which journal was there".into(),
                    remedy: "Nothing was changed: delete the record if the journal that is there \
                             now is the one you mean"
                        .into(),
                })
            })
    }

    /// Makes the record durable that was read: whoever wrote it may have been killed before it was.
    pub(crate) fn keep(&self, disk: &dyn Disk) -> Result<(), OpenError> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        disk.sync_dir(folder, Site::RecordDirSync)
            .map_err(io(folder, "recording the journal"))
    }

    /// Records a journal for a path, durably.
    pub(crate) fn write(
        &self,
        disk: &dyn Disk,
        known_path: &Path,
        id: JournalId,
    ) -> Result<(), OpenError> {
        let Some(path) = self.path(known_path) else {
            tracing::warn!(
                "neither XDG_STATE_HOME nor HOME is set: the journal is not recorded outside its \
                 folder, and its loss would not be noticed"
            );
            return Ok(());
        };
        let record = Record {
            magic: MAGIC.into(),
            id: id.to_string(),
            path: known_path.display().to_string(),
        };
        let sites = Publish {
            create: Site::RecordCreate,
            write: Site::RecordWrite,
            sync: Site::RecordSync,
            rename: Site::RecordRename,
            dir_sync: Site::RecordDirSync,
            remove: Site::RecordRemove,
        };
        // The lock of the folder is held: nobody else writes this record.
        let temporary = path.with_extension("tmp");
        create_dirs(
            disk,
            parent_of(&path),
            Site::RecordDirCreate,
            Site::RecordDirSync,
        )
        .and_then(|()| serde_json::to_vec(&record).map_err(std::io::Error::other))
        .and_then(|text| publish(disk, &path, &temporary, &text, sites))
        .map_err(io(&path, "recording the journal"))
    }
}
