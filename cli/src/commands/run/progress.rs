//! How far a run is: a bar on a terminal, else a line now and then; always on standard error.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use intendant::engine::Engine;
use intendant::operator::report::ActionCounts;
use tokio::task::JoinHandle;

use crate::print;

/// Looking at a run copies its state, so it is done seldom, and more seldom where it takes long.
const LOOK_EVERY: Duration = Duration::from_millis(500);
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Shows the progress of a run until it is stopped.
pub(super) struct Progress {
    watching: JoinHandle<()>,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub(super) fn start(engine: Engine, run: String, items: usize) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = "{prefix} [{bar:30}] {pos}/{len} {msg} {elapsed}";
            let style = ProgressStyle::with_template(style)
                .unwrap_or_else(|_| ProgressStyle::default_bar());
            ProgressBar::new(items as u64)
                .with_style(style)
                .with_prefix(run.clone())
        });
        let shown = bar.clone();
        let watching = tokio::spawn(async move {
            let mut line_at = Instant::now() + LINE_EVERY;
            let mut pause = LOOK_EVERY;
            loop {
                tokio::time::sleep(pause).await;
                let began = Instant::now();
                let Ok(Some(counts)) = engine.counts(&run).await else {
                    continue;
                };
                pause = LOOK_EVERY.max(began.elapsed() * 20);
                match &shown {
                    Some(bar) => {
                        bar.set_position(ended(&counts));
                        bar.set_message(rest(&counts));
                    }
                    None if Instant::now() >= line_at => {
                        line_at = Instant::now() + LINE_EVERY;
                        let (ended, rest) = (ended(&counts), rest(&counts));
                        print::note(format!("{run}: {ended} of {items} ended {rest}").trim_end());
                    }
                    None => {}
                }
            }
        });
        Self { watching, bar }
    }

    /// Stops, and lets go of the engine.
    pub(super) async fn stop(self) {
        self.watching.abort();
        let _ = self.watching.await;
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Actions that ended, in whatever way.
fn ended(counts: &ActionCounts) -> u64 {
    counts.done + counts.failed + counts.denied + counts.given_up
}

/// What a person may want to know before the end.
fn rest(counts: &ActionCounts) -> String {
    let parts = [
        (counts.failed, "failed"),
        (counts.in_doubt, "in doubt"),
        (counts.parked, "parked"),
        (counts.awaiting_approval, "awaiting approval"),
    ];
    let parts: Vec<String> = parts
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!("({})", parts.join(", ")),
    }
}
