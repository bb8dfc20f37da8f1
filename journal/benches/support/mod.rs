//! What the benchmarks share: journals of a wanted length, and entries.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::path::Path;
use std::time::Duration;

use intendant_journal::face::{Batch, IntentLog};
use intendant_journal::format::entry::*;
use intendant_journal::{Journal, Options};

/// How journals are opened: the record outside the folder lies beside it.
pub fn options(root: &Path) -> Options {
    Options::new()
        .state_home(root.join("state"))
        .program("benchmark")
}

/// Waits until the segment behind the first one lies ready: it is made beside the appends once for
/// 64 MiB of log, and would disturb a short measurement more than a long job.
pub fn ready(journal: &Path) {
    loop {
        let names = std::fs::read_dir(journal.join("journal")).unwrap();
        let segments = names.filter(|name| {
            let path = name.as_ref().unwrap().path();
            path.extension().is_some_and(|end| end == "seg")
        });
        if segments.count() >= 2 {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn entry(run: &str, body: Body) -> Entry {
    Entry {
        at: Moment {
            wall_ms: 1_764_000_000_000,
            boot_ms: 1_000_000,
        },
        run: Some(run.to_owned()),
        body,
    }
}

/// An entry with a text of that length.
pub fn note(run: &str, length: usize) -> Entry {
    entry(
        run,
        Body::Noted(NotedEntry {
            path: ScopePath("0".to_owned()),
            what: "bench".to_owned(),
            value: format!("\"{}\"", "x".repeat(length)),
        }),
    )
}

fn action(step: u64) -> AttemptRef {
    AttemptRef {
        action: ActionRef {
            path: ScopePath(format!("pay/{step}")),
            generation: 1,
        },
        attempt: 1,
    }
}

/// The intent of a step.
pub fn intent(run: &str, step: u64) -> Entry {
    entry(
        run,
        Body::Action(ActionEntry {
            attempt: action(step),
            proposal: Some(Proposal {
                tool: "pay".to_owned(),
                tool_version: 1,
                arguments: Payload::Json(
                    r#"{"account":"DE02120300000000202051","cents":4200}"#.into(),
                ),
                digest: Digest([1; 32]),
            }),
            decision: Decision {
                verdict: Verdict::Allow,
                reasons: vec![],
                policy_version: "p".to_owned(),
            },
            intent: Some(Intent {
                key: Key([2; 16]),
                class: RecoveryClass::Opaque,
                timeout_ms: 30_000,
                closure: None,
                attempts_max: 1,
                backoff_first_ms: 1,
                backoff_max_ms: 1,
            }),
        }),
    )
}

/// The outcome of a step, with a result of 200 bytes.
pub fn outcome(run: &str, step: u64) -> Entry {
    entry(
        run,
        Body::Outcome(OutcomeEntry {
            attempt: action(step),
            outcome: Outcome::Succeeded(Payload::Json(format!("\"{}\"", "r".repeat(198)))),
            log: None,
        }),
    )
}

/// Makes a journal of so many entries, steps of runs of a hundred entries each, and closes it.
pub fn make(root: &Path, entries: u64) {
    const RUN: u64 = 100;
    let journal = options(root).open_or_create(root.join("data")).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut appends = Vec::new();
        for run in 0..entries / RUN {
            let name = format!("run-{run}");
            let steps = (0..RUN / 2).map(|step| [intent(&name, step), outcome(&name, step)]);
            for step in steps {
                let batch = Batch {
                    entries: step.into(),
                    starts_effects: false,
                };
                appends.push(journal.append(batch));
            }
            if appends.len() > 2_000 {
                for append in appends.drain(..) {
                    append.await.unwrap();
                }
            }
        }
        for append in appends {
            append.await.unwrap();
        }
    });
    Journal::close(journal);
}
