//! A permit cannot be copied.
use intendant::kernel::Permit;

fn copy(permit: &Permit) -> Permit {
    permit.clone()
}

fn main() {}
