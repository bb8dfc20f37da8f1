//! The journal as its callers see it: what is acknowledged is there after any reopening.
#![allow(clippy::unwrap_used)]

mod support;

use intendant_journal::error::AppendError;
use intendant_journal::face::{Batch, IntentLog};
use intendant_journal::format::entry::{Epoch, Sequence};
use intendant_journal::scan;
use support::*;

#[test]
fn five_openings_keep_everything_and_raise_the_epoch() {
    let place = Place::new();
    let mut expected = Vec::new();
    let mut id = None;
    for opening in 1..=5u32 {
        let journal = place.open();
        assert_eq!(journal.epoch(), Epoch(opening));
        assert_eq!(*id.get_or_insert(journal.id()), journal.id());
        assert_eq!(journal.recovered().created, opening == 1);
        assert_eq!(journal.recovered().cut_bytes, 0);
        assert_eq!(notes(&journal, "r"), expected);
        for step in 0..3 {
            let value = format!("{opening}.{step}");
            append(&journal, vec![note("r", &value)]).unwrap();
            expected.push(value);
            // People read their own writes.
            assert_eq!(notes(&journal, "r"), expected);
        }
        journal.close();
    }
    let verified = scan::verify(place.data()).unwrap();
    assert_eq!(verified.log.end, Sequence(20));
    assert_eq!(verified.log.epoch, Epoch(5));
    assert_eq!(verified.log.unfinished, None);
}

#[test]
fn group_commit_from_many_threads_keeps_every_batch_whole_and_in_order() {
    let place = Place::new();
    let journal = place.open();
    let threads = 16;
    let each = 40;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let journal = &journal;
            scope.spawn(move || {
                for step in 0..each {
                    let run = format!("run-{thread}");
                    let batch = vec![
                        note(&run, &format!("{step}a")),
                        note(&run, &format!("{step}b")),
                    ];
                    let done = append(journal, batch).unwrap();
                    assert_eq!(done.last.0, done.first.0 + 1);
                    assert!(journal.durable() >= done.last);
                }
            });
        }
    });
    let stats = journal.stats();
    assert_eq!(stats.entries, 1 + 2 * threads * each);
    assert_eq!(stats.batches, 1 + threads * each);
    assert!(stats.syncs <= stats.batches);
    journal.close();

    let mut runs = std::collections::BTreeMap::<String, Vec<String>>::new();
    let mut next = 1;
    let report = scan::scan(place.data(), |recorded| {
        assert_eq!(recorded.sequence, Sequence(next));
        next += 1;
        if let Some(value) = value(&recorded) {
            runs.entry(recorded.entry.run.unwrap())
                .or_default()
                .push(value);
        }
    })
    .unwrap();
    assert!(report.segments > 2, "small segments were to be rolled");
    assert_eq!(runs.len() as u64, threads);
    for values in runs.values() {
        let expected: Vec<String> = (0..each)
            .flat_map(|step| [format!("{step}a"), format!("{step}b")])
            .collect();
        assert_eq!(*values, expected);
    }
}

#[test]
fn a_waiting_group_shares_one_sync() {
    let disk = support::faulty::FaultyDisk::default();
    let place = Place::new();
    let journal = place
        .options()
        .disk(std::sync::Arc::new(disk.clone()))
        .open_or_create(place.data())
        .unwrap();
    let site = intendant_journal::disk::Site::GroupSync;
    disk.hold(site);
    let first = journal.append(Batch {
        entries: vec![note("r", "first")],
        starts_effects: false,
    });
    disk.wait_held(site);
    let syncs = journal.stats().syncs;
    let others: Vec<_> = (0..50)
        .map(|number| {
            journal.append(Batch {
                entries: vec![note("r", &number.to_string())],
                starts_effects: false,
            })
        })
        .collect();
    disk.let_go(site);
    wait(first).unwrap();
    let mut last = Sequence(0);
    for other in others {
        let done = wait(other).unwrap();
        assert!(
            done.first > last,
            "the order of the calls is the order of the log"
        );
        last = done.last;
    }
    assert_eq!(journal.stats().syncs, syncs + 2);
}

#[test]
fn rolls_and_large_batches() {
    let place = Place::new();
    let journal = place.open();
    // Half a segment each: every second one rolls.
    let big = "x".repeat(30_000);
    for number in 0..9 {
        append(&journal, vec![note("r", &format!("{number}{big}"))]).unwrap();
    }
    let error = append(&journal, vec![note("r", &"y".repeat(70_000))]).unwrap_err();
    assert!(matches!(error, AppendError::TooLarge { .. }), "{error}");
    // A refused batch leaves no trace and takes no sequence.
    let before = journal.durable();
    let done = append(&journal, vec![note("r", "end")]).unwrap();
    assert_eq!(done.first.0, before.0 + 1);
    let error = append(&journal, vec![]).unwrap_err();
    assert!(matches!(error, AppendError::Refused { .. }), "{error}");
    journal.close();

    let journal = place.open();
    let notes = notes(&journal, "r");
    assert_eq!(notes.len(), 10);
    assert!(notes[8].starts_with("8x"));
    assert_eq!(notes[9], "end");
    journal.close();
    assert!(scan::verify(place.data()).unwrap().log.segments >= 5);
}

#[test]
fn a_dropped_future_does_not_take_its_batch_back() {
    let place = Place::new();
    let journal = place.open();
    drop(journal.append(Batch {
        entries: vec![note("r", "dropped")],
        starts_effects: false,
    }));
    append(&journal, vec![note("r", "after")]).unwrap();
    assert_eq!(notes(&journal, "r"), ["dropped", "after"]);
}

#[test]
fn closing_writes_what_was_handed_over() {
    let place = Place::new();
    let journal = place.open();
    let pending: Vec<_> = (0..100)
        .map(|number| {
            journal.append(Batch {
                entries: vec![note("r", &number.to_string())],
                starts_effects: false,
            })
        })
        .collect();
    journal.close();
    for append in pending {
        wait(append).unwrap();
    }
    assert_eq!(notes(&place.open(), "r").len(), 100);
}

#[test]
fn another_segment_size_applies_to_new_segments() {
    let place = Place::new();
    let journal = place.open();
    append(&journal, vec![note("r", "small")]).unwrap();
    journal.close();
    let larger = place.options().segment_bytes(4 * SMALL);
    let journal = larger.open(place.data()).unwrap();
    // Too large for the segment in use and for the spare that the first opening left.
    append(&journal, vec![note("r", &"z".repeat(100_000))]).unwrap();
    journal.close();
    assert_eq!(notes(&place.open(), "r").len(), 2);
    scan::verify(place.data()).unwrap();
}

#[test]
fn a_lost_projection_is_built_again_from_the_log() {
    let place = Place::new();
    let journal = place.open();
    for number in 0..500 {
        append(
            &journal,
            vec![note("r", &number.to_string()), note("s", "x")],
        )
        .unwrap();
    }
    journal.close();
    std::fs::remove_file(place.data().join("projection.redb")).unwrap();
    let journal = place.open();
    assert_eq!(journal.recovered().projected, 1001);
    assert_eq!(notes(&journal, "r").len(), 500);
    assert_eq!(notes(&journal, "s").len(), 500);
}

#[test]
fn an_outside_reader_follows_a_live_writer() {
    let place = Place::new();
    let journal = place.open();
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..1_500 {
                append(
                    &journal,
                    vec![note(
                        "r",
                        &format!("{number:05}{}", "x".repeat(number % 9_000)),
                    )],
                )
                .unwrap();
            }
            stop.store(true, std::sync::atomic::Ordering::Release);
        });
        let mut reads = 0;
        while !stop.load(std::sync::atomic::Ordering::Acquire) {
            let durable = journal.durable();
            let report = scan::scan(place.data(), |_| {}).unwrap();
            assert!(report.end >= durable, "{} < {durable}", report.end);
            reads += 1;
        }
        assert!(reads > 0);
    });
}

#[test]
fn many_open_intents_get_the_room_for_their_endings() {
    let place = Place::new();
    let journal = place.open();
    for number in 0..100 {
        let path = format!("step/{number}");
        begin(&journal, vec![intent("r", &path)]).unwrap();
    }
    drop(journal);
    // A hundred endings of 12 KiB each: there are segments enough for them, made ready before.
    let segments = std::fs::read_dir(place.data().join("journal"))
        .unwrap()
        .count() as u64;
    assert!(segments * SMALL >= 100 * 12 * 1024, "{segments} segments");
    let journal = place.open();
    assert_eq!(journal.recovered().open_intents, 100);
    begin(&journal, vec![intent("r", "one more")]).unwrap();
    for number in 0..100 {
        let path = format!("step/{number}");
        append(&journal, vec![outcome("r", &path, "1".into())]).unwrap();
    }
    drop(journal);
    assert_eq!(place.open().recovered().open_intents, 1);
}

#[test]
fn a_relative_folder_stays_the_same_when_the_program_moves() {
    let place = Place::new();
    let here = std::env::current_dir().unwrap();
    let up = "../".repeat(here.components().count());
    let relative = format!("{up}{}", place.data().strip_prefix("/").unwrap().display());
    let journal = place.options().open_or_create(&relative).unwrap();
    assert!(journal.folder().is_absolute());
    append(&journal, vec![note("r", "x")]).unwrap();
    drop(journal);
    assert_eq!(notes(&place.open(), "r"), ["x"]);
}

/// A task that has used up its share of polls may open a journal all the same: it waits on its
/// thread, and nobody would give it a new share meanwhile.
#[test]
fn p9_a_journal_opens_in_a_task_that_has_used_up_its_share() {
    let place = Place::new();
    let (done, opened) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        runtime.block_on(std::future::poll_fn(|cx| {
            for _ in 0..1_000 {
                let (send, mut receive) = tokio::sync::oneshot::channel();
                send.send(()).unwrap();
                let _ = std::pin::Pin::new(&mut receive).poll(cx);
            }
            assert!(!tokio::task::coop::has_budget_remaining());
            place.open().close();
            std::task::Poll::Ready(())
        }));
        done.send(()).unwrap();
    });
    opened
        .recv_timeout(std::time::Duration::from_secs(60))
        .expect("the journal opened");
}
