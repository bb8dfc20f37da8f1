//! Whether a command line can run at all: its program, and the script given to an interpreter.
//!
//! A program with a slash is taken relative to the job file's folder; one without is looked up in
//! `PATH`, as the system does.

use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// Programs whose first argument is a script.
const INTERPRETERS: [&str; 12] = [
    "sh", "bash", "dash", "ksh", "zsh", "python", "python3", "perl", "ruby", "node", "deno", "php",
];

/// Why a command line cannot run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Fault {
    /// Index of the word at fault.
    pub(super) word: usize,
    /// What is wrong.
    pub(super) message: String,
    /// What to do.
    pub(super) remedy: String,
}

/// Looks for what would keep a command line, which is not empty, from being started.
pub(super) fn fault(line: &[&str], folder: &Path, path: &[PathBuf]) -> Option<Fault> {
    let program = line[0];
    let fault = |word: usize, message: String, remedy: String| {
        Some(Fault {
            word,
            message,
            remedy,
        })
    };
    if program.contains('/') {
        let file = folder.join(program);
        if !file.exists() {
            return fault(
                0,
                format!("the script {program} does not exist"),
                format!("create {}", file.display()),
            );
        }
        if !file.is_file() {
            return fault(
                0,
                format!("{program} is not a file"),
                "name a program or a script".to_owned(),
            );
        }
        if access(&file, Access::EXEC_OK).is_err() {
            return fault(
                0,
                format!("the script {program} is not executable"),
                format!("chmod +x {}", file.display()),
            );
        }
    } else if !path.iter().any(|folder| runs(&folder.join(program))) {
        return if folder.join(program).is_file() {
            fault(
                0,
                format!(
                    "{program} is in the job file's folder, which is not searched for programs"
                ),
                format!("write \"./{program}\""),
            )
        } else {
            fault(
                0,
                format!("the program {program} is not found in PATH"),
                "install it, or write a path such as \"./pay.sh\"".to_owned(),
            )
        };
    }
    let name = Path::new(program).file_name()?.to_str()?;
    let script = *line.get(1)?;
    if INTERPRETERS.contains(&name) && !script.starts_with('-') && !folder.join(script).is_file() {
        return fault(
            1,
            format!("the script {script}, to be run by {program}, does not exist"),
            format!("create {}", folder.join(script).display()),
        );
    }
    None
}

fn runs(file: &Path) -> bool {
    file.is_file() && access(file, Access::EXEC_OK).is_ok()
}

/// The command line with a relative program made absolute; one without a slash is left to `PATH`.
pub(super) fn absolute(line: &[String], folder: &Path) -> Vec<String> {
    let mut line = line.to_vec();
    if let Some(program) = line.first_mut()
        && program.contains('/')
        && let Some(joined) = folder.join(&*program).to_str()
    {
        *program = joined.to_owned();
    }
    line
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn message(line: &[&str], folder: &Path, path: &[PathBuf]) -> Option<(usize, String)> {
        fault(line, folder, path).map(|fault| (fault.word, fault.message))
    }

    #[test]
    fn programs_and_scripts_that_cannot_run_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let bin = folder.join("bin");
        std::fs::create_dir(&bin).unwrap();
        for (name, mode) in [("ok.sh", 0o755), ("plain.sh", 0o644), ("bin/sh", 0o755)] {
            let file = folder.join(name);
            std::fs::write(&file, "#!/bin/sh\n").unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let path = [bin];
        for sound in [
            &["./ok.sh"][..],
            &["sh", "ok.sh"],
            &["sh", "-c", "exit 0"],
            &["sh"],
        ] {
            assert_eq!(fault(sound, folder, &path), None, "{sound:?}");
        }
        for (line, word, expected) in [
            (&["./gone.sh"][..], 0, "the script ./gone.sh does not exist"),
            (&["./bin"], 0, "./bin is not a file"),
            (&["no-such"], 0, "the program no-such is not found in PATH"),
            (
                &["ok.sh"],
                0,
                "ok.sh is in the job file's folder, which is not searched for programs",
            ),
            (
                &["sh", "gone.sh"],
                1,
                "the script gone.sh, to be run by sh, does not exist",
            ),
        ] {
            assert_eq!(
                message(line, folder, &path),
                Some((word, expected.to_owned()))
            );
        }
        // Whoever is root may read and write everything, but execute only what has the bit.
        assert_eq!(
            message(&["./plain.sh"], folder, &path),
            Some((0, "the script ./plain.sh is not executable".to_owned()))
        );
    }

    #[test]
    fn only_programs_with_a_slash_are_made_absolute() {
        let folder = Path::new("/jobs");
        let line = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            absolute(&line(&["./pay.sh", "./x"]), folder),
            line(&["/jobs/./pay.sh", "./x"])
        );
        assert_eq!(absolute(&line(&["sh", "x"]), folder), line(&["sh", "x"]));
        assert_eq!(absolute(&line(&["/bin/sh"]), folder), line(&["/bin/sh"]));
    }
}
