//! The constructor of a `Call` is the kernel's own.
use intendant::tool::call::Call;
use intendant::tool::json::AttemptContext;

fn make(attempt: AttemptContext) -> Call {
    Call::new(attempt)
}

fn main() {}
