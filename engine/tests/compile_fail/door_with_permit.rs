//! The door takes only what a durable append gave back, and only the engine can open it.
use intendant::kernel::{Kernel, Permit};

async fn open(kernel: &Kernel, permit: Permit) {
    kernel.open(permit).await;
}

fn main() {}
