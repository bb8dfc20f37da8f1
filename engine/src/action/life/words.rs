//! Names of answers and closures, as reconcilers and job files write them.

use intendant_journal::format::entry::{Answer, Closure};

/// The name of an answer, as reconcilers print it.
pub fn answer_name(answer: &Answer) -> &'static str {
    match answer {
        Answer::Executed { .. } => "executed",
        Answer::NeverWill { .. } => "never_will",
        Answer::Running { .. } => "running",
        Answer::NotSeen { .. } => "not_seen",
        Answer::Unknown { .. } => "unknown",
    }
}

/// An answer in one line.
pub fn answer_words(answer: &Answer) -> String {
    let name = answer_name(answer);
    match answer {
        Answer::Executed { .. } => name.to_owned(),
        Answer::NeverWill {
            closure, burned, ..
        } => {
            format!(
                "{name} (by {}{})",
                closure_name(*closure),
                if *burned { ", key burned" } else { "" }
            )
        }
        Answer::Running { retry_after_ms } => format!("{name} (ask again in {retry_after_ms} ms)"),
        Answer::NotSeen { as_of } => format!("{name} (as of {as_of})"),
        Answer::Unknown { why } => format!("{name} ({why})"),
    }
}

/// The closure's name, as job files write it.
pub fn closure_name(closure: Closure) -> &'static str {
    match closure {
        Closure::AbortClaim => "abort_claim",
        Closure::Fence => "fence",
        Closure::Deadline => "deadline",
    }
}
