//! How the program ends: its exit codes, and errors as people and programs get them.
//!
//! If several codes hold, the first of 6, 4, 7, 3, 1 is given.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use intendant::engine::{StartError, StartRunError};
use intendant::operator::command::Refusal;
use intendant_journal::error::{AppendError, Damage, OpenError, ReadError};

use crate::job::Problem;

/// Exit codes of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Done as asked.
    Done = 0,
    /// Ended, and some failed, were denied, given up or unusable.
    SomeFailed = 1,
    /// Bad usage, job file or id; nothing was started.
    Usage = 2,
    /// Waits for a person.
    NeedsPerson = 3,
    /// The journal was refused: damaged, foreign, newer, missing.
    JournalRefused = 4,
    /// A live process owns the journal.
    Owned = 5,
    /// The storage failed or the disk is full; a restart is safe.
    Storage = 6,
    /// The workflow diverged, or the job changed.
    Diverged = 7,
    /// `verify`: the record was altered.
    Altered = 10,
    /// `verify`: the record ends before what is known to have been in it.
    Truncated = 11,
    /// `verify` and `checkpoint`: nothing signed vouches for the record.
    Unsigned = 12,
    /// Stopped by SIGINT with work left.
    Interrupted = 130,
    /// Stopped by SIGTERM with work left.
    Terminated = 143,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(exit as u8)
    }
}

/// Why a command did not do what was asked.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    /// Stable word for programs.
    pub(crate) code: String,
    pub(crate) message: String,
    /// Where, if it is about a file.
    place: Option<Box<Place>>,
    pub(crate) remedy: String,
    /// Every mistake of a job file.
    problems: Vec<Problem>,
}

/// A place in the journal's folder.
#[derive(Clone, Debug, Default)]
struct Place {
    path: PathBuf,
    segment: Option<u64>,
    offset: Option<u64>,
    sequence: Option<u64>,
}

impl Failure {
    pub(crate) fn new(
        exit: Exit,
        code: &str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self {
            exit,
            code: code.to_owned(),
            message: message.into(),
            place: None,
            remedy: remedy.into(),
            problems: Vec::new(),
        }
    }

    /// Bad usage or a bad id.
    pub(crate) fn usage(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Exit::Usage, "usage", message, remedy)
    }

    /// Mistakes in a job file, its schemas or its rows.
    pub(crate) fn problems(problems: Vec<Problem>) -> Self {
        let count = problems.len();
        let message = match count {
            1 => "the job has a mistake".to_owned(),
            _ => format!("the job has {count} mistakes"),
        };
        Self {
            problems,
            ..Self::new(
                Exit::Usage,
                "bad_job",
                message,
                "correct it and start again; nothing was started",
            )
        }
    }

    /// A failed operation on a file.
    pub(crate) fn io(path: &Path, doing: &str, error: &std::io::Error) -> Self {
        let message = format!("{}: {doing}: {error}", path.display());
        let remedy = match exit_of(error) {
            Exit::JournalRefused => "make it readable and writable for this user",
            _ => "look at the disk; a restart is safe",
        };
        Self::new(exit_of(error), "io", message, remedy).at(path)
    }

    pub(crate) fn at(mut self, path: &Path) -> Self {
        self.place = Some(Box::new(Place {
            path: path.to_owned(),
            ..Place::default()
        }));
        self
    }

    /// In the log, from this entry on.
    pub(crate) fn in_log(
        mut self,
        place: Option<&intendant_journal::scan::Place>,
        sequence: u64,
    ) -> Self {
        let mut told = self.place.take().unwrap_or_default();
        if let Some(place) = place {
            told.path.clone_from(&place.path);
            told.segment = Some(place.segment);
            told.offset = Some(place.offset);
        }
        told.sequence = Some(sequence);
        self.place = Some(told);
        self
    }

    /// For commands with codes of their own.
    pub(crate) fn with_exit(self, exit: Exit) -> Self {
        Self { exit, ..self }
    }

    /// As people read it.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for problem in &self.problems {
            text.push_str(&format!("{problem}\n"));
        }
        text.push_str(&format!("error: {}", self.message));
        if !self.remedy.is_empty() {
            text.push_str(&format!("\n  {}", self.remedy));
        }
        text
    }

    /// As programs read it.
    pub(crate) fn json(&self) -> serde_json::Value {
        let place = self.place.as_deref();
        let mut error = serde_json::json!({
            "code": self.code,
            "message": self.message,
            "path": place.map(|place| &place.path),
            "segment": place.and_then(|place| place.segment),
            "offset": place.and_then(|place| place.offset),
            "remedy": self.remedy,
        });
        if let Some(sequence) = place.and_then(|place| place.sequence) {
            error["sequence"] = sequence.into();
        }
        if !self.problems.is_empty() {
            error["problems"] = serde_json::json!(self.problems);
        }
        serde_json::json!({ "error": error })
    }
}

/// Errors that a person mends on the spot, such as permissions, are no failing storage.
fn exit_of(error: &std::io::Error) -> Exit {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::PermissionDenied
        | ErrorKind::IsADirectory
        | ErrorKind::NotADirectory
        | ErrorKind::NotFound
        | ErrorKind::InvalidData => Exit::JournalRefused,
        ErrorKind::InvalidInput => Exit::Usage,
        _ => Exit::Storage,
    }
}

/// An error's own text names cause and remedy, the remedy behind the last semicolon.
fn split(text: &str) -> (String, String) {
    match text.rsplit_once("; ") {
        Some((message, remedy)) => (message.to_owned(), remedy.to_owned()),
        None => (text.to_owned(), String::new()),
    }
}

fn told(exit: Exit, code: &str, error: &dyn std::fmt::Display) -> Failure {
    let (message, remedy) = split(&error.to_string());
    Failure::new(exit, code, message, remedy)
}

impl From<Damage> for Failure {
    fn from(damage: Damage) -> Self {
        let message = format!(
            "{}: damaged at offset {}: {}; {}",
            damage.path.display(),
            damage.offset,
            damage.what,
            damage.lost
        );
        Self {
            place: Some(Box::new(Place {
                path: damage.path,
                segment: damage.segment,
                offset: Some(damage.offset),
                sequence: None,
            })),
            ..Self::new(Exit::JournalRefused, "damaged", message, damage.remedy)
        }
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Missing { ref path } => {
                told(Exit::JournalRefused, "missing", &error).at(path)
            }
            OpenError::Gone { ref path, .. } => told(Exit::JournalRefused, "gone", &error).at(path),
            OpenError::Foreign { ref path, .. } => {
                told(Exit::JournalRefused, "foreign", &error).at(path)
            }
            OpenError::Newer { ref path, .. } => {
                told(Exit::JournalRefused, "newer", &error).at(path)
            }
            OpenError::Shortened {
                ref path,
                segment,
                offset,
                end,
                ..
            } => Self {
                place: Some(Box::new(Place {
                    path: path.clone(),
                    segment,
                    offset: segment.map(|_| offset),
                    sequence: Some(end.0 + 1),
                })),
                ..told(Exit::JournalRefused, "shortened", &error)
            },
            OpenError::Contradicted {
                ref path,
                segment,
                offset,
                sequence,
                ..
            } => Self {
                place: Some(Box::new(Place {
                    path: path.clone(),
                    segment: Some(segment),
                    offset: Some(offset),
                    sequence: Some(sequence.0),
                })),
                ..told(Exit::JournalRefused, "contradicted", &error)
            },
            OpenError::Owned { ref path, pid, .. } => {
                let owner = match pid {
                    0 => "a process that is just starting".to_owned(),
                    pid => format!("process {pid}"),
                };
                let message = format!("{}: in use by {owner}", path.display());
                Self::new(
                    Exit::Owned,
                    "owned",
                    message,
                    "wait for it, stop it, or name another folder with --data",
                )
                .at(path)
            }
            OpenError::Damaged(damage) => damage.into(),
            OpenError::Io {
                path,
                doing,
                source,
            } => Self::io(&path, &doing, &source),
            OpenError::Read(error) => error.into(),
            OpenError::Append(error) => error.into(),
            other => told(Exit::JournalRefused, "journal", &other),
        }
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Damaged(damage) => damage.into(),
            ReadError::Io { path, source } => Self::io(&path, "reading it", &source),
            ReadError::Projection { ref path, .. } => {
                told(Exit::JournalRefused, "projection", &error).at(path)
            }
            other => told(Exit::JournalRefused, "unreadable", &other),
        }
    }
}

impl From<AppendError> for Failure {
    fn from(error: AppendError) -> Self {
        let message = error.to_string();
        let (exit, code, remedy) = match error {
            AppendError::NoSpace { .. } => (
                Exit::Storage,
                "no_space",
                "free space, then start again: a restart is safe",
            ),
            // It comes from a run that has begun, so it is no bad usage.
            AppendError::TooLarge { .. } => (
                Exit::Storage,
                "too_large",
                "start again with larger segments (--segment-bytes): a restart is safe",
            ),
            AppendError::Refused { .. } => (
                Exit::Storage,
                "refused",
                "look at the disk, then start again: a restart is safe",
            ),
            AppendError::Unsettled { .. } => (
                Exit::Storage,
                "unsettled",
                "look at the disk, then start again: a restart is safe",
            ),
            _ => (
                Exit::Storage,
                "disabled",
                "look at the disk, then start again: a restart is safe",
            ),
        };
        Self::new(exit, code, message, remedy)
    }
}

impl From<StartRunError> for Failure {
    fn from(error: StartRunError) -> Self {
        match error {
            StartRunError::Journal(error) => error.into(),
            StartRunError::Read(error) => error.into(),
            StartRunError::Conflict(why) => Self::new(
                Exit::Diverged,
                "conflict",
                why,
                "use another run id with --run-id, or raise the job's version",
            ),
            StartRunError::Broken(why) => Self::new(
                Exit::JournalRefused,
                "broken",
                why,
                "keep the folder and report it",
            ),
            other => told(Exit::Usage, "usage", &other),
        }
    }
}

impl From<StartError> for Failure {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Read(error) => error.into(),
            StartError::Misfit(misfit) => told(Exit::JournalRefused, "broken", &misfit),
            other => told(Exit::Usage, "bad_tool", &other),
        }
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        let exit = match refusal.code.as_str() {
            "storage" | "checkpoint" | "disabled" => Exit::Storage,
            "unsigned" => Exit::Unsigned,
            "unreadable" => Exit::JournalRefused,
            _ => Exit::Usage,
        };
        Self::new(exit, &refusal.code, refusal.message, refusal.remedy)
    }
}

#[cfg(test)]
mod tests {
    use intendant_journal::format::entry::Sequence;

    use super::*;

    #[test]
    fn every_reason_not_to_open_has_its_code_and_a_remedy() {
        let path = PathBuf::from("/data");
        let damage = Damage {
            path: "/data/journal/1.seg".into(),
            segment: Some(1),
            offset: 77,
            what: "a bad checksum".into(),
            lost: "entries from 9 on".into(),
            remedy: "restore the folder".into(),
        };
        let cases = [
            (OpenError::Missing { path: path.clone() }, 4, "missing"),
            (
                OpenError::Gone {
                    path: path.clone(),
                    id: "ab".into(),
                },
                4,
                "gone",
            ),
            (
                OpenError::Foreign {
                    path: path.clone(),
                    what: "a; b".into(),
                },
                4,
                "foreign",
            ),
            (
                OpenError::Newer {
                    path: path.clone(),
                    found: 9,
                    known: 1,
                },
                4,
                "newer",
            ),
            (
                OpenError::Shortened {
                    path: path.clone(),
                    segment: Some(1),
                    offset: 4096,
                    end: Sequence(1),
                    durable: Sequence(3),
                    witness: "the mark".into(),
                },
                4,
                "shortened",
            ),
            (
                OpenError::Owned {
                    path: path.clone(),
                    pid: 7,
                    socket: None,
                },
                5,
                "owned",
            ),
            (OpenError::Damaged(damage), 4, "damaged"),
            (
                OpenError::Append(AppendError::NoSpace { why: "full".into() }),
                6,
                "no_space",
            ),
            (
                OpenError::Append(AppendError::TooLarge { bytes: 2, max: 1 }),
                6,
                "too_large",
            ),
            (
                OpenError::Io {
                    path: path.clone(),
                    doing: "reading it".into(),
                    source: std::io::ErrorKind::PermissionDenied.into(),
                },
                4,
                "io",
            ),
            (
                OpenError::Io {
                    path,
                    doing: "syncing it".into(),
                    source: std::io::ErrorKind::StorageFull.into(),
                },
                6,
                "io",
            ),
        ];
        for (error, exit, code) in cases {
            let failure = Failure::from(error);
            assert_eq!((failure.exit as u8, failure.code.as_str()), (exit, code));
            assert!(!failure.remedy.is_empty(), "{failure:?}");
        }
    }

    #[test]
    fn damage_names_segment_and_offset_in_json() {
        let damage = Damage {
            path: "/d/1.seg".into(),
            segment: Some(3),
            offset: 4096,
            what: "w".into(),
            lost: "l".into(),
            remedy: "r".into(),
        };
        let json = Failure::from(damage).json();
        assert_eq!(json["error"]["segment"], 3);
        assert_eq!(json["error"]["offset"], 4096);
        assert_eq!(json["error"]["path"], "/d/1.seg");
        assert_eq!(json["error"]["remedy"], "r");
    }
}
