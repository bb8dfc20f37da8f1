//! SIGINT and SIGTERM: the first asks for an end in good order, the second ends at once.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;

/// Both signals, from the moment this is made.
pub(super) struct StopSignals {
    interrupt: Signal,
    terminate: Signal,
}

impl StopSignals {
    pub(super) fn new() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next one, as the code it ends the program with.
    pub(super) async fn next(&mut self) -> Exit {
        tokio::select! {
            _ = self.interrupt.recv() => Exit::Interrupted,
            _ = self.terminate.recv() => Exit::Terminated,
        }
    }
}
