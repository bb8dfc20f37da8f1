//! Where an action stands.

use intendant_journal::format::entry::{Moment, Payload, Verification};

use crate::action::doubt::{AskRule, backoff_ms};

/// Where an action stands.
#[derive(Clone, PartialEq, Debug)]
pub enum State {
    /// Proposed; nothing was decided yet.
    Proposed,
    /// A person must say yes before the attempt.
    AwaitingApproval {
        /// The attempt that waits.
        attempt: u32,
    },
    /// A person said yes; the attempt has no intent yet.
    Approved {
        /// The attempt that may be decided again.
        attempt: u32,
    },
    /// The intent is durable and nothing is known of how it ended.
    Running {
        /// The attempt.
        attempt: u32,
    },
    /// The attempt before is closed; another is due.
    Waiting {
        /// The attempt that is due.
        attempt: u32,
        /// From when on.
        due: Moment,
    },
    /// The attempt was cut and nobody knows how it ended.
    InDoubt(Doubt),
    /// In doubt, and only a person can settle it.
    Parked {
        /// The attempt in doubt.
        attempt: u32,
        /// Why.
        why: String,
    },
    /// It ended.
    Settled(Settled),
}

/// An attempt in doubt.
#[derive(Clone, PartialEq, Debug)]
pub struct Doubt {
    /// The attempt.
    pub attempt: u32,
    /// What was seen.
    pub why: String,
    /// When.
    pub since: Moment,
    /// Questions asked that count.
    pub asks: u32,
    /// When it was last answered, or came into doubt.
    pub answered: Moment,
    /// The pause that a `running` answer asked for.
    pub running_pause_ms: Option<u64>,
    /// True while a question is out.
    pub asking: bool,
    /// The last answer, in words.
    pub last_answer: Option<String>,
}

/// How an action ended.
#[derive(Clone, PartialEq, Debug)]
pub enum Settled {
    /// The effect happened.
    Succeeded {
        /// The attempt that did it.
        attempt: u32,
        /// Its output.
        output: Payload,
        /// Who said so.
        by: SettledBy,
        /// Whether the effect was seen to hold.
        verification: Verification,
    },
    /// The effect happened; its output cannot be used. Never run again.
    Unusable {
        /// The attempt.
        attempt: u32,
        /// What came.
        raw: Payload,
        /// Why it cannot be used.
        why: String,
    },
    /// The effect did not happen and will not.
    Failed {
        /// The last attempt.
        attempt: u32,
        /// Why.
        why: String,
        /// True if the key was voided at the target.
        voided: bool,
    },
    /// Policy or an approver said no.
    Denied {
        /// Every reason.
        reasons: Vec<String>,
    },
    /// A person gave up finding out.
    GivenUp {
        /// The attempt in doubt.
        attempt: u32,
        /// The person's reason.
        why: String,
    },
}

/// Who said how an action ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SettledBy {
    /// The tool itself.
    Tool,
    /// Its reconciler.
    Reconciler,
    /// A person.
    Person,
}

impl Doubt {
    pub(super) fn new(attempt: u32, why: &str, at: Moment) -> Self {
        Self {
            attempt,
            why: why.to_owned(),
            since: at,
            asks: 0,
            answered: at,
            running_pause_ms: None,
            asking: false,
            last_answer: None,
        }
    }

    /// When the next question is due, wall clock.
    pub fn ask_at_wall_ms(&self, rule: AskRule) -> i64 {
        let pause = match (self.running_pause_ms, self.asks) {
            // A floor, so that a reconciler that says "ask again at once" makes no hot loop.
            (Some(pause), _) => pause.max(rule.backoff_first_ms),
            (None, 0) => 0,
            (None, asks) => backoff_ms(rule.backoff_first_ms, rule.backoff_max_ms, asks),
        };
        self.answered.wall_ms.saturating_add_unsigned(pause)
    }
}
