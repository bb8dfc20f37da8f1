//! What a workflow sees: the durable operations, each at a place named by structure.
//!
//! Operations take the scope by `&mut`, so two at once in one scope do not compile; parallel work
//! gets child scopes, named by key, so branches cannot change each other's identity.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use intendant_journal::format::entry::ScopePath;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::board::{Begun, Board, CallResult, Earlier};
use super::each::Each;
use super::error::CallError;
use crate::action::id::segment;
use crate::tool::typed::Tool;

/// The root scope of a run, handed to its workflow.
pub type Workflow = Scope;

/// A place in a run under which durable operations are named.
pub struct Scope {
    board: Arc<Board>,
    run: Arc<str>,
    path: String,
    next: u32,
    names: HashMap<String, u32>,
}

impl Scope {
    pub(crate) fn root(board: Arc<Board>, run: Arc<str>) -> Self {
        Self {
            board,
            run,
            path: String::new(),
            next: 0,
            names: HashMap::new(),
        }
    }

    /// The run's id.
    pub fn run_id(&self) -> &str {
        &self.run
    }

    /// Where this scope is, empty at the root.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Calls a tool, durably: once recorded, its outcome is the same for ever.
    ///
    /// # Errors
    /// [`CallError`] says what is known of the effect. An action in doubt is not an error: the call
    /// waits until it is settled, and branches that do not need it go on.
    pub async fn call<T: Tool>(&mut self, input: T::Input) -> Result<T::Output, CallError> {
        let arguments = serde_json::to_value(&input)
            .map_err(|why| CallError::Refused(format!("arguments of {}: {why}", T::NAME)))?;
        let path = self.place();
        let text = self
            .call_at(path, T::NAME, &arguments, Earlier::MustBeSame)
            .await?;
        decode(&text)
    }

    /// Calls a tool by name with JSON arguments.
    ///
    /// # Errors
    /// As [`Scope::call`].
    pub async fn call_json(&mut self, tool: &str, arguments: &Value) -> Result<Value, CallError> {
        let path = self.place();
        decode(
            &self
                .call_at(path, tool, arguments, Earlier::MustBeSame)
                .await?,
        )
    }

    /// Calls a tool at this very place: the action's path is the scope's own, and nothing else can
    /// be named under it any more.
    ///
    /// # Errors
    /// As [`Scope::call`]; also if this is the root.
    pub async fn call_here(self, tool: &str, arguments: &Value) -> Result<Value, CallError> {
        self.call_at_own_place(tool, arguments, Earlier::MustBeSame)
            .await
    }

    /// As [`Scope::call_here`], but an action that an earlier pass of the run began at this place
    /// counts as it was recorded, whatever is asked for now: what was begun stays what it was.
    ///
    /// # Errors
    /// As [`Scope::call_here`].
    pub async fn call_here_once(self, tool: &str, arguments: &Value) -> Result<Value, CallError> {
        self.call_at_own_place(tool, arguments, Earlier::Counts)
            .await
    }

    async fn call_at_own_place(
        self,
        tool: &str,
        arguments: &Value,
        earlier: Earlier,
    ) -> Result<Value, CallError> {
        if self.path.is_empty() {
            return Err(CallError::Refused(
                "the root of a run is no place for a call".to_owned(),
            ));
        }
        let path = ScopePath(self.path.clone());
        decode(&self.call_at(path, tool, arguments, earlier).await?)
    }

    fn call_at(
        &self,
        path: ScopePath,
        tool: &str,
        arguments: &Value,
        earlier: Earlier,
    ) -> Operation {
        Operation::new(&self.board, path, |board, path| {
            board.begin_call(path, tool, arguments, earlier)
        })
    }

    /// Waits, durably: a restart does not begin the wait anew.
    ///
    /// # Errors
    /// [`CallError::Cancelled`] if the run was asked to end.
    pub async fn sleep(&mut self, pause: Duration) -> Result<(), CallError> {
        let path = self.place();
        Operation::new(&self.board, path, |board, path| {
            board.begin_timer(path, pause)
        })
        .await?;
        Ok(())
    }

    /// Waits for the next signal of a name and returns what it carries. Signals that came earlier
    /// and were not taken are taken first, in order.
    ///
    /// # Errors
    /// [`CallError::Cancelled`] if the run was asked to end, [`CallError::Unusable`] if the signal
    /// carries something else.
    pub async fn signal<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, CallError> {
        let path = self.place();
        let text = Operation::new(&self.board, path, |board, path| {
            board.begin_signal(path, name)
        })
        .await?;
        decode(&text)
    }

    /// The time, fixed at first sight.
    pub fn now(&mut self) -> SystemTime {
        let path = self.place();
        let text = self
            .board
            .note(&path, "now", |clock| clock.now().wall_ms.to_string());
        let ms: i64 = text.parse().expect("a recorded time is a whole number");
        SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or(0))
    }

    /// A random number, fixed at first sight.
    pub fn random(&mut self) -> u64 {
        let path = self.place();
        let text = self.board.note(&path, "random", |_| {
            let (high, _) = uuid::Uuid::new_v4().as_u64_pair();
            let (low, _) = uuid::Uuid::new_v4().as_u64_pair();
            // The version bits of a UUID are not random; two of them overlap each other's.
            (high ^ low.rotate_left(32)).to_string()
        });
        text.parse()
            .expect("a recorded random number is a whole number")
    }

    /// A random UUID, fixed at first sight.
    pub fn uuid(&mut self) -> String {
        let path = self.place();
        self.board
            .note(&path, "uuid", |_| uuid::Uuid::new_v4().to_string())
    }

    /// A child scope of that name. A second one of the same name is called `<name>.2`.
    pub fn scope(&mut self, name: &str) -> Scope {
        let name = segment(name);
        let count = self.names.entry(name.clone()).or_insert(0);
        *count += 1;
        match *count {
            1 => self.child(&name),
            n => self.child(&format!("{name}.{n}")),
        }
    }

    /// Runs a branch for each item, at most `limit` at a time, and returns their results in item
    /// order. Each branch gets a child scope named by its item's key; keys must differ.
    pub async fn all<I, F, Fut, R>(
        &mut self,
        limit: usize,
        items: impl IntoIterator<Item = (String, I)>,
        branch: F,
    ) -> Vec<R>
    where
        F: FnMut(Scope, I) -> Fut,
        Fut: Future<Output = R>,
    {
        let place = self.place();
        let parent = Self::root(self.board.clone(), self.run.clone());
        Self {
            path: place.0,
            ..parent
        }
        .each(limit, items, branch)
        .await
    }

    /// As [`Scope::all`], with the branches named directly under this scope.
    pub async fn each<I, F, Fut, R>(
        self,
        limit: usize,
        items: impl IntoIterator<Item = (String, I)>,
        mut branch: F,
    ) -> Vec<R>
    where
        F: FnMut(Scope, I) -> Fut,
        Fut: Future<Output = R>,
    {
        let branches = items.into_iter().map(|(key, item)| {
            let child = self.child(&segment(&key));
            (child.path.clone(), branch(child, item))
        });
        Each::new(limit.max(1), self.board.clone(), branches).await
    }

    fn child(&self, name: &str) -> Scope {
        let path = match self.path.as_str() {
            "" => name.to_owned(),
            path => format!("{path}/{name}"),
        };
        Self {
            board: self.board.clone(),
            run: self.run.clone(),
            path,
            next: 0,
            names: HashMap::new(),
        }
    }

    fn place(&mut self) -> ScopePath {
        let ordinal = self.next;
        self.next += 1;
        ScopePath(match self.path.as_str() {
            "" => ordinal.to_string(),
            path => format!("{path}/{ordinal}"),
        })
    }
}

fn decode<T: DeserializeOwned>(text: &str) -> Result<T, CallError> {
    serde_json::from_str(text).map_err(|why| CallError::Unusable(why.to_string()))
}

/// One durable operation: begun at its first poll, ready once its end is delivered.
struct Operation {
    board: Arc<Board>,
    path: ScopePath,
    begun: Option<Begun>,
}

impl Operation {
    fn new(
        board: &Arc<Board>,
        path: ScopePath,
        begin: impl FnOnce(&Board, &ScopePath) -> Begun,
    ) -> Self {
        let begun = Some(begin(board, &path));
        Self {
            board: board.clone(),
            path,
            begun,
        }
    }
}

impl Future for Operation {
    type Output = CallResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CallResult> {
        if let Some(Begun::Ready(result)) = self.begun.take() {
            return Poll::Ready(result);
        }
        match self.board.take(&self.path, cx.waker()) {
            Some(result) => Poll::Ready(result),
            None => Poll::Pending,
        }
    }
}
