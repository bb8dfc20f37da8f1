//! What is declared of a command: what to run, where, and what its exit codes mean.

use std::collections::BTreeSet;
use std::path::PathBuf;

/// A command with its reconciler, as a job file declares it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommandSpec {
    /// The program and its arguments that perform the action.
    pub run: Argv,
    /// The program and its arguments that say whether it happened, if there is one.
    pub reconcile: Option<Argv>,
    /// The folder both run in. A program named with a slash is looked up from here.
    pub cwd: PathBuf,
    /// What exit codes other than 0 mean.
    pub exit_codes: ExitCodes,
    /// Under which guard, with which locks.
    pub place: GuardPlace,
}

/// The guard program and the folder of the attempts' locks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GuardPlace {
    /// The program that is started as `<program> __guard` and calls
    /// [`guard_main`](super::guard_main) for that.
    pub program: PathBuf,
    /// The folder that holds one lock file for each attempt that is going on. It belongs into the
    /// journal's folder: whoever recovers the journal must look at the same locks.
    pub attempts: PathBuf,
}

impl GuardPlace {
    /// The running program as its own guard. It must answer the hidden command `__guard`.
    ///
    /// The program is named by the kernel's link to the running file, so that a guard is of the
    /// same version even after the file on disk was replaced.
    pub fn this_program(attempts: impl Into<PathBuf>) -> Self {
        Self {
            program: PathBuf::from("/proc/self/exe"),
            attempts: attempts.into(),
        }
    }
}

/// A program and its arguments: never empty, without NUL characters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Argv(Vec<String>);

impl Argv {
    /// Checks and wraps a command line. The first word is the program.
    ///
    /// # Errors
    /// If there is no program, or a word holds a NUL character.
    pub fn new<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Result<Self, SpecError> {
        let words: Vec<String> = words.into_iter().map(Into::into).collect();
        if words.first().is_none_or(String::is_empty) {
            return Err(SpecError::NoProgram);
        }
        if let Some(position) = words.iter().position(|word| word.contains('\0')) {
            return Err(SpecError::NulInWord { position });
        }
        Ok(Self(words))
    }

    /// The program.
    pub fn program(&self) -> &str {
        &self.0[0]
    }

    /// The program and its arguments.
    pub fn words(&self) -> &[String] {
        &self.0
    }
}

/// What exit codes other than 0 say of the effect. A code in neither list, and death by a signal,
/// says nothing: the attempt is in doubt.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct ExitCodes {
    failed: BTreeSet<u8>,
    not_executed: BTreeSet<u8>,
}

impl ExitCodes {
    /// Checks and wraps the two lists of a job file.
    ///
    /// # Errors
    /// If a code is not from 1 to 255, or stands in both lists.
    pub fn new(
        failed: impl IntoIterator<Item = i64>,
        not_executed: impl IntoIterator<Item = i64>,
    ) -> Result<Self, SpecError> {
        let check = |code: i64| match u8::try_from(code) {
            Ok(code) if code != 0 => Ok(code),
            _ => Err(SpecError::ExitCodeOutOfRange { code }),
        };
        let failed: BTreeSet<u8> = failed.into_iter().map(check).collect::<Result<_, _>>()?;
        let not_executed: BTreeSet<u8> = not_executed
            .into_iter()
            .map(check)
            .collect::<Result<_, _>>()?;
        if let Some(code) = failed.intersection(&not_executed).next() {
            return Err(SpecError::ExitCodeTwice { code: *code });
        }
        Ok(Self {
            failed,
            not_executed,
        })
    }

    /// What a code means.
    pub(crate) fn meaning(&self, code: i32) -> Meaning {
        let Ok(code) = u8::try_from(code) else {
            return Meaning::Unknown;
        };
        if code == 0 {
            Meaning::Succeeded
        } else if self.failed.contains(&code) {
            Meaning::Failed
        } else if self.not_executed.contains(&code) {
            Meaning::NotExecuted
        } else {
            Meaning::Unknown
        }
    }
}

/// What an exit code says of the effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Meaning {
    Succeeded,
    Failed,
    NotExecuted,
    Unknown,
}

/// What is wrong with a declaration.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpecError {
    /// The command line is empty, or its first word is.
    #[error("the command names no program; write it as a list, the program first")]
    NoProgram,
    /// A word that no program can be given.
    #[error("word {position} of the command holds a NUL character; remove it")]
    NulInWord {
        /// Its place, counted from 0.
        position: usize,
    },
    /// Not an exit code that can be given a meaning.
    #[error(
        "exit code {code} cannot be given a meaning; use 1 to 255 (0 always means that it succeeded)"
    )]
    ExitCodeOutOfRange {
        /// The code.
        code: i64,
    },
    /// Two meanings for one code.
    #[error("exit code {code} is in both `failed` and `not_executed`; keep it in one of them")]
    ExitCodeTwice {
        /// The code.
        code: u8,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_has_the_meaning_that_its_list_gives_it_and_else_none() {
        let codes = ExitCodes::new([10, 11], [75]).unwrap();
        for (code, meaning) in [
            (0, Meaning::Succeeded),
            (10, Meaning::Failed),
            (11, Meaning::Failed),
            (75, Meaning::NotExecuted),
            (1, Meaning::Unknown),
            (255, Meaning::Unknown),
            (-1, Meaning::Unknown),
            (266, Meaning::Unknown),
        ] {
            assert_eq!(codes.meaning(code), meaning, "code {code}");
        }
        assert_eq!(ExitCodes::default().meaning(75), Meaning::Unknown);
    }

    #[test]
    fn exit_codes_that_cannot_be_meant_are_refused() {
        assert_eq!(
            ExitCodes::new([0], []),
            Err(SpecError::ExitCodeOutOfRange { code: 0 })
        );
        assert_eq!(
            ExitCodes::new([], [256]),
            Err(SpecError::ExitCodeOutOfRange { code: 256 })
        );
        assert_eq!(
            ExitCodes::new([3, 4], [4]),
            Err(SpecError::ExitCodeTwice { code: 4 })
        );
    }

    #[test]
    fn a_command_line_names_a_program_and_holds_no_nul() {
        assert_eq!(Argv::new(Vec::<String>::new()), Err(SpecError::NoProgram));
        assert_eq!(Argv::new(["", "x"]), Err(SpecError::NoProgram));
        assert_eq!(
            Argv::new(["sh", "a\0b"]),
            Err(SpecError::NulInWord { position: 1 })
        );
        let argv = Argv::new(["./pay.sh", ""]).unwrap();
        assert_eq!(argv.program(), "./pay.sh");
        assert_eq!(argv.words().len(), 2);
    }
}
