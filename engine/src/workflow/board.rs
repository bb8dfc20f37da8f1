//! The board between a workflow's future and its driver: what the workflow issues goes up on it,
//! what is delivered comes down.
//!
//! Invariants:
//! - Everything an operation sees depends only on what was issued and delivered before, in that
//!   order, so that replay sees the same.
//! - A place is used once in a pass.
//! - Nothing here writes, calls or waits.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;

use intendant_journal::format::canonical;
use intendant_journal::format::entry::{Digest, ScopePath};
use serde_json::Value;

use super::error::CallError;
use crate::clock::Clock;
use crate::kernel::{Frozen, Kernel};
use crate::run::trace::Command;

/// The end of a call as the workflow gets it: canonical JSON text, or why there is none.
pub(crate) type CallResult = Result<Arc<str>, CallError>;

/// Something issued by the workflow and not yet seen by the driver.
pub(crate) struct Issued {
    pub(crate) command: Command,
    pub(crate) what: IssuedWhat,
}

/// What the driver needs to carry a command out.
pub(crate) enum IssuedWhat {
    /// A call at a place that is recorded already: it needs no proposal.
    KnownCall,
    /// A new call.
    Call(Frozen),
    /// A timer, with its due time.
    Timer { due_wall_ms: i64 },
    /// A wait for a signal.
    Signal,
    /// A value.
    Note { value: String },
}

/// An action known from an earlier pass of the run.
pub(crate) struct Known {
    pub(crate) tool: String,
    pub(crate) digest: Digest,
    /// Its end, if it had settled when this pass began.
    pub(crate) result: Option<CallResult>,
}

#[derive(Default)]
pub(crate) struct Inner {
    pub(crate) issued: VecDeque<Issued>,
    results: HashMap<ScopePath, CallResult>,
    wakers: HashMap<ScopePath, Waker>,
    /// Places whose operation waits for a delivery.
    waiting: BTreeSet<ScopePath>,
    /// Those of them that only a person can move.
    pub(crate) resting: HashSet<ScopePath>,
    used: HashSet<ScopePath>,
    pub(crate) known: HashMap<ScopePath, Known>,
    /// Places of calls recorded in this pass.
    pub(crate) recorded: HashSet<ScopePath>,
    pub(crate) notes: HashMap<ScopePath, String>,
    /// Signals that arrived and were not taken, by name.
    signals: HashMap<String, VecDeque<Arc<str>>>,
    /// Waits for signals in the order they were issued.
    waits: Vec<(String, ScopePath)>,
    timers: HashSet<ScopePath>,
    cancelled: Option<String>,
}

/// The board of one run.
pub(crate) struct Board {
    inner: Mutex<Inner>,
    kernel: Arc<Kernel>,
    clock: Arc<dyn Clock>,
}

/// What a call makes of an action that an earlier pass began at its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Earlier {
    /// It must have the same tool and arguments.
    MustBeSame,
    /// It counts as it was recorded.
    Counts,
}

/// What beginning an operation comes to.
pub(crate) enum Begun {
    /// Its end is known at once.
    Ready(CallResult),
    /// It waits for a delivery at its place.
    Waiting,
}

impl Board {
    pub(crate) fn new(kernel: Arc<Kernel>, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner::default()),
            kernel,
            clock,
        })
    }

    /// The board's state. A workflow that panicked while it held the lock changed nothing by
    /// halves: every change here is one insertion.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call.
    pub(crate) fn begin_call(
        &self,
        path: &ScopePath,
        tool: &str,
        arguments: &Value,
        earlier: Earlier,
    ) -> Begun {
        let mut inner = self.lock();
        if let Err(error) = inner.begin(path) {
            return Begun::Ready(Err(error));
        }
        let recorded = inner.recorded.contains(path);
        let known = inner.known.get(path);
        let (digest, what) = if recorded || known.is_some() {
            // What is recorded is not validated anew: the declaration may have changed since.
            match canonical::to_text(arguments) {
                Ok(text) => (
                    crate::kernel::action_digest(tool, &text),
                    IssuedWhat::KnownCall,
                ),
                Err(why) => return Begun::Ready(Err(CallError::Refused(why.to_string()))),
            }
        } else {
            match self.kernel.freeze(tool, arguments) {
                Ok(frozen) => (frozen.digest(), IssuedWhat::Call(frozen)),
                Err(refused) => return Begun::Ready(Err(CallError::Refused(refused.0))),
            }
        };
        if let Some(known) = known {
            let same = known.tool == tool && known.digest == digest;
            if !same && earlier == Earlier::MustBeSame {
                let why = format!(
                    "{path} was begun before with other arguments or another tool ({} then, {tool} now); a key names one action for ever, give the new one another key",
                    known.tool
                );
                return Begun::Ready(Err(CallError::Conflict(why)));
            }
            if let Some(result) = &known.result {
                return Begun::Ready(result.clone());
            }
        } else {
            let command = Command::Call {
                path: path.clone(),
                tool: tool.to_owned(),
                digest,
            };
            inner.issued.push_back(Issued { command, what });
        }
        inner.waiting.insert(path.clone());
        Begun::Waiting
    }

    /// Begins a timer.
    pub(crate) fn begin_timer(&self, path: &ScopePath, pause: Duration) -> Begun {
        let mut inner = self.lock();
        if let Err(error) = inner.begin(path) {
            return Begun::Ready(Err(error));
        }
        let pause_ms = i64::try_from(pause.as_millis()).unwrap_or(i64::MAX);
        let due_wall_ms = self.clock.now().wall_ms.saturating_add(pause_ms);
        let command = Command::Timer { path: path.clone() };
        inner.issued.push_back(Issued {
            command,
            what: IssuedWhat::Timer { due_wall_ms },
        });
        inner.timers.insert(path.clone());
        inner.waiting.insert(path.clone());
        Begun::Waiting
    }

    /// Begins a wait for a signal.
    pub(crate) fn begin_signal(&self, path: &ScopePath, name: &str) -> Begun {
        let mut inner = self.lock();
        if let Err(error) = inner.begin(path) {
            return Begun::Ready(Err(error));
        }
        let command = Command::Signal {
            path: path.clone(),
            name: name.to_owned(),
        };
        inner.issued.push_back(Issued {
            command,
            what: IssuedWhat::Signal,
        });
        if let Some(payload) = inner.signals.get_mut(name).and_then(VecDeque::pop_front) {
            return Begun::Ready(Ok(payload));
        }
        inner.waits.push((name.to_owned(), path.clone()));
        inner.waiting.insert(path.clone());
        Begun::Waiting
    }

    /// A value that is fixed at first sight.
    pub(crate) fn note(
        &self,
        path: &ScopePath,
        what: &str,
        fresh: impl FnOnce(&dyn Clock) -> String,
    ) -> String {
        let mut inner = self.lock();
        let value = match inner.notes.get(path) {
            Some(value) => value.clone(),
            None => fresh(self.clock.as_ref()),
        };
        let command = Command::Note {
            path: path.clone(),
            what: what.to_owned(),
        };
        inner.issued.push_back(Issued {
            command,
            what: IssuedWhat::Note {
                value: value.clone(),
            },
        });
        value
    }

    /// Takes the delivery at a place, or leaves a waker for it.
    pub(crate) fn take(&self, path: &ScopePath, waker: &Waker) -> Option<CallResult> {
        let mut inner = self.lock();
        let result = inner.results.remove(path);
        if result.is_none() {
            inner.wakers.insert(path.clone(), waker.clone());
        }
        result
    }

    /// Delivers at a place.
    pub(crate) fn deliver(&self, path: &ScopePath, result: CallResult) {
        self.lock().deliver(path, result);
    }

    /// The call at a place rests from here on, or no longer does.
    pub(crate) fn rest(&self, path: &ScopePath, rests: bool) {
        let mut inner = self.lock();
        if rests {
            inner.resting.insert(path.clone());
        } else {
            inner.resting.remove(path);
        }
        // The branch that waits there is looked at anew.
        if let Some(waker) = inner.wakers.get(path) {
            waker.wake_by_ref();
        }
    }

    /// True if something waits at or under a place, and all of it rests.
    pub(crate) fn rests(&self, path: &str) -> bool {
        let inner = self.lock();
        let under = format!("{path}/");
        let own = ScopePath(path.to_owned());
        let below = inner
            .waiting
            .range(ScopePath(under.clone())..)
            .take_while(|waiting| waiting.0.starts_with(&under));
        let mut waiting = inner.waiting.get(&own).into_iter().chain(below).peekable();
        waiting.peek().is_some() && waiting.all(|path| inner.resting.contains(path))
    }

    /// A signal arrived: the earliest wait for its name gets it, or it is kept for the next one.
    pub(crate) fn signal_arrived(&self, name: &str, payload: Arc<str>) {
        let mut inner = self.lock();
        match inner.waits.iter().position(|(waited, _)| waited == name) {
            Some(at) => {
                let (_, path) = inner.waits.remove(at);
                inner.deliver(&path, Ok(payload));
            }
            None => inner
                .signals
                .entry(name.to_owned())
                .or_default()
                .push_back(payload),
        }
    }

    /// Somebody asked the run to end: timers and waits end now, nothing new begins.
    pub(crate) fn cancel(&self, why: &str) {
        let mut inner = self.lock();
        inner.cancelled = Some(why.to_owned());
        let mut ended: Vec<_> = std::mem::take(&mut inner.waits)
            .into_iter()
            .map(|(_, path)| path)
            .collect();
        ended.extend(std::mem::take(&mut inner.timers));
        ended.sort();
        for path in ended {
            if inner.waiting.contains(&path) {
                inner.deliver(&path, Err(CallError::Cancelled(why.to_owned())));
            }
        }
    }

    /// True if some durable operation waits: a pending future without one waits for something that
    /// is not durable.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.lock().waiting.is_empty()
    }
}

impl Inner {
    fn begin(&mut self, path: &ScopePath) -> Result<(), CallError> {
        if !self.used.insert(path.clone()) {
            return Err(CallError::Refused(format!(
                "the place {path} is used twice in this workflow; give each item its own key"
            )));
        }
        match &self.cancelled {
            Some(why) => Err(CallError::Cancelled(why.clone())),
            None => Ok(()),
        }
    }

    fn deliver(&mut self, path: &ScopePath, result: CallResult) {
        self.waiting.remove(path);
        self.resting.remove(path);
        self.timers.remove(path);
        self.results.insert(path.clone(), result);
        if let Some(waker) = self.wakers.remove(path) {
            waker.wake();
        }
    }

    /// Signals that had arrived before this pass and were not taken.
    pub(crate) fn keep_signal(&mut self, name: &str, payload: Arc<str>) {
        self.signals
            .entry(name.to_owned())
            .or_default()
            .push_back(payload);
    }
}
