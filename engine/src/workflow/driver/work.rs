//! The tasks of a run: calling tools, waiting for what is due, asking reconcilers.
//!
//! Invariant: a task only ever talks to its driver by mail, so that nothing happens behind its back.

use super::question;
use crate::action::id::action_id;
use crate::kernel::Armed;
use crate::tool::json::AttemptContext;
use intendant_journal::format::entry::{ActionRef, AttemptRef, ScopePath};
use std::sync::Arc;
use std::time::Duration;

use crate::action::life::{Life, State};
use crate::tool::json::JsonReconciler;
use crate::tool::reconciler::JsonAnswer;

use super::{Driver, Mail, SENDER_GONE_MAX};

/// What it takes to ask: whom, how long, about which attempt, with which arguments.
type Question = (
    Arc<dyn JsonReconciler>,
    Duration,
    AttemptContext,
    serde_json::Value,
);

impl Driver {
    /// Calls a tool in a task of its own.
    pub(super) fn call_tool(&mut self, armed: Armed) {
        let attempt = armed.attempt().clone();
        self.active.insert(attempt.clone());
        let (kernel, post) = (self.shared.kernel.clone(), self.post.clone());
        self.tasks.spawn(async move {
            let _ = match kernel.open(armed).await {
                Some(exit) => post.send(Mail::Replied(attempt, exit)),
                None => post.send(Mail::JournalGone),
            };
        });
    }

    /// Waits until an attempt is due and nothing of the one before can act.
    pub(super) fn wait_for_attempt(&mut self, of: &ActionRef, attempt: u32, at_wall_ms: i64) {
        let due = AttemptRef {
            action: of.clone(),
            attempt,
        };
        if !self.active.insert(due.clone()) {
            return;
        }
        let longest = self
            .life(of)
            .and_then(Life::intent)
            .map_or(0, |intent| intent.backoff_max_ms);
        let pause = self.pause_until(at_wall_ms, longest);
        let before = (attempt > 1).then(|| self.context(of, attempt - 1, SENDER_GONE_MAX));
        let tool = self.shared.kernel.declared(&self.tool_of(of)).cloned();
        let post = self.post.clone();
        self.tasks.spawn(async move {
            tokio::time::sleep(pause).await;
            if let (Some(tool), Some(before)) = (tool, before) {
                tool.sender_gone(&before).await;
            }
            let _ = post.send(Mail::Due(due));
        });
    }

    /// Waits until a question is due and nothing of the attempt can act. A later call for the same
    /// attempt replaces an earlier one.
    pub(super) fn wait_to_ask(&mut self, of: &ActionRef, attempt: u32, at_wall_ms: i64) {
        let asked = AttemptRef {
            action: of.clone(),
            attempt,
        };
        let rule = self.ask_rule(&self.tool_of(of));
        let running_pause = match self.life(of).map(Life::state) {
            Some(State::InDoubt(doubt)) => doubt.running_pause_ms.unwrap_or(0),
            _ => 0,
        };
        let longest = rule
            .map_or(0, |rule| rule.backoff_max_ms)
            .max(running_pause);
        let pause = self.pause_until(at_wall_ms, longest);
        self.active.insert(asked.clone());
        self.questions += 1;
        let question = self.questions;
        self.due_questions.insert(asked.clone(), question);
        let cx = self.context(of, attempt, SENDER_GONE_MAX);
        let tool = self.shared.kernel.declared(&self.tool_of(of)).cloned();
        let post = self.post.clone();
        self.tasks.spawn(async move {
            tokio::time::sleep(pause).await;
            if let Some(tool) = tool {
                tool.sender_gone(&cx).await;
            }
            let _ = post.send(Mail::AskDue(asked, question));
        });
    }

    /// Asks. Whatever keeps the question from being put is an answer too: unknown.
    pub(super) fn ask(&mut self, attempt: AttemptRef) {
        self.active.insert(attempt.clone());
        self.asking.insert(attempt.clone());
        let post = self.post.clone();
        let (reconciler, timeout, cx, arguments) = match self.question(&attempt) {
            Ok(question) => question,
            Err(why) => {
                let _ = post.send(Mail::Answered(attempt, JsonAnswer::Unknown(why)));
                return;
            }
        };
        self.tasks.spawn(async move {
            let answer = question::put(reconciler, timeout, &cx, &arguments).await;
            let _ = post.send(Mail::Answered(attempt, answer));
        });
    }

    fn question(&self, attempt: &AttemptRef) -> Result<Question, String> {
        let of = &attempt.action;
        let tool = self.tool_of(of);
        let none = || format!("tool {tool:?} has no reconciler here");
        let registered = self.shared.kernel.declared(&tool).ok_or_else(none)?;
        let reconciler = registered.reconciler.clone().ok_or_else(none)?;
        let timeout = registered.contract.reconcile_timeout;
        let cx = self.context(of, attempt.attempt, timeout);
        let action = self.state.action_of(of).ok_or("the action is not known")?;
        let text = crate::payload::text(self.shared.log.as_ref(), &action.proposal.arguments)
            .map_err(|why| format!("its recorded arguments cannot be read: {why}"))?;
        let arguments = serde_json::from_str(&text)
            .map_err(|why| format!("its recorded arguments are no JSON: {why}"))?;
        Ok((reconciler, timeout, cx, arguments))
    }

    pub(super) fn arm_timer(&mut self, path: ScopePath, due_wall_ms: i64) {
        if !self.timers.insert(path.clone()) {
            return;
        }
        let (post, clock) = (self.post.clone(), self.shared.clock.clone());
        self.tasks.spawn(async move {
            // In short hops, so that a stepped clock or a suspended machine is noticed.
            loop {
                let left = due_wall_ms.saturating_sub(clock.now().wall_ms);
                let Ok(left) = u64::try_from(left) else { break };
                if left == 0 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(left.min(30_000))).await;
            }
            let _ = post.send(Mail::TimerDue(path));
        });
    }

    /// How long to wait for a time, never longer than the rule's own longest pause: the wall clock
    /// may have been set back since the time was computed.
    pub(super) fn pause_until(&self, at_wall_ms: i64, longest_ms: u64) -> Duration {
        let left = at_wall_ms.saturating_sub(self.shared.clock.now().wall_ms);
        Duration::from_millis(u64::try_from(left).unwrap_or(0).min(longest_ms))
    }

    pub(super) fn context(
        &self,
        of: &ActionRef,
        attempt: u32,
        timeout: Duration,
    ) -> AttemptContext {
        let key = self.life(of).and_then(|life| life.intent()).map_or_else(
            || crate::action::key::key(self.shared.log.id(), &self.run, of),
            |intent| intent.key,
        );
        AttemptContext {
            run: self.run.to_string(),
            action: action_id(&self.run, of),
            attempt,
            epoch: self.shared.log.epoch().0,
            key,
            deadline: std::time::SystemTime::now() + timeout,
        }
    }
}
