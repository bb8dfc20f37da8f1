//! "I cannot see it" cannot be turned into "it never will happen".
use intendant::tool::reconciler::JsonAnswer;
use intendant_journal::format::entry::Answer;

fn unsafe_conversion(answer: Answer) -> JsonAnswer {
    answer.into()
}

fn main() {}
