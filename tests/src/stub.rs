//! A target on the network that stands for an external tool: it counts and stores each request and
//! can hold one back, delay or drop its reply, refuse a known key with another body, be asked about
//! a key, and void a slot.
//!
//! One connection carries one request and one reply, each a JSON value on a line; `stub-client`
//! speaks it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

/// How the target tells two requests for one effect apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arbitration {
    /// Not at all: each request is an effect.
    None,
    /// By key: a known one gets the first answer again.
    Key,
    /// By slots of key and attempt, which can be voided.
    Slots,
}

/// What the target does with a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reply {
    /// Sends it.
    Send,
    /// Sends it so much later.
    After(Duration),
    /// Closes the connection without it.
    Drop,
    /// Leaves the connection open without it.
    Never,
}

/// What the target says when it is asked about an attempt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// It voids the slot, or says what it found there.
    Claim,
    /// It looks: executed, or not seen.
    Look,
    /// It looks, and takes not seen for never: what a careless script does.
    Careless,
}

/// How the target behaves towards requests that arrive from now on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Manner {
    /// How requests for one effect are told apart.
    pub arbitration: Arbitration,
    /// What becomes of replies to calls.
    pub reply: Reply,
    /// What it says to questions.
    pub question: Question,
    /// Calls are held back, unexecuted, until [`Stub::let_through`].
    pub hold: bool,
}

impl Manner {
    /// Executes each call once per slot, answers at once, voids what it is asked about.
    pub const GOOD: Self = Self {
        arbitration: Arbitration::Slots,
        reply: Reply::Send,
        question: Question::Claim,
        hold: false,
    };
}

/// A request as it arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Request {
    /// `call` or `ask`.
    pub op: String,
    /// The idempotency key.
    pub key: String,
    /// The attempt.
    pub attempt: u32,
    /// The arguments, byte for byte. Empty for questions.
    pub body: String,
    /// When it arrived.
    pub at: SystemTime,
}

/// An effect performed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Effect {
    /// The key it was asked for under.
    pub key: String,
    /// The attempt that asked.
    pub attempt: u32,
    /// The arguments.
    pub body: String,
    /// What it gave back.
    pub output: Value,
}

#[derive(Clone, Debug)]
enum Slot {
    Run(Value),
    Void,
}

#[derive(Debug)]
struct State {
    manner: Manner,
    requests: Vec<Request>,
    effects: Vec<Effect>,
    slots: BTreeMap<String, BTreeMap<u32, Slot>>,
    refused: usize,
    /// Calls being held back.
    held: usize,
    /// Raised to let through all that were held back before.
    gate: u64,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The target. It listens for the rest of the test process's life.
#[derive(Clone, Debug)]
pub struct Stub {
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl Stub {
    /// A target on a free port of the loopback.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn new(manner: Manner) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                manner,
                requests: Vec::new(),
                effects: Vec::new(),
                slots: BTreeMap::new(),
                refused: 0,
                held: 0,
                gate: 0,
            }),
            changed: Condvar::new(),
        });
        let of_listener = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&of_listener);
                std::thread::spawn(move || serve(&shared, stream));
            }
        });
        Self { address, shared }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes how it behaves towards later requests.
    pub fn behave(&self, change: impl FnOnce(&mut Manner)) {
        change(&mut self.shared.state().manner);
    }

    /// All requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.clone()
    }

    /// All requests of a kind so far.
    #[must_use]
    pub fn requests_of(&self, op: &str) -> Vec<Request> {
        let mut requests = self.requests();
        requests.retain(|request| request.op == op);
        requests
    }

    /// All effects so far.
    #[must_use]
    pub fn effects(&self) -> Vec<Effect> {
        self.shared.state().effects.clone()
    }

    /// Number of calls refused because their key was known with another body.
    #[must_use]
    pub fn refused(&self) -> usize {
        self.shared.state().refused
    }

    /// Number of calls held back now.
    #[must_use]
    pub fn held(&self) -> usize {
        self.shared.state().held
    }

    /// Executes all calls held back, and returns when they have been.
    pub fn let_through(&self) {
        let mut state = self.shared.state();
        state.gate += 1;
        self.shared.changed.notify_all();
        while state.held > 0 {
            state = self
                .shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// One connection. A client that is gone changes nothing about what is executed.
fn serve(shared: &Shared, stream: TcpStream) {
    let mut line = String::new();
    let read = BufReader::new(&stream).read_line(&mut line);
    let Some(message) = read
        .ok()
        .and_then(|_| serde_json::from_str::<Value>(&line).ok())
    else {
        return;
    };
    let text = |name: &str| message[name].as_str().unwrap_or_default().to_owned();
    let attempt = message["attempt"]
        .as_u64()
        .and_then(|n| u32::try_from(n).ok());
    let request = Request {
        op: text("op"),
        key: text("key"),
        attempt: attempt.unwrap_or_default(),
        body: text("body"),
        at: SystemTime::now(),
    };
    let mut state = shared.state();
    state.requests.push(request.clone());
    let manner = state.manner;
    if request.op == "ask" {
        let answer = state.answer(&request, manner.question);
        drop(state);
        send(&stream, &answer);
        return;
    }
    if manner.hold {
        let gate = state.gate;
        state.held += 1;
        while state.gate == gate {
            state = shared
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
    let reply = state.execute(&request, manner.arbitration);
    if manner.hold {
        state.held -= 1;
        shared.changed.notify_all();
    }
    drop(state);
    match manner.reply {
        Reply::Send => send(&stream, &reply),
        Reply::After(pause) => {
            std::thread::sleep(pause);
            send(&stream, &reply);
        }
        Reply::Drop => {}
        // Kept open until the client goes away.
        Reply::Never => drop(BufReader::new(&stream).read_line(&mut String::new())),
    }
}

fn send(mut stream: &TcpStream, message: &Value) {
    // A client that is gone does not hear it.
    drop(stream.write_all(format!("{message}\n").as_bytes()));
}

impl State {
    fn execute(&mut self, request: &Request, arbitration: Arbitration) -> Value {
        let (key, attempt) = (&request.key, request.attempt);
        let known = self.effects.iter().find(|effect| effect.key == *key);
        if known.is_some_and(|effect| effect.body != request.body) {
            self.refused += 1;
            return json!({"refused": "the key is known with another body"});
        }
        match arbitration {
            Arbitration::None => {}
            Arbitration::Key => {
                if let Some(effect) = known {
                    return json!({"output": effect.output});
                }
            }
            Arbitration::Slots => {
                let slots = self.slots.entry(key.clone()).or_default();
                for lower in 1..attempt {
                    if let Slot::Run(output) = slots.entry(lower).or_insert(Slot::Void) {
                        return json!({"output": output});
                    }
                }
                match slots.get(&attempt) {
                    None => {}
                    Some(Slot::Run(output)) => return json!({"output": output}),
                    Some(Slot::Void) => return json!({"voided": attempt}),
                }
            }
        }
        let output = json!({"id": format!("effect-{}", self.effects.len() + 1)});
        let slots = self.slots.entry(key.clone()).or_default();
        slots.insert(attempt, Slot::Run(output.clone()));
        self.effects.push(Effect {
            key: key.clone(),
            attempt,
            body: request.body.clone(),
            output: output.clone(),
        });
        json!({"output": output})
    }

    fn answer(&mut self, request: &Request, question: Question) -> Value {
        let executed = |output: &Value| json!({"executed": {"output": output, "evidence": output}});
        let found = self.effects.iter().find(|effect| effect.key == request.key);
        match (question, found) {
            (_, Some(effect)) => executed(&effect.output),
            (Question::Look, None) => json!({"not_seen": {"as_of": "2026-01-01T00:00:00Z"}}),
            (Question::Careless, None) => json!({"never_will": {"evidence": {}}}),
            (Question::Claim, None) => {
                let slots = self.slots.entry(request.key.clone()).or_default();
                for slot in 1..=request.attempt {
                    slots.entry(slot).or_insert(Slot::Void);
                }
                json!({"never_will": {"evidence": {"slot": request.attempt}}})
            }
        }
    }
}
