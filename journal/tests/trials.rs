//! Trials: what went wrong for people who run such systems, at the level of the journal.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use intendant_journal::disk::Site;
use intendant_journal::error::{AppendError, OpenError};
use intendant_journal::face::{Batch, IntentLog};
use intendant_journal::scan;
use support::faulty::{EIO, Fault, FaultyDisk};
use support::*;

/// A closed journal with several sealed segments.
fn closed(place: &Place, notes: usize) {
    let journal = place.open();
    for number in 0..notes {
        let value = format!("note {number:04} {}", "x".repeat(1_000));
        append(&journal, vec![note("r", &value)]).unwrap();
    }
    journal.close();
}

#[test]
fn trial_b01_corruption_in_the_middle_is_refused() {
    let place = Place::new();
    closed(&place, 60);
    let sealed = place.segment(1);
    let offset = find(&sealed, b"note 0003");
    flip(&sealed, offset);
    let before = place.files();

    let error = place.options().open(place.data()).unwrap_err();
    let OpenError::Damaged(damage) = error else {
        panic!("{error}")
    };
    assert_eq!(damage.segment, Some(1));
    assert_eq!(damage.path, sealed);
    assert!(
        damage.offset <= offset as u64 && damage.offset + 64 > offset as u64,
        "{damage}"
    );
    assert!(damage.to_string().contains("restore"), "{damage}");
    assert!(before == place.files(), "a byte was changed");

    // The check names the same place.
    let OpenError::Damaged(found) = scan::verify(place.data()).unwrap_err() else {
        panic!("verify finds something else")
    };
    assert_eq!(found.offset, damage.offset);
    assert!(before == place.files(), "a byte was changed");
}

#[test]
fn trial_b02_nothing_is_lost_behind_a_torn_tail() {
    for garbage in [1usize, 7, 24, 40, 4096, 5000] {
        for behind_the_file in [true, false] {
            let place = Place::new();
            closed(&place, 3);
            let end = end_of_log(&place.segment(1));
            let bytes: Vec<u8> = (0..garbage).map(|at| (at % 255) as u8 + 1).collect();
            if behind_the_file {
                let mut file = std::fs::OpenOptions::new()
                    .append(true)
                    .open(place.segment(1))
                    .unwrap();
                file.write_all(&bytes).unwrap();
            } else {
                write_at(&place.segment(1), &bytes, end);
            }
            let journal = place.open();
            assert_eq!(journal.recovered().cut_bytes, garbage as u64);
            assert_eq!(
                journal.recovered().cut_at.as_ref().unwrap().0,
                place.segment(1)
            );
            for number in 0..10 {
                append(&journal, vec![note("after", &number.to_string())]).unwrap();
            }
            journal.close();

            let journal = place.open();
            assert_eq!(journal.recovered().cut_bytes, 0, "nothing left to cut");
            assert_eq!(notes(&journal, "after").len(), 10);
            assert_eq!(notes(&journal, "r").len(), 3);
        }
    }
}

#[test]
fn trial_b03_a_failed_write_leaves_no_orphan_bytes() {
    let disk = FaultyDisk::default();
    let place = Place::new();
    let journal = place
        .options()
        .disk(Arc::new(disk.clone()))
        .open_or_create(place.data())
        .unwrap();
    append(&journal, vec![note("r", "before")]).unwrap();
    disk.fail(
        Site::GroupWrite,
        Fault::ShortThen(support::faulty::ENOSPC),
        1,
    );
    let error = append(&journal, vec![note("r", &"refused".repeat(1_000))]).unwrap_err();
    assert!(matches!(error, AppendError::Refused { .. }), "{error}");
    drop(journal);
    disk.heal();

    let journal = place.open();
    assert_eq!(
        journal.recovered().cut_bytes,
        0,
        "the failed write was wiped out"
    );
    for number in 0..5 {
        append(&journal, vec![note("r", &number.to_string())]).unwrap();
    }
    journal.close();
    assert_eq!(scan::verify(place.data()).unwrap().log.unfinished, None);
    assert_eq!(
        notes(&place.open(), "r"),
        ["before", "0", "1", "2", "3", "4"]
    );
}

#[test]
fn trial_b07_a_torn_tail_is_not_taken_for_corruption() {
    let place = Place::new();
    closed(&place, 60);
    let killed = killed_before_sync(&place, vec![vec![note("r", "not acknowledged")]]);
    let last = (1..).take_while(|number| killed.segment(*number).exists());
    let in_use = last
        .filter(|number| end_of_log(&killed.segment(*number)) > 4096)
        .last()
        .unwrap();

    // Zeros behind the active segment.
    let zeros = killed.copy();
    let path = zeros.segment(in_use);
    let len = std::fs::metadata(&path).unwrap().len();
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(len + 4096)
        .unwrap();
    let journal = zeros.open();
    assert_eq!(journal.recovered().cut_bytes, 4096);
    assert_eq!(notes(&journal, "r").len(), 61);
    drop(journal);

    // Cut inside the last record, which nobody was told of.
    let cut = killed.copy();
    let path = cut.segment(in_use);
    let at = find(&path, b"not acknowledged") as u64;
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(at + 5)
        .unwrap();
    let journal = cut.open();
    assert!(journal.recovered().cut_bytes > 0);
    assert!(journal.recovered().filled_bytes > 0);
    assert_eq!(notes(&journal, "r").len(), 60, "all acknowledged ones");
    drop(journal);
    let journal = cut.open();
    assert_eq!(journal.recovered().cut_bytes, 0);
    drop(journal);

    // The same cut through a record that was acknowledged is damage: the mark remembers.
    let acknowledged = place.copy();
    let path = acknowledged.segment(in_use);
    let at = find(&path, b"not acknowledged") as u64;
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(at + 5)
        .unwrap();
    let before = acknowledged.files();
    let error = acknowledged
        .options()
        .open(acknowledged.data())
        .unwrap_err();
    assert!(matches!(error, OpenError::Damaged(_)), "{error}");
    assert!(before == acknowledged.files(), "a byte was changed");

    // The same zeros in a sealed segment are damage.
    let sealed = killed.copy();
    let path = sealed.segment(1);
    std::fs::File::options()
        .write(true)
        .open(&path)
        .unwrap()
        .set_len(len + 4096)
        .unwrap();
    let error = sealed.options().open(sealed.data()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged(_)), "{error}");
}

#[test]
fn trial_b10_a_failed_sync_is_never_forgotten() {
    let disk = FaultyDisk::default();
    let place = Place::new();
    let journal = place
        .options()
        .disk(Arc::new(disk.clone()))
        .open_or_create(place.data())
        .unwrap();
    append(&journal, vec![note("r", "acknowledged")]).unwrap();
    let syncs = disk.passed(Site::GroupSync);

    disk.fail(Site::GroupSync, Fault::Error(EIO), 1);
    let error = append(&journal, vec![note("r", "under the failed sync")]).unwrap_err();
    assert!(matches!(error, AppendError::Unsettled { .. }), "{error}");
    // The next sync would succeed, and is not tried.
    for _ in 0..3 {
        let error = begin(&journal, vec![intent("r", "a")]).unwrap_err();
        assert!(matches!(error, AppendError::Disabled { .. }), "{error}");
    }
    assert_eq!(disk.passed(Site::GroupSync), syncs);
    assert!(journal.disabled().unwrap().contains("sync of the log"));
    assert!(journal.put_blob(b"x").is_err());
    // Reading what is durable still works.
    assert_eq!(notes(&journal, "r"), ["acknowledged"]);
    drop(journal);

    let journal = place.open();
    assert_eq!(journal.disabled(), None);
    let found = notes(&journal, "r");
    assert_eq!(found[0], "acknowledged");
    append(&journal, vec![note("r", "after")]).unwrap();
    drop(journal);
    assert_eq!(notes(&place.open(), "r").last().unwrap(), "after");
}

#[test]
fn trial_b11_an_unsynced_tail_is_made_durable_before_it_is_trusted() {
    let place = Place::new();
    closed(&place, 3);
    let killed = killed_before_sync(&place, vec![vec![note("r", "only in the page cache")]]);
    let disk = FaultyDisk::default();
    let journal = killed
        .options()
        .disk(Arc::new(disk.clone()))
        .open(killed.data())
        .unwrap();
    assert_eq!(
        notes(&journal, "r").last().unwrap(),
        "only in the page cache"
    );
    assert!(journal.recovered().rewritten_bytes > 0);
    let order = disk.take_order();
    let at = |site| order.iter().position(|passed| *passed == site).unwrap();
    assert!(at(Site::RecoveryRewrite) < at(Site::RecoverySync));
    assert!(at(Site::RecoverySync) < at(Site::RecoveryDirSync));
    assert!(at(Site::RecoveryDirSync) < at(Site::GroupWrite));
    drop(journal);

    // If it cannot be made durable, the journal does not open.
    let killed = killed_before_sync(&place, vec![vec![note("r", "again")]]);
    let disk = FaultyDisk::default();
    disk.fail(Site::RecoverySync, Fault::Error(EIO), 1);
    let error = killed
        .options()
        .disk(Arc::new(disk))
        .open(killed.data())
        .unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
    assert_eq!(notes(&killed.open(), "r").last().unwrap(), "again");
}

#[test]
fn trial_b13_a_second_opener_is_refused_and_names_the_owner() {
    let place = Place::new();
    let journal = place.open();
    journal.set_socket(Some(Path::new("/run/x.sock"))).unwrap();
    append(&journal, vec![note("r", "x")]).unwrap();
    let link = place.root().join("link");
    std::os::unix::fs::symlink(place.data(), &link).unwrap();
    let relative = place.data().join("../data/.");
    // The owner itself still writes these two after it has answered.
    let files = || {
        let mut files = place.files();
        files.retain(|path, _| !path.ends_with("projection.redb") && !path.ends_with("mark"));
        files
    };
    let before = files();
    for path in [place.data(), link, relative] {
        let begun = Instant::now();
        let error = place.options().open_or_create(&path).unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(3));
        let OpenError::Owned { pid, socket, .. } = error else {
            panic!("{error}")
        };
        assert_eq!(pid, std::process::id());
        assert_eq!(socket.as_deref(), Some(Path::new("/run/x.sock")));
        // Reading from outside works all the same.
        assert_eq!(scan::scan(&path, |_| {}).unwrap().end, journal.durable());
    }
    assert!(before == files(), "the second opener touched a file");
    let disk = intendant_journal::disk::RealDisk;
    let owner = intendant_journal::lock::owner(&disk, &place.data())
        .unwrap()
        .unwrap();
    assert_eq!(owner.epoch, journal.epoch());
    drop(journal);
    assert_eq!(
        intendant_journal::lock::owner(&disk, &place.data()).unwrap(),
        None
    );
    place.open();
}

#[test]
fn trial_b12_a_batch_is_never_split() {
    // Every cut of the last group, which holds one batch of twenty entries.
    let place = Place::new();
    closed(&place, 2);
    let batch: Vec<_> = (0..20)
        .map(|number| note("batch", &format!("child {number}")))
        .collect();
    let killed = killed_before_sync(&place, vec![batch]);
    let segment = killed.segment(1);
    let begin = find(&segment, b"child 0") as u64;
    let end = end_of_log(&segment);
    for cut in (begin..end).step_by(97) {
        let copy = killed.copy();
        let file = std::fs::File::options()
            .write(true)
            .open(copy.segment(1))
            .unwrap();
        file.write_all_at(&vec![0; (end - cut) as usize], cut)
            .unwrap();
        let journal = copy.open();
        let found = notes(&journal, "batch").len();
        assert!(found == 0 || found == 20, "{found} of 20");
    }
}

#[test]
fn waiters_of_a_closing_journal_get_their_answer() {
    let disk = FaultyDisk::default();
    let place = Place::new();
    let journal = place
        .options()
        .disk(Arc::new(disk.clone()))
        .open_or_create(place.data())
        .unwrap();
    disk.hold(Site::GroupSync);
    let first = journal.append(Batch {
        entries: vec![note("r", "1")],
        starts_effects: false,
    });
    disk.wait_held(Site::GroupSync);
    let second = journal.append(Batch {
        entries: vec![note("r", "2")],
        starts_effects: false,
    });
    let closing = std::thread::spawn(move || journal.close());
    disk.let_go(Site::GroupSync);
    closing.join().unwrap();
    wait(first).unwrap();
    wait(second).unwrap();
}

/// The first page behind the last byte that is not zero.
fn end_of_log(segment: &Path) -> u64 {
    let bytes = std::fs::read(segment).unwrap();
    let last = bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64;
    (last + 1).next_multiple_of(4096)
}

fn write_at(path: &Path, bytes: &[u8], offset: u64) {
    let file = std::fs::File::options().write(true).open(path).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}
