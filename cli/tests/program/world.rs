//! A user's machine in a temporary folder: a job, its scripts, and the program.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Generous: the machine may be busy with other tests.
const PATIENCE: Duration = Duration::from_secs(90);

/// One tool over the rows of a CSV file. `TOOL` is replaced by further lines of its declaration.
pub(crate) const JOB: &str = r#"
[job]
name = "pay"
version = 1

[tool.pay]
input = { id = "string", cents = "integer" }
output = { receipt = "string" }
run = ["./pay.sh"]
TOOL

[[step]]
name = "pay"
tool = "pay"
for_each = "rows.csv"
key = "{{ row.id }}"
args = { id = "{{ row.id }}", cents = "{{ row.cents }}" }
concurrency = 2
"#;

/// Notes that it was called, waits for the file `go.ID` if there is one named `hold.ID`, answers.
pub(crate) const PAY: &str = r#"#!/bin/sh
read -r args
id=${args#*'"id":"'} id=${id%%'"'*}
echo "$INTENDANT_ATTEMPT $INTENDANT_IDEMPOTENCY_KEY" >> "called.$id"
while [ -e "hold.$id" ] && [ ! -e "go.$id" ]; do sleep 0.05; done
echo "$INTENDANT_IDEMPOTENCY_KEY" >> "paid.$id"
echo "{\"receipt\":\"r-$id\"}"
"#;

/// Answers by what `pay.sh` left: executed, or never will.
pub(crate) const ASK: &str = r#"#!/bin/sh
read -r args
id=${args#*'"id":"'} id=${id%%'"'*}
if [ -e "paid.$id" ]; then
    echo "{\"executed\":{\"output\":{\"receipt\":\"r-$id\"},\"evidence\":\"paid.$id\"}}"
else
    echo '{"never_will":{}}'
fi
"#;

pub(crate) const RECONCILABLE: &str =
    "recovery = \"reconcilable\"\nreconcile = [\"./ask.sh\"]\nclosure = \"abort_claim\"";
pub(crate) const OPAQUE: &str = "recovery = \"opaque\"";

pub(crate) struct World {
    folder: tempfile::TempDir,
}

/// How the program ended.
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// The one JSON object on standard output.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out)
            .unwrap_or_else(|error| panic!("{error} in {:?}, errors: {}", self.out, self.err))
    }

    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Self {
        assert_eq!(self.code, code, "out: {}\nerr: {}", self.out, self.err);
        self
    }
}

impl World {
    /// With the usual scripts, and these lines for the tool.
    pub(crate) fn new(tool: &str, rows: &[(&str, u32)]) -> Self {
        let world = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        for name in ["state", "runtime"] {
            std::fs::create_dir(world.path(name)).unwrap();
        }
        world.script("pay.sh", PAY);
        world.script("ask.sh", ASK);
        world.write("job.toml", &JOB.replace("TOOL", tool));
        world.rows(rows);
        world
    }

    pub(crate) fn rows(&self, rows: &[(&str, u32)]) {
        let mut text = "id,cents\n".to_owned();
        for (id, cents) in rows {
            text.push_str(&format!("{id},{cents}\n"));
        }
        self.write("rows.csv", &text);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn script(&self, name: &str, text: &str) {
        self.write(name, text);
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(self.path(name), mode).unwrap();
    }

    /// How often `pay.sh` was called for an item, and how often it paid.
    pub(crate) fn calls(&self, id: &str) -> (usize, usize) {
        let lines = |name: String| {
            std::fs::read_to_string(self.path(&name))
                .map(|text| text.lines().count())
                .unwrap_or(0)
        };
        (lines(format!("called.{id}")), lines(format!("paid.{id}")))
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.path("data")
    }

    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_intendant"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .env("INTENDANT_DATA", self.data())
            .env("XDG_STATE_HOME", self.path("state"))
            .env("XDG_CONFIG_HOME", self.path("config"))
            .env("XDG_RUNTIME_DIR", self.path("runtime"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Runs a command to its end.
    pub(crate) fn intendant(&self, args: &[&str]) -> Ran {
        ran(self.command(args).output().unwrap())
    }

    /// Runs a command with `--json`.
    pub(crate) fn json(&self, args: &[&str]) -> Ran {
        let mut args = args.to_vec();
        args.push("--json");
        self.intendant(&args)
    }

    /// `run job.toml --json`.
    pub(crate) fn run(&self) -> Ran {
        self.json(&["run", "job.toml", "--segment-bytes", "65536"])
    }

    /// Starts `run job.toml --json` and lets it run.
    pub(crate) fn start(&self) -> Running {
        let args = ["run", "job.toml", "--json", "--segment-bytes", "65536"];
        Running(Some(self.command(&args).spawn().unwrap()))
    }

    /// What is pending, by intent.
    pub(crate) fn pending(&self) -> Value {
        self.json(&["pending"]).ends(0).json()
    }

    /// The state of an intent in `pending`, empty if it is not there.
    pub(crate) fn state(&self, intent: &str) -> String {
        let ran = self.json(&["pending"]);
        if ran.code != 0 {
            return String::new();
        }
        let pending = ran.json();
        let items = pending["items"].as_array().unwrap();
        items
            .iter()
            .find(|item| item["intent"] == intent)
            .map_or(String::new(), |item| {
                item["state"].as_str().unwrap().to_owned()
            })
    }

    /// Hold an item in its tool until it is let go.
    pub(crate) fn hold(&self, id: &str) {
        self.write(&format!("hold.{id}"), "");
    }

    pub(crate) fn let_go(&self, id: &str) {
        self.write(&format!("go.{id}"), "");
    }

    /// Kills the engine while the tool runs for `a`, with all that `b` did recorded.
    pub(crate) fn cut_at_a(&self) {
        self.hold("a");
        let running = self.start();
        self.wait_called("a");
        wait("b has ended", || {
            let tail = self.json(&["tail", "pay"]);
            tail.out.contains("pay/b#1 succeeded")
        });
        running.kill();
    }

    #[track_caller]
    pub(crate) fn wait_called(&self, id: &str) {
        let called = self.path(&format!("called.{id}"));
        wait(&format!("{id} is called"), || called.exists());
    }
}

/// A program that runs. Killed when dropped, so that a failed test leaves nothing behind.
pub(crate) struct Running(Option<Child>);

impl Running {
    pub(crate) fn pid(&self) -> u32 {
        self.0.as_ref().unwrap().id()
    }

    pub(crate) fn ends(mut self) -> Ran {
        ran(self.0.take().unwrap().wait_with_output().unwrap())
    }

    /// Waits until it says this on standard error; what it says up to there is taken.
    pub(crate) fn wait_says(&mut self, words: &str) {
        let stderr = self.0.as_mut().unwrap().stderr.as_mut().unwrap();
        let mut said = Vec::new();
        let mut byte = [0];
        while !String::from_utf8_lossy(&said).contains(words) {
            let count = std::io::Read::read(stderr, &mut byte).unwrap();
            assert_eq!(
                count,
                1,
                "ended without it: {}",
                String::from_utf8_lossy(&said)
            );
            said.push(byte[0]);
        }
    }

    /// SIGKILL, and until it is gone.
    pub(crate) fn kill(mut self) {
        let mut child = self.0.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

pub(crate) fn ran(output: Output) -> Ran {
    Ran {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[track_caller]
pub(crate) fn wait(what: &str, mut until: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !until() {
        assert!(Instant::now() < deadline, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The first segment of a journal.
pub(crate) fn first_segment(data: &Path) -> PathBuf {
    let mut names: Vec<_> = std::fs::read_dir(data.join("journal"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    names.sort();
    names.remove(0)
}
