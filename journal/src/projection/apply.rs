//! What one entry changes in the row of its run: a pure function, so that a projection rebuilt from
//! the log equals the one that was kept up while the log grew.

use crate::face::{RunFilter, RunRow};
use crate::format::entry::{Body, End, Recorded};

/// The row of the entry's run after the entry, given the row before it; `None` for an entry that
/// belongs to no run.
///
/// A run that was written to before its first pass (a signal that came early) has a row with pass
/// 0 and no workflow: it is neither open nor ended.
pub(crate) fn apply(before: Option<RunRow>, recorded: &Recorded) -> Option<RunRow> {
    let run = recorded.entry.run.as_ref()?;
    let mut row = before.unwrap_or_else(|| RunRow {
        run: run.clone(),
        workflow: String::new(),
        version: 0,
        pass: 0,
        ended: false,
        end: None,
        first: recorded.sequence,
        last: recorded.sequence,
        entries: 0,
    });
    debug_assert_eq!(&row.run, run, "the row of another run");
    row.last = recorded.sequence;
    row.entries += 1;
    match &recorded.entry.body {
        Body::PassStarted(started) => {
            row.workflow.clone_from(&started.workflow);
            row.version = started.version;
            row.pass = started.pass;
            row.ended = false;
            row.end = None;
        }
        // Only the current pass can end the run; the end of an earlier one says nothing new.
        Body::PassEnded(ended) if ended.pass == row.pass => {
            row.ended = true;
            row.end = Some(
                match ended.end {
                    End::Completed(_) => "completed",
                    End::Failed(_) => "failed",
                    End::Cancelled(_) => "cancelled",
                }
                .to_owned(),
            );
        }
        _ => {}
    }
    Some(row)
}

/// Whether the current pass of the run has begun and not ended.
pub(crate) fn is_open(row: &RunRow) -> bool {
    row.pass > 0 && !row.ended
}

/// Whether a filter lets the row through.
pub(crate) fn matches(filter: RunFilter, row: &RunRow) -> bool {
    match filter {
        RunFilter::All => true,
        RunFilter::Open => is_open(row),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::entry::{
        Digest, Entry, Epoch, Moment, Opened, PassEnded, PassStarted, Payload, Sequence,
    };

    fn entry(sequence: u64, run: Option<&str>, body: Body) -> Recorded {
        Recorded {
            sequence: Sequence(sequence),
            epoch: Epoch(1),
            entry: Entry {
                at: Moment::default(),
                run: run.map(str::to_owned),
                body,
            },
        }
    }

    fn started(pass: u32) -> Body {
        Body::PassStarted(PassStarted {
            workflow: "refunds".to_owned(),
            version: 10 + pass,
            pass,
            input: Payload::Json("{}".to_owned()),
            input_digest: Digest([0; 32]),
        })
    }

    fn ended(pass: u32, end: End) -> Body {
        Body::PassEnded(PassEnded { pass, end })
    }

    fn early() -> Body {
        Body::TimerFired(crate::format::entry::ScopePath("0".to_owned()))
    }

    fn row_after(entries: &[Recorded]) -> Option<RunRow> {
        entries.iter().fold(None, apply)
    }

    #[test]
    fn an_entry_of_no_run_makes_no_row() {
        let opened = Body::Opened(Opened {
            pid: 1,
            boot_id: String::new(),
            program: String::new(),
        });
        assert_eq!(row_after(&[entry(1, None, opened)]), None);
    }

    #[test]
    fn a_run_opens_ends_and_opens_again_with_its_passes() {
        let mut entries = vec![entry(3, Some("r"), started(1))];
        let row = row_after(&entries).unwrap();
        assert!(is_open(&row));
        assert_eq!((row.workflow.as_str(), row.version), ("refunds", 11));

        entries.push(entry(5, Some("r"), ended(1, End::Failed("no".to_owned()))));
        let row = row_after(&entries).unwrap();
        assert!(!is_open(&row) && row.ended);
        assert_eq!(row.end.as_deref(), Some("failed"));

        entries.push(entry(6, Some("r"), early()));
        assert!(!is_open(&row_after(&entries).unwrap()));

        entries.push(entry(9, Some("r"), started(2)));
        let row = row_after(&entries).unwrap();
        assert_eq!(
            row,
            RunRow {
                run: "r".to_owned(),
                workflow: "refunds".to_owned(),
                version: 12,
                pass: 2,
                ended: false,
                end: None,
                first: Sequence(3),
                last: Sequence(9),
                entries: 4,
            }
        );

        entries.push(entry(
            10,
            Some("r"),
            ended(1, End::Cancelled(String::new())),
        ));
        assert!(
            is_open(&row_after(&entries).unwrap()),
            "an earlier pass ended"
        );
    }

    #[test]
    fn a_run_written_to_before_its_first_pass_is_not_open() {
        let row = row_after(&[entry(2, Some("r"), early())]).unwrap();
        assert!(!is_open(&row) && !row.ended);
        assert!(matches(RunFilter::All, &row) && !matches(RunFilter::Open, &row));
    }
}
