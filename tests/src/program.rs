//! The program under test: built once, started as a child process, killed and awaited.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::scene::Scene;

/// How long anything may take before it counts as hanging. Nothing here is a measurement.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Which build of the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Build {
    /// As users build it.
    Plain,
    /// With the feature `failpoints`.
    FailPoints,
}

impl Build {
    /// Path of the program, built on first use.
    ///
    /// # Panics
    /// If it cannot be built.
    #[must_use]
    pub fn path(self) -> &'static Path {
        static PLAIN: OnceLock<PathBuf> = OnceLock::new();
        static FAIL_POINTS: OnceLock<PathBuf> = OnceLock::new();
        match self {
            Self::Plain => PLAIN.get_or_init(|| build("plain", &[])),
            Self::FailPoints => {
                FAIL_POINTS.get_or_init(|| build("failpoints", &["--features", "failpoints"]))
            }
        }
    }
}

/// Builds into the workspace's own target folder, which shares all dependencies, and keeps a copy
/// of each variant: cargo gives both the same name.
fn build(variant: &str, features: &[&str]) -> PathBuf {
    let own = std::env::current_exe().expect("the test's own path");
    // <target>/<profile>/deps/<test>
    let profile = own.ancestors().nth(2).expect("a test lies in deps");
    let shelf = profile.join("programs-under-test");
    fs::create_dir_all(&shelf).expect("a folder in the target folder");
    // Other test programs may do the same at the same time.
    let lock = File::create(shelf.join("lock")).expect("a lock file");
    flock(&lock, FlockOperation::LockExclusive).expect("the lock");

    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args([
            "build",
            "--package",
            "intendant-cli",
            "--message-format=json",
        ])
        .args(["--bin", "intendant"])
        .args(features)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::piped());
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let built = cargo.output().expect("cargo");
    let messages = String::from_utf8_lossy(&built.stdout);
    let program = messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == "intendant")
        .find_map(|message| message["executable"].as_str().map(PathBuf::from));
    let Some(program) = program.filter(|_| built.status.success()) else {
        panic!(
            "the program does not build:\n{}",
            String::from_utf8_lossy(&built.stderr)
        );
    };
    let copy = shelf.join(format!("intendant-{variant}"));
    let fresh = fs::read(&program).expect("the program just built");
    if !fs::read(&copy).is_ok_and(|old| old == fresh) {
        let new = shelf.join(format!(".{variant}"));
        fs::copy(&program, &new).expect("a copy of the program");
        fs::rename(&new, &copy).expect("the copy under its name");
    }
    copy
}

/// One way to start the program.
#[derive(Debug)]
pub struct Program<'s> {
    scene: &'s Scene,
    build: Build,
    wrapper: Vec<OsString>,
    arguments: Vec<OsString>,
    environment: Vec<(OsString, OsString)>,
}

impl<'s> Program<'s> {
    /// The program on the scene's data folder.
    #[must_use]
    pub fn new(scene: &'s Scene) -> Self {
        Self {
            scene,
            build: Build::Plain,
            wrapper: Vec::new(),
            arguments: Vec::new(),
            environment: Vec::new(),
        }
    }

    /// Another build of it.
    #[must_use]
    pub fn build(mut self, build: Build) -> Self {
        self.build = build;
        self
    }

    /// With the fail points of this text armed, such as `disk::group_sync::before=return(eio)`.
    #[must_use]
    pub fn fail_points(mut self, armed: &str) -> Self {
        self.build = Build::FailPoints;
        self.env("FAILPOINTS", armed)
    }

    /// Started by another command, whose words these are; more words at a further call.
    #[must_use]
    pub fn under<A: AsRef<OsStr>>(mut self, words: impl IntoIterator<Item = A>) -> Self {
        let words = words.into_iter().map(|word| word.as_ref().to_owned());
        self.wrapper.extend(words);
        self
    }

    /// One more argument.
    #[must_use]
    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.arguments.push(argument.as_ref().to_owned());
        self
    }

    /// More arguments.
    #[must_use]
    pub fn args<A: AsRef<OsStr>>(self, arguments: impl IntoIterator<Item = A>) -> Self {
        arguments.into_iter().fold(self, Self::arg)
    }

    /// One more environment variable.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.environment
            .push((name.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// Starts it, with `--data` and `--json` unless `--data` was given.
    ///
    /// # Panics
    /// If it cannot be started.
    #[must_use]
    pub fn start(self) -> Running {
        let number = self.scene.next_output();
        let stdout = self.scene.path(&format!("output/{number:04}.out"));
        let stderr = self.scene.path(&format!("output/{number:04}.err"));
        let mut words = self.wrapper.iter().map(OsString::as_os_str);
        let mut command = match words.next() {
            Some(first) => {
                let mut command = Command::new(first);
                command.args(words).arg(self.build.path());
                command
            }
            None => Command::new(self.build.path()),
        };
        command.args(&self.arguments).arg("--json");
        if !self.arguments.iter().any(|argument| argument == "--data") {
            command.arg("--data").arg(self.scene.data());
        }
        for (name, folder) in [
            ("HOME", "home"),
            ("XDG_STATE_HOME", "state"),
            ("XDG_CONFIG_HOME", "config"),
            ("XDG_RUNTIME_DIR", "runtime"),
        ] {
            command.env(name, self.scene.path(folder));
        }
        let child = command
            .env_remove("FAILPOINTS")
            .env_remove("PAYOUTS_LEDGER")
            .envs(self.environment)
            .current_dir(self.scene.path("home"))
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(File::create(&stdout).expect("a file for the output"))
            .stderr(File::create(&stderr).expect("a file for the errors"))
            .spawn()
            .expect("the program under test");
        let words: Vec<_> = self.arguments.iter().map(|a| a.to_string_lossy()).collect();
        Running {
            what: format!("`intendant {}` (output {number})", words.join(" ")),
            child,
            stdout,
            stderr,
            reaped: None,
        }
    }

    /// Starts it and waits for its end.
    ///
    /// # Panics
    /// If it does not end by the deadline.
    #[must_use]
    pub fn run(self) -> Ended {
        self.start().wait()
    }
}

/// A process of the program. Dropped before its end, it is killed with all of its group.
#[derive(Debug)]
pub struct Running {
    what: String,
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
    reaped: Option<ExitStatus>,
}

impl Running {
    /// Its process id.
    ///
    /// # Panics
    /// Never: a child's process id is a positive number.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Sends a signal to it alone.
    ///
    /// # Panics
    /// If that is not possible.
    pub fn signal(&mut self, signal: Signal) {
        if !self.has_ended() {
            kill_process(self.pid(), signal).expect("a signal to an own child");
        }
    }

    /// Sends a signal to its process group, as a terminal does.
    ///
    /// # Panics
    /// If that is not possible.
    pub fn signal_group(&mut self, signal: Signal) {
        if !self.has_ended() {
            kill_process_group(self.pid(), signal).expect("a signal to an own group");
        }
    }

    /// Whether it has ended.
    ///
    /// # Panics
    /// If the system does not say.
    pub fn has_ended(&mut self) -> bool {
        if self.reaped.is_none() {
            self.reaped = self.child.try_wait().expect("the state of an own child");
        }
        self.reaped.is_some()
    }

    /// What it has written to standard error so far.
    #[must_use]
    pub fn said(&self) -> String {
        text(&self.stderr)
    }

    /// Kills it with SIGKILL. Its tools are left to their guard.
    #[must_use]
    pub fn kill(mut self) -> Ended {
        self.signal(Signal::KILL);
        self.wait()
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it does not end by the deadline.
    #[must_use]
    pub fn wait(mut self) -> Ended {
        let begun = Instant::now();
        while !self.has_ended() {
            if begun.elapsed() > DEADLINE {
                let (out, err) = (text(&self.stdout), text(&self.stderr));
                panic!("{} does not end; it said:\n{out}\n{err}", self.what);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ended {
            what: self.what.clone(),
            status: self.reaped.expect("it has ended"),
            stdout: text(&self.stdout),
            stderr: text(&self.stderr),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.has_ended() {
            let _ = kill_process_group(self.pid(), Signal::KILL);
            drop(self.child.wait());
        }
    }
}

fn text(path: &Path) -> String {
    fs::read(path).map_or_else(
        |error: io::Error| error.to_string(),
        |bytes| String::from_utf8_lossy(&bytes).into_owned(),
    )
}

/// How a process of the program ended.
#[derive(Clone, Debug)]
pub struct Ended {
    what: String,
    status: ExitStatus,
    /// Its standard output.
    pub stdout: String,
    /// Its standard error.
    pub stderr: String,
}

impl Ended {
    /// Its exit code, unless a signal ended it.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it, if one did.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Itself, if it ended with this exit code.
    ///
    /// # Panics
    /// If it did not.
    #[must_use]
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(
            self.code(),
            Some(code),
            "{} ended with {}\n{}\n{}",
            self.what,
            self.status,
            self.stdout,
            self.stderr
        );
        self
    }

    /// The one JSON value on its standard output.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!(
                "{} printed no JSON value: {error}\n{}\n{}",
                self.what, self.stdout, self.stderr
            )
        })
    }
}

/// Waits until something is true.
///
/// # Panics
/// If it is not by the deadline.
#[track_caller]
pub fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < DEADLINE, "never came true: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
