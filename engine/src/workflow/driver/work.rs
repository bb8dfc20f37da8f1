//! The tasks of a run: calling tools, waiting for what is due, asking reconcilers.
//!
//! Invariant: a task only ever talks to its driver by mail, so that nothing happens behind its back.

use super::question;
use crate::action::id::action_id;
use crate::kernel::Armed;
use crate::tool::json::AttemptContext;
use intendant_journal::format::entry::{ActionRef, AttemptRef, ScopePath};
use std::time::Duration;

use super::{Driver, Mail, SENDER_GONE_MAX};

impl Driver {
    /// Calls a tool in a task of its own.
    pub(super) fn call_tool(&mut self, armed: Armed) {
        let attempt = armed.attempt().clone();
        self.active.insert(attempt.clone());
        let (kernel, post) = (self.shared.kernel.clone(), self.post.clone());
        self.tasks.spawn(async move {
            if let Some(exit) = kernel.open(armed).await {
                let _ = post.send(Mail::Replied(attempt, exit));
            }
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
        let pause = self.pause_until(at_wall_ms);
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

    /// Waits until a question is due and nothing of the attempt can act.
    pub(super) fn wait_to_ask(&mut self, of: &ActionRef, attempt: u32, at_wall_ms: i64) {
        let asked = AttemptRef {
            action: of.clone(),
            attempt,
        };
        if !self.active.insert(asked.clone()) {
            return;
        }
        let pause = self.pause_until(at_wall_ms);
        let cx = self.context(of, attempt, SENDER_GONE_MAX);
        let tool = self.shared.kernel.declared(&self.tool_of(of)).cloned();
        let post = self.post.clone();
        self.tasks.spawn(async move {
            tokio::time::sleep(pause).await;
            if let Some(tool) = tool {
                tool.sender_gone(&cx).await;
            }
            let _ = post.send(Mail::AskDue(asked));
        });
    }

    pub(super) fn ask(&mut self, attempt: AttemptRef) {
        let of = attempt.action.clone();
        let tool = self.tool_of(&of);
        let Some(registered) = self.shared.kernel.declared(&tool).cloned() else {
            return;
        };
        let Some(reconciler) = registered.reconciler.clone() else {
            return;
        };
        let timeout = registered.contract.reconcile_timeout;
        let cx = self.context(&of, attempt.attempt, timeout);
        let arguments = self
            .state
            .action_of(&of)
            .and_then(|action| self.text_of(&action.proposal.arguments).ok())
            .and_then(|text| serde_json::from_str(&text).ok());
        let Some(arguments): Option<serde_json::Value> = arguments else {
            return;
        };
        self.active.insert(attempt.clone());
        let post = self.post.clone();
        self.tasks.spawn(async move {
            let answer = question::put(reconciler, timeout, &cx, &arguments).await;
            let _ = post.send(Mail::Answered(attempt, answer));
        });
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

    pub(super) fn pause_until(&self, at_wall_ms: i64) -> Duration {
        let left = at_wall_ms.saturating_sub(self.shared.clock.now().wall_ms);
        Duration::from_millis(u64::try_from(left).unwrap_or(0))
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
