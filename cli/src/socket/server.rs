//! The answering side, inside `intendant run`.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use intendant::action::id::IntentId;
use intendant::engine::Engine;
use intendant::operator::command::{Refusal, Request};
use intendant::operator::{history, view};
use intendant_journal::Journal;
use intendant_journal::face::{IntentLog, RunFilter};
use intendant_journal::format::entry::{Body, Sequence};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use super::path::{runtime_folder, socket_path};
use super::protocol::{Answer, Ask, LINE_BYTES_MAX};
use crate::checkpoint;
use crate::who;

/// How long an answer that is being made may still take when the engine ends.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// How long `reconcile` waits for the answer to come in.
const ANSWER_MAX: Duration = Duration::from_secs(120);

/// Who is asked.
#[derive(Clone)]
struct Asked {
    engine: Engine,
    journal: Arc<Journal>,
}

/// The socket of a live engine. Only the holder of the journal's lock makes one.
pub(crate) struct Server {
    path: PathBuf,
    accepting: JoinHandle<()>,
    busy: Arc<watch::Sender<usize>>,
    journal: Arc<Journal>,
}

impl Server {
    /// Listens, and says where in `LOCK`.
    pub(crate) fn start(
        engine: Engine,
        journal: Arc<Journal>,
        data: &Path,
    ) -> Result<Self, String> {
        let runtime = runtime_folder();
        let path = socket_path(data, journal.id(), runtime.as_deref()).ok_or_else(|| {
            "the folder's path is too long for a socket, and XDG_RUNTIME_DIR is not set".to_owned()
        })?;
        let listener = listen(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        journal
            .set_socket(Some(&path))
            .map_err(|error| error.to_string())?;
        let busy = Arc::new(watch::Sender::new(0));
        let asked = Asked {
            engine,
            journal: journal.clone(),
        };
        let accepting = tokio::spawn(accept(listener, asked, busy.clone()));
        Ok(Self {
            path,
            accepting,
            busy,
            journal,
        })
    }

    /// Answers what was asked, then takes the socket away.
    pub(crate) async fn stop(self) {
        // Taken out of LOCK first, so that nobody comes any more.
        if let Err(error) = self.journal.set_socket(None) {
            crate::print::note(format!("warning: {error}"));
        }
        let _ = std::fs::remove_file(&self.path);
        let mut busy = self.busy.subscribe();
        let _ = tokio::time::timeout(LAST_ANSWERS, busy.wait_for(|busy| *busy == 0)).await;
        self.accepting.abort();
        // Connections hold the engine; they are gone once the task is.
        let _ = self.accepting.await;
    }
}

/// Binds under another name, takes the rights of others away, and only then shows it.
fn listen(path: &Path) -> std::io::Result<UnixListener> {
    let hidden = path.with_file_name(format!(".s{}", std::process::id()));
    let _ = std::fs::remove_file(&hidden);
    let listener = UnixListener::bind(&hidden)?;
    std::fs::set_permissions(&hidden, std::fs::Permissions::from_mode(0o600))?;
    // Takes the place of a stale one: whoever left it does not hold the lock any more.
    std::fs::rename(&hidden, path)?;
    Ok(listener)
}

async fn accept(listener: UnixListener, asked: Asked, busy: Arc<watch::Sender<usize>>) {
    let mut connections = JoinSet::new();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                connections.spawn(serve(stream, asked.clone(), busy.clone()));
            }
            // Out of descriptors, or the peer has gone: neither is a reason to stop listening.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(stream: UnixStream, asked: Asked, busy: Arc<watch::Sender<usize>>) {
    let Ok(peer) = stream.peer_cred() else {
        return;
    };
    if peer.uid() != who::me() && peer.uid() != 0 {
        return;
    }
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    loop {
        let mut line = Vec::new();
        let whole = (&mut read)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)
            .await;
        if whole.is_err() || line.last() != Some(&b'\n') {
            return;
        }
        busy.send_modify(|busy| *busy += 1);
        let _done = Busy(&busy);
        let answer = match serde_json::from_slice(&line) {
            Ok(ask) => answer(&asked, ask, peer.uid()).await,
            Err(error) => Err(refusal(
                "bad_request",
                error.to_string(),
                "use a program of the same version",
            )),
        };
        let answer = match answer {
            Ok(value) => Answer::Ok(value),
            Err(refusal) => Answer::Refused(refusal),
        };
        let mut line = serde_json::to_vec(&answer).expect("answers are made of text and numbers");
        line.push(b'\n');
        if write.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// Counts an answer in the making, however it ends.
struct Busy<'a>(&'a watch::Sender<usize>);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|busy| *busy -= 1);
    }
}

async fn answer(asked: &Asked, ask: Ask, uid: u32) -> Result<Value, Refusal> {
    let engine = &asked.engine;
    match ask {
        Ask::Health => value(&json!({
            "pid": std::process::id(),
            "journal": engine.log().id().to_string(),
            "epoch": engine.log().epoch(),
            "durable": engine.log().durable(),
            "disabled": engine.log().disabled(),
            "driving": engine.driving(),
            "checkpoint_trouble": asked.journal.checkpoint_trouble(),
        })),
        Ask::Pending => {
            let mut pending = engine.pending().await.map_err(unreadable)?;
            view::add_keys(&mut pending.items, engine.log().id());
            value(&pending)
        }
        Ask::Runs => value(&engine.runs().await.map_err(unreadable)?),
        Ask::Show { run } => value(&engine.show(&run).await.map_err(unreadable)?),
        Ask::Change {
            reason,
            request,
            change,
        } => {
            let request = Request {
                who: who::who(uid),
                reason,
                request,
                change,
            };
            value(&engine.change(request).await?)
        }
        Ask::Reconcile { intent } => value(&reconcile(engine, &intent).await?),
        Ask::Checkpoint => {
            let journal = asked.journal.clone();
            let made = tokio::task::spawn_blocking(move || checkpoint::make(&journal)).await;
            let made = made.map_err(|error| refusal("checkpoint", error.to_string(), ""))?;
            value(&made.map_err(|failure| Refusal {
                code: failure.code,
                message: failure.message,
                remedy: failure.remedy,
            })?)
        }
        Ask::Tail { run, after } => tail(engine, run.as_deref(), after),
    }
}

/// Asks, and waits until the answer is recorded: what is told has happened.
async fn reconcile(engine: &Engine, intent: &str) -> Result<String, Refusal> {
    let before = engine.log().durable();
    let asked = engine.reconcile(intent).await?;
    let Ok(id) = intent.parse::<IntentId>() else {
        return Ok(asked);
    };
    let until = tokio::time::Instant::now() + ANSWER_MAX;
    while tokio::time::Instant::now() < until {
        let history = engine.log().history(&id.run).map_err(unreadable)?;
        let answered = history.iter().rev().take_while(|at| at.sequence > before).find(
            |recorded| matches!(&recorded.entry.body, Body::Answered(entry) if entry.attempt == id.attempt),
        );
        if let Some(recorded) = answered {
            return Ok(format!(
                "the reconciler was asked about {}",
                history::history_line(recorded).detail
            ));
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(format!("{asked}; no answer is recorded yet"))
}

fn tail(engine: &Engine, run: Option<&str>, after: u64) -> Result<Value, Refusal> {
    let end = engine.log().durable();
    let mut lines = Vec::new();
    for row in engine.log().runs(RunFilter::All).map_err(unreadable)? {
        if row.last.0 <= after || run.is_some_and(|run| run != row.run) {
            continue;
        }
        let history = engine.log().history(&row.run).map_err(unreadable)?;
        let new = history
            .iter()
            .filter(|recorded| recorded.sequence > Sequence(after) && recorded.sequence <= end);
        lines.extend(new.map(history::history_line));
    }
    lines.sort_by_key(|line| line.sequence);
    value(&(lines, end))
}

fn value(of: &impl Serialize) -> Result<Value, Refusal> {
    serde_json::to_value(of)
        .map_err(|error| refusal("unreadable", error.to_string(), "report this"))
}

fn unreadable(error: impl std::fmt::Display) -> Refusal {
    refusal("unreadable", error.to_string(), "see `intendant verify`")
}

fn refusal(code: &str, message: String, remedy: &str) -> Refusal {
    Refusal {
        code: code.to_owned(),
        message,
        remedy: remedy.to_owned(),
    }
}
