//! A folder to run commands in, and ways to see what they do.

use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use intendant::tool::contract::Contract;
use intendant::tool::json::{AttemptContext, Reply};
use intendant_journal::format::entry::Key;
use intendant_reconcilers::command::{
    Argv, AttemptLock, CommandSpec, CommandTool, Execution, ExitCodes, Finished, GuardPlace,
};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use serde_json::{Value, json};

/// Far longer than anything here takes on a busy machine; reached only by a test that fails.
pub(crate) const LONG: Duration = Duration::from_secs(60);

pub(crate) const KEY: Key = Key([0x5a; 16]);

pub(crate) struct Place {
    pub(crate) folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A shell script as the tool, in this folder.
    pub(crate) fn spec(&self, script: &str) -> CommandSpec {
        self.spec_of(["sh", "-c", script])
    }

    pub(crate) fn spec_of<const N: usize>(&self, argv: [&str; N]) -> CommandSpec {
        CommandSpec {
            run: Argv::new(argv).unwrap(),
            reconcile: None,
            cwd: self.folder.path().to_owned(),
            exit_codes: ExitCodes::new([10], [75]).unwrap(),
            place: GuardPlace {
                program: PathBuf::from(env!("CARGO_BIN_EXE_intendant-guard")),
                attempts: self.path("attempts"),
            },
        }
    }

    /// The lock file of an attempt.
    pub(crate) fn lock(&self, attempt: u32) -> PathBuf {
        AttemptLock::path(&self.path("attempts"), &KEY, attempt)
    }

    /// An executable script file.
    pub(crate) fn script(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Waits until a file stands there with a whole line, and gives its text, trimmed.
    pub(crate) fn line(&self, name: &str) -> String {
        let path = self.path(name);
        until(&format!("a line in {name}"), || {
            std::fs::read_to_string(&path)
                .ok()
                .filter(|text| text.ends_with('\n'))
                .map(|text| text.trim().to_owned())
        })
    }

    /// A process id that a script wrote into a file.
    pub(crate) fn pid(&self, name: &str) -> i32 {
        self.line(name).parse().unwrap()
    }
}

/// Sees whether a file is opened, as it must be to be run.
///
/// "Was not run" cannot be told from "was killed before it could act" by what a command does.
pub(crate) struct Opened {
    inotify: OwnedFd,
}

impl Opened {
    pub(crate) fn watch(path: &Path) -> Self {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&inotify, path, WatchFlags::OPEN).unwrap();
        Self { inotify }
    }

    /// Whether it was opened since the last look.
    pub(crate) fn seen(&self) -> bool {
        match rustix::io::read(&self.inotify, &mut [0; 4096]) {
            Ok(bytes) => bytes > 0,
            Err(rustix::io::Errno::AGAIN) => false,
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) fn attempt(attempt: u32) -> AttemptContext {
    AttemptContext {
        run: "payouts".into(),
        action: "payouts/pay[k-1]".into(),
        attempt,
        epoch: 4,
        key: KEY,
        deadline: SystemTime::now() + LONG,
    }
}

pub(crate) fn contract() -> Contract {
    Contract {
        timeout: LONG,
        ..Contract::new("pay")
    }
}

/// Runs the command of a spec for an attempt.
pub(crate) async fn run(
    spec: &CommandSpec,
    cx: &AttemptContext,
    arguments: &Value,
    timeout: Duration,
) -> Finished {
    Execution {
        argv: &spec.run,
        cwd: &spec.cwd,
        place: &spec.place,
        cx,
        arguments,
        timeout,
    }
    .run()
    .await
}

/// Runs it as the first attempt, without arguments, and gives what the engine would see.
pub(crate) async fn call(spec: &CommandSpec) -> Reply {
    call_with(spec, &json!({})).await
}

pub(crate) async fn call_with(spec: &CommandSpec, arguments: &Value) -> Reply {
    let finished = run(spec, &attempt(1), arguments, LONG).await;
    CommandTool::new(contract(), spec).reply(finished)
}

/// Looks until there is something to see. Fails the test after [`LONG`].
pub(crate) fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(start.elapsed() < LONG, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process is there and not merely waiting to be reaped.
pub(crate) fn lives(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        let state = stat.rsplit_once(')').map(|(_, rest)| rest.trim_start());
        !state.is_some_and(|state| state.starts_with(['Z', 'X']))
    })
}

/// Waits for the attempt to be gone, within [`LONG`].
pub(crate) async fn gone(lock: &Path) {
    tokio::time::timeout(LONG, AttemptLock::wait_gone(lock))
        .await
        .expect("the attempt is never gone");
}

/// Waits, without holding up the runtime, until something is written in a file.
pub(crate) async fn file(path: PathBuf) {
    tokio::task::spawn_blocking(move || {
        until("a file", || {
            std::fs::metadata(&path).ok().filter(|file| file.len() > 0)
        });
    })
    .await
    .unwrap();
}
