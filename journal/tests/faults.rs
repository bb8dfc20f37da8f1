//! Faults of the disk and of what is on it, by their ids in the fault table.
#![allow(clippy::unwrap_used)]

mod support;

use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use intendant_journal::Journal;
use intendant_journal::disk::{RealDisk, Site};
use intendant_journal::error::{AppendError, OpenError};
use intendant_journal::face::{Batch, IntentLog};
use intendant_journal::format::entry::Sequence;
use intendant_journal::scan;
use support::faulty::{EIO, ENOSPC, Fault, FaultyDisk};
use support::*;

fn on(disk: &FaultyDisk, place: &Place) -> Journal {
    place
        .options()
        .disk(Arc::new(disk.clone()))
        .open_or_create(place.data())
        .unwrap()
}

fn hand_over(journal: &Journal, value: &str) -> intendant_journal::face::Append {
    journal.append(Batch {
        entries: vec![note("r", value)],
        starts_effects: false,
    })
}

#[test]
fn fault_a5_a16_a_failed_sync_fails_every_waiter_and_everybody_behind() {
    let disk = FaultyDisk::default();
    let place = Place::new();
    let journal = on(&disk, &place);
    append(&journal, vec![note("r", "acknowledged")]).unwrap();
    disk.hold(Site::GroupSync);
    let busy = hand_over(&journal, "busy");
    disk.wait_held(Site::GroupSync);
    let group: Vec<_> = (0..20)
        .map(|number| hand_over(&journal, &number.to_string()))
        .collect();
    disk.let_one_go(Site::GroupSync);
    wait(busy).unwrap();
    disk.wait_held(Site::GroupSync);
    let behind: Vec<_> = (0..20).map(|_| hand_over(&journal, "behind")).collect();
    disk.fail(Site::GroupSync, Fault::Error(EIO), 1);
    disk.let_go(Site::GroupSync);
    for append in group {
        let error = wait(append).unwrap_err();
        assert!(matches!(error, AppendError::Unsettled { .. }), "{error}");
    }
    for append in behind {
        let error = wait(append).unwrap_err();
        assert!(matches!(error, AppendError::Disabled { .. }), "{error}");
    }
    drop(journal);
    let found = notes(&place.open(), "r");
    assert_eq!(found[..2], ["acknowledged", "busy"]);
    assert!(
        !found.contains(&"behind".to_owned()),
        "what was refused turned up"
    );
}

#[test]
fn fault_a5_a_failed_sync_while_a_segment_is_made_ready_disables_too() {
    for site in [Site::SegmentSync, Site::SegmentDirSync] {
        let disk = FaultyDisk::default();
        let place = Place::new();
        let journal = on(&disk, &place);
        disk.fail(site, Fault::Error(EIO), u32::MAX);
        let error = loop {
            match begin(&journal, vec![note("r", &"x".repeat(10_000))]) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(
            matches!(error, AppendError::Disabled { .. }),
            "{site:?}: {error}"
        );
        assert!(journal.disabled().is_some());
        drop(journal);
        place.open();
    }
}

#[test]
fn fault_a6_disk_full_refuses_intents_and_records_endings() {
    let disk = FaultyDisk::default();
    let place = Place::new();
    let journal = on(&disk, &place);
    let inline = "o".repeat(journal.inline_max_bytes() - 2);
    disk.fail(Site::SegmentFill, Fault::Error(ENOSPC), u32::MAX);

    // Intents go on while there is room, and never beyond what their endings need.
    let mut open = Vec::new();
    let error = loop {
        let path = format!("step/{}", open.len());
        let entries = vec![
            started(&path),
            intent(&path, &path),
            note(&path, &"n".repeat(2_000)),
        ];
        match begin(&journal, entries) {
            Ok(_) => open.push(path),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, AppendError::NoSpace { .. }), "{error}");
    assert!(error.to_string().contains("nothing was begun"), "{error}");
    assert!(!open.is_empty());
    let durable = journal.durable();
    assert!(begin(&journal, vec![intent("again", "again")]).is_err());
    assert_eq!(journal.durable(), durable, "a refused intent is nowhere");

    // The same on a reopening while the disk is full: the count of open intents comes back.
    drop(journal);
    let journal = on(&disk, &place);
    assert_eq!(journal.recovered().open_intents, open.len() as u64);
    assert!(begin(&journal, vec![intent("again", "again")]).is_err());

    // Every one of them can be ended, with an output of the inline limit and alone in its group.
    for path in &open {
        let output = format!("\"{inline}\"");
        append(&journal, vec![outcome(path, path, output)]).unwrap();
    }
    assert_eq!(journal.disabled(), None);

    // Work resumes when space returns, without a restart.
    disk.heal();
    let until = Instant::now() + Duration::from_secs(20);
    while begin(&journal, vec![intent("resumed", "resumed")]).is_err() {
        assert!(
            Instant::now() < until,
            "space came back, and nobody noticed"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(journal);
    let journal = place.open();
    assert_eq!(journal.recovered().open_intents, 1);
    assert!(journal.history("again").unwrap().is_empty());
    scan::verify(place.data()).unwrap();
}

#[test]
fn fault_a7_short_writes_are_gone_on_with() {
    let disk = FaultyDisk::default();
    let place = Place::new();
    disk.fail(Site::SegmentFill, Fault::Short, 3);
    disk.fail(Site::SegmentHeader, Fault::Short, 1);
    let journal = on(&disk, &place);
    for number in 0..40 {
        disk.fail(Site::GroupWrite, Fault::Short, 7);
        append(
            &journal,
            vec![note("r", &format!("{number}{}", "x".repeat(3_000)))],
        )
        .unwrap();
    }
    drop(journal);
    disk.heal();
    assert_eq!(notes(&place.open(), "r").len(), 40);
    scan::verify(place.data()).unwrap();
}

#[test]
fn fault_a7_a_failed_write_that_cannot_be_wiped_out_is_unsettled() {
    let disk = FaultyDisk::default();
    let place = Place::new();
    let journal = on(&disk, &place);
    disk.fail(Site::GroupWrite, Fault::ShortThen(EIO), 1);
    disk.fail(Site::GroupZeroSync, Fault::Error(EIO), 1);
    let error = append(&journal, vec![note("r", "x")]).unwrap_err();
    assert!(matches!(error, AppendError::Unsettled { .. }), "{error}");
    let error = append(&journal, vec![note("r", "y")]).unwrap_err();
    assert!(matches!(error, AppendError::Disabled { .. }), "{error}");
    drop(journal);
    place.open();
}

#[test]
fn fault_a9_a_zero_filled_tail_is_the_end_of_the_log() {
    let place = Place::new();
    let journal = place.open();
    append(&journal, vec![note("r", "x")]).unwrap();
    drop(journal);
    let journal = place.open();
    assert_eq!(journal.recovered().cut_bytes, 0);
    assert_eq!(journal.recovered().end, Sequence(2));
}

/// A small closed journal: two sealed segments' worth of entries would take too long here, so one
/// segment in use and its spare.
fn small() -> Place {
    let place = Place::new();
    let journal = place.open();
    append(&journal, vec![started("r"), note("r", "one")]).unwrap();
    append(&journal, vec![note("r", "two")]).unwrap();
    append(&journal, vec![note("r", "three"), note("r", "four")]).unwrap();
    journal.close();
    place
}

fn all_notes(place: &Place) -> Result<Vec<String>, Box<OpenError>> {
    let mut notes = Vec::new();
    scan::scan(place.data(), |recorded| notes.extend(value(&recorded)))?;
    Ok(notes)
}

#[test]
fn fault_a10_every_flipped_byte_is_found_or_harmless() {
    let place = small();
    let whole = ["one", "two", "three", "four"];
    assert_eq!(all_notes(&place).unwrap(), whole);
    let mut errors = 0;
    let mut checked = 0;
    for name in [
        "journal/0000000000000001.seg",
        "journal/0000000000000002.seg",
        "mark",
        "IDENTITY",
    ] {
        let path = place.data().join(name);
        let bytes = std::fs::read(&path).unwrap();
        let used = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        for (at, byte) in bytes.iter().enumerate() {
            // Zeros far from anything are alike: every one near, a sample of the others.
            let near = at < used
                && bytes[at.saturating_sub(32)..(at + 32).min(used)]
                    .iter()
                    .any(|b| *b != 0);
            if !near && at % 251 != 0 {
                continue;
            }
            checked += 1;
            file.write_all_at(&[byte ^ 0x21], at as u64).unwrap();
            match all_notes(&place) {
                Ok(found) => assert_eq!(found, whole, "{name}, byte {at}: silently lost"),
                Err(_) => errors += 1,
            }
            file.write_all_at(&[*byte], at as u64).unwrap();
        }
    }
    assert!(errors > 500 && checked > 1_500, "{errors} of {checked}");
    assert_eq!(all_notes(&place).unwrap(), whole);
}

#[test]
fn fault_a10_an_opening_refuses_damage_and_changes_no_byte() {
    let place = small();
    let path = place.segment(1);
    let bytes = std::fs::read(&path).unwrap();
    let used = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let mut refused = 0;
    for at in (0..used)
        .filter(|at| bytes[*at] != 0)
        .step_by(13)
        .chain([used + 9, 50_000])
    {
        let copy = place.copy();
        flip(&copy.segment(1), at);
        let before = copy.files();
        match copy.options().open(copy.data()) {
            Ok(journal) => {
                assert_eq!(
                    notes(&journal, "r"),
                    ["one", "two", "three", "four"],
                    "byte {at}"
                );
                assert!(
                    journal.recovered().cut_bytes > 0,
                    "byte {at} was not reported"
                );
            }
            Err(error) => {
                refused += 1;
                let damage = matches!(error, OpenError::Damaged(_));
                assert!(damage, "byte {at}: {error}");
                assert!(before == copy.files(), "byte {at}: a byte was changed");
            }
        }
    }
    assert!(refused > 20);
}

#[test]
fn fault_a11_a_damaged_last_acknowledged_batch_is_not_taken_for_a_torn_end() {
    let place = small();
    let at = find(&place.segment(1), b"three");

    // The mark remembers it.
    let copy = place.copy();
    flip(&copy.segment(1), at);
    let error = copy.options().open(copy.data()).unwrap_err();
    assert!(error.to_string().contains("entries 5 to 6"), "{error}");

    // So does the projection.
    std::fs::remove_file(copy.data().join("mark")).unwrap();
    let before = std::fs::read(copy.segment(1)).unwrap();
    let error = copy.options().open(copy.data()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged(_)), "{error}");
    assert!(
        before == std::fs::read(copy.segment(1)).unwrap(),
        "the evidence was changed"
    );

    // With zeros in its place the log ends cleanly, and too early.
    let copy = place.copy();
    let mut bytes = std::fs::read(copy.segment(1)).unwrap();
    let page = at - at % 4096;
    bytes[page..].fill(0);
    std::fs::write(copy.segment(1), &bytes).unwrap();
    let error = copy.options().open(copy.data()).unwrap_err();
    assert!(error.to_string().contains("offset"), "{error}");
    let OpenError::Shortened {
        path,
        segment,
        offset,
        end,
        durable,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!((end, durable), (Sequence(4), Sequence(6)));
    assert_eq!((path, segment), (copy.segment(1), Some(1)));
    let offset = usize::try_from(offset).unwrap();
    assert!(
        (4097..=page).contains(&offset) && bytes[offset..].iter().all(|byte| *byte == 0),
        "the end is not at {offset}"
    );

    // A log with nothing in it, for a journal that is recorded outside.
    let path = place.segment(1);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[4096..].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    std::fs::remove_file(place.data().join("mark")).unwrap();
    std::fs::remove_file(place.data().join("projection.redb")).unwrap();
    let error = place.options().open(place.data()).unwrap_err();
    assert!(matches!(error, OpenError::Shortened { .. }), "{error}");
}

#[test]
fn fault_a12_stale_frames_behind_a_torn_batch_never_come_back() {
    let place = small();
    // Three batches in one group, of which the first is torn: the others are an island.
    let batches = ["torn", "island one", "island two"];
    let killed = killed_before_sync(&place, batches.map(|text| vec![note("r", text)]).into());
    let at = find(&killed.segment(1), b"torn");
    flip(&killed.segment(1), at);
    let journal = killed.open();
    assert!(journal.recovered().cut_bytes > 0);
    assert_eq!(notes(&journal, "r").len(), 4);
    append(&journal, vec![note("r", "x")]).unwrap();
    drop(journal);
    for _ in 0..2 {
        let journal = killed.open();
        assert_eq!(journal.recovered().cut_bytes, 0);
        assert_eq!(notes(&journal, "r"), ["one", "two", "three", "four", "x"]);
    }
    let bytes = std::fs::read(killed.segment(1)).unwrap();
    assert!(!bytes.windows(6).any(|window| window == b"island"));
}

#[test]
fn fault_a3_a_torn_group_is_cut_whatever_part_of_it_survived() {
    let place = small();
    let batches: Vec<_> = (0..6)
        .map(|number| vec![note("r", &format!("torn {number} {}", "t".repeat(1_500)))])
        .collect();
    let killed = killed_before_sync(&place, batches);
    let bytes = std::fs::read(killed.segment(1)).unwrap();
    let begin = find(&killed.segment(1), b"torn 0") / 512;
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() / 512 + 1;
    // Every set of sectors that a small generator picks may have been lost.
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    for _ in 0..25 {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let copy = killed.copy();
        let mut torn = bytes.clone();
        for (index, sector) in (begin..end).enumerate() {
            if random >> (index % 64) & 1 == 1 {
                torn[sector * 512..(sector + 1) * 512].fill(0);
            }
        }
        std::fs::write(copy.segment(1), &torn).unwrap();
        let journal = copy.open();
        let found = notes(&journal, "r");
        assert_eq!(found[..4], ["one", "two", "three", "four"]);
        for (number, text) in found[4..].iter().enumerate() {
            assert!(
                text.starts_with(&format!("torn {number}")),
                "an island was adopted"
            );
        }
        append(&journal, vec![note("r", "after")]).unwrap();
        let expected = found.len() + 1;
        drop(journal);
        let journal = copy.open();
        assert_eq!(journal.recovered().cut_bytes, 0);
        assert_eq!(notes(&journal, "r").len(), expected);
    }
}

#[test]
fn fault_a13_missing_renamed_doubled_and_foreign_segments_are_refused() {
    let place = Place::new();
    let journal = place.open();
    for number in 0..80 {
        append(
            &journal,
            vec![note("r", &format!("{number}{}", "x".repeat(3_000)))],
        )
        .unwrap();
    }
    drop(journal);
    let copy = |change: &dyn Fn(&Place)| {
        let copy = place.copy();
        change(&copy);
        let before = copy.files();
        let error = copy.options().open(copy.data()).unwrap_err();
        assert!(before == copy.files(), "a byte was changed: {error}");
        error.to_string()
    };
    let remove = |number: u64| move |p: &Place| std::fs::remove_file(p.segment(number)).unwrap();
    assert!(copy(&remove(1)).contains("missing"));
    assert!(copy(&remove(2)).contains("missing"));
    let renamed =
        |p: &Place| std::fs::rename(p.segment(1), p.data().join("journal/1.seg")).unwrap();
    assert!(copy(&renamed).contains("renamed"));
    let doubled = |p: &Place| assert!(std::fs::copy(p.segment(1), p.segment(2)).is_ok());
    assert!(copy(&doubled).contains("under another name"));
    let empty = |p: &Place| std::fs::write(p.segment(2), b"").unwrap();
    assert!(copy(&empty).contains("without header"));
    let swapped = |p: &Place| {
        let held = p.data().join("held");
        std::fs::rename(p.segment(1), &held).unwrap();
        std::fs::rename(p.segment(2), p.segment(1)).unwrap();
        std::fs::rename(&held, p.segment(2)).unwrap();
    };
    assert!(copy(&swapped).contains("under another name"));
    let other = small();
    let foreign = |p: &Place| assert!(std::fs::copy(other.segment(1), p.segment(1)).is_ok());
    assert!(copy(&foreign).contains("a segment of journal"));
    // The last ones in use: only the witnesses know.
    let last = (1..)
        .take_while(|number| place.segment(*number).exists())
        .last()
        .unwrap();
    let truncated = |p: &Place| {
        std::fs::remove_file(p.segment(last)).unwrap();
        std::fs::remove_file(p.segment(last - 1)).unwrap();
    };
    assert!(copy(&truncated).contains("are lost"));
}

#[test]
fn fault_a13_a_newer_version_is_refused() {
    let place = small();
    let path = place.data().join("IDENTITY");
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"format\":1"));
    std::fs::write(&path, text.replace("\"format\":1", "\"format\":2")).unwrap();
    let error = place.options().open(place.data()).unwrap_err();
    assert!(
        matches!(
            error,
            OpenError::Newer {
                found: 2,
                known: 1,
                ..
            }
        ),
        "{error}"
    );
    let error = scan::scan(place.data(), |_| {}).unwrap_err();
    assert!(matches!(error, OpenError::Newer { .. }), "{error}");
}

#[test]
fn fault_a14_a_journal_that_is_gone_is_not_a_fresh_start() {
    let place = small();
    let id = {
        let journal = place.open();
        journal.id()
    };
    let moved = place.root().join("moved");
    std::fs::rename(place.data(), &moved).unwrap();
    for empty in [false, true] {
        if empty {
            std::fs::create_dir(place.data()).unwrap();
        }
        for error in [
            place.options().open(place.data()).unwrap_err(),
            place.options().open_or_create(place.data()).unwrap_err(),
        ] {
            assert!(matches!(error, OpenError::Gone { .. }), "{error}");
            assert!(error.to_string().contains(&id.to_string()), "{error}");
            assert!(error.to_string().contains("--new-journal"), "{error}");
        }
    }
    // Another journal in its place is not it either.
    let other = small();
    copy_tree(&other.data(), &place.data());
    let error = place.options().open(place.data()).unwrap_err();
    assert!(matches!(error, OpenError::Gone { .. }), "{error}");
    std::fs::remove_dir_all(place.data()).unwrap();

    // Deliberately a new one; from then on it is the one that is known.
    let journal = place
        .options()
        .new_journal(true)
        .open_or_create(place.data())
        .unwrap();
    assert_ne!(journal.id(), id);
    let new = journal.id();
    drop(journal);
    assert_eq!(place.open().id(), new);
    // The old one, brought to another place, opens there.
    let journal = place.options().open(&moved).unwrap();
    assert_eq!(journal.id(), id);
    assert_eq!(notes(&journal, "r").len(), 4);
}

#[test]
fn folders_that_hold_something_else_are_left_alone() {
    let place = Place::new();
    let missing = place.options().open(place.data()).unwrap_err();
    assert!(matches!(missing, OpenError::Missing { .. }), "{missing}");
    assert!(!place.data().exists(), "opening creates nothing");

    std::fs::create_dir(place.data()).unwrap();
    std::fs::write(place.data().join("notes.txt"), "mine").unwrap();
    let before = place.files();
    for error in [
        place.options().open(place.data()).unwrap_err(),
        place.options().open_or_create(place.data()).unwrap_err(),
        scan::scan(place.data(), |_| {}).unwrap_err(),
    ] {
        assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    }
    assert!(before == place.files());

    let file = place.root().join("file");
    std::fs::write(&file, "x").unwrap();
    let error = place.options().open_or_create(&file).unwrap_err();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
    let error = place
        .options()
        .segment_bytes(1000)
        .open_or_create(place.root().join("n"))
        .unwrap_err();
    assert!(error.to_string().contains("multiple of 4096"), "{error}");
}

#[test]
fn fault_a14_an_unreadable_identity_is_no_absence() {
    let place = small();
    let identity = place.data().join("IDENTITY");
    std::fs::write(&identity, "{").unwrap();
    let error = place.options().open_or_create(place.data()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged(_)), "{error}");
    assert!(!error.to_string().contains("--data"), "{error}");
    std::fs::remove_file(&identity).unwrap();
    std::fs::create_dir(&identity).unwrap();
    let error = place.options().open_or_create(place.data()).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");
}

#[test]
fn an_interrupted_creation_is_gone_on_with() {
    // Every operation of the creation fails once; the next try succeeds.
    for site in [
        Site::FolderSync,
        Site::LockWrite,
        Site::IdentityWrite,
        Site::IdentityRename,
        Site::IdentityDirSync,
        Site::SegmentsDirCreate,
        Site::SegmentsDirSync,
        Site::SegmentCreate,
        Site::SegmentFill,
        Site::SegmentRename,
        Site::SegmentDirSync,
        Site::MarkCreate,
        Site::GroupWrite,
        Site::GroupSync,
        Site::RecordRename,
        Site::RecordDirSync,
    ] {
        let place = Place::new();
        let disk = FaultyDisk::default();
        disk.fail(site, Fault::Error(EIO), 4);
        let result = place
            .options()
            .disk(Arc::new(disk))
            .open_or_create(place.data());
        assert!(result.is_err(), "{site:?} did not matter");
        drop(result);
        let journal = place.open();
        append(&journal, vec![note("r", "x")]).unwrap();
        drop(journal);
        assert_eq!(notes(&place.open(), "r"), ["x"], "{site:?}");
    }
}

#[test]
fn the_owner_is_none_where_there_is_no_journal() {
    let place = Place::new();
    assert_eq!(
        intendant_journal::lock::owner(&RealDisk, &place.data()).unwrap(),
        None
    );
}
