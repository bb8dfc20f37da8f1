use super::*;
use crate::format::entry::{NotedEntry, ScopePath};

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future)
}

fn batch(run: &str, values: &[&str]) -> Batch {
    let entries = values
        .iter()
        .map(|value| Entry {
            at: Moment::default(),
            run: Some(run.to_owned()),
            body: Body::Noted(NotedEntry {
                path: ScopePath("0".to_owned()),
                what: "random".to_owned(),
                value: (*value).to_owned(),
            }),
        })
        .collect();
    Batch {
        entries,
        starts_effects: false,
    }
}

fn values(log: &MemoryLog, run: &str) -> Vec<String> {
    let history = log.history(run).unwrap();
    history
        .into_iter()
        .map(|recorded| match recorded.entry.body {
            Body::Noted(noted) => noted.value,
            other => panic!("{other:?}"),
        })
        .collect()
}

fn log() -> MemoryLog {
    MemoryLog::new(JournalId([7; 16]))
}

#[test]
fn the_nth_append_is_refused_and_the_log_goes_on() {
    for failure in [Failure::Refused, Failure::NoSpace] {
        let log = log();
        log.fail_append(2, failure);
        block_on(log.append(batch("r", &["1"]))).unwrap();
        let error = block_on(log.append(batch("r", &["2"]))).unwrap_err();
        match failure {
            Failure::Refused => assert!(matches!(error, AppendError::Refused { .. })),
            _ => assert!(matches!(error, AppendError::NoSpace { .. })),
        }
        let after = block_on(log.append(batch("r", &["3"]))).unwrap();
        assert_eq!(
            after.first,
            Sequence(3),
            "a refused batch takes no sequence"
        );
        assert_eq!(values(&log.reopen(), "r"), ["1", "3"]);
    }
}

#[test]
fn an_unsettled_batch_shows_only_after_a_reopening_whole_or_not_at_all() {
    for kept in [true, false] {
        let log = log();
        log.fail_append(1, Failure::Unsettled { kept });
        let unsettled = log.append(batch("r", &["1", "2"]));
        let after = log.append(batch("r", &["3"]));
        assert!(matches!(
            block_on(unsettled),
            Err(AppendError::Unsettled { .. })
        ));
        assert!(matches!(block_on(after), Err(AppendError::Disabled { .. })));
        assert!(log.disabled().is_some());
        assert!(matches!(
            log.put_blob(b"x"),
            Err(AppendError::Disabled { .. })
        ));
        assert_eq!(values(&log, "r").len(), 0);

        let again = log.reopen();
        let expected: &[&str] = if kept { &["1", "2"] } else { &[] };
        assert_eq!(values(&again, "r"), expected);
        assert_eq!(again.disabled(), None);
        block_on(again.append(batch("r", &["4"]))).unwrap();
    }
}

#[test]
fn a_disabled_log_records_nothing() {
    let log = log();
    log.fail_append(1, Failure::Disabled);
    for _ in 0..2 {
        assert!(matches!(
            block_on(log.append(batch("r", &["1"]))),
            Err(AppendError::Disabled { .. })
        ));
    }
    assert_eq!(values(&log.reopen(), "r").len(), 0);
}

#[test]
fn held_batches_are_seen_between_hand_over_and_durability() {
    let log = log();
    log.hold();
    let first = log.append(batch("r", &["1"]));
    let second = log.append(batch("r", &["2"]));
    assert_eq!(log.held().len(), 2);
    assert_eq!(log.durable(), Sequence(1), "only the opening");
    assert_eq!(values(&log, "r").len(), 0);

    log.release(1);
    assert_eq!(block_on(first).unwrap().last, Sequence(2));
    assert_eq!(values(&log, "r"), ["1"]);
    assert_eq!(log.held().len(), 1);

    log.release_all();
    block_on(second).unwrap();
    block_on(log.append(batch("r", &["3"]))).unwrap();
    assert_eq!(values(&log, "r"), ["1", "2", "3"]);
}

#[test]
fn a_reopening_forgets_what_was_held_and_fences_older_handles() {
    let log = log();
    log.hold();
    let held = log.append(batch("r", &["1"]));
    let again = log.reopen();
    assert_eq!(again.epoch(), Epoch(log.epoch().0 + 1));
    assert!(matches!(block_on(held), Err(AppendError::Unsettled { .. })));
    assert_eq!(again.held().len(), 0);
    assert!(log.disabled().is_some());
    assert!(matches!(
        block_on(log.append(batch("r", &["2"]))),
        Err(AppendError::Disabled { .. })
    ));
    assert_eq!(values(&again, "r").len(), 0);
}

#[test]
fn blobs_can_be_refused() {
    let log = log();
    log.refuse_blobs(true);
    assert!(matches!(
        log.put_blob(b"x"),
        Err(AppendError::Refused { .. })
    ));
    log.refuse_blobs(false);
    let blob = log.put_blob(b"x").unwrap();
    assert_eq!(log.get_blob(&blob).unwrap(), b"x");
}

#[test]
fn it_conforms() {
    struct InMemory(MemoryLog);

    impl crate::conformance::Store for InMemory {
        type Log = MemoryLog;
        fn open(&mut self) -> MemoryLog {
            self.0.reopen()
        }
    }

    crate::conformance::suite(|| InMemory(log()));
}
