//! Files that cannot be used, and disks that refuse.

use redb::ReadableTable;

use super::*;

type Spoil = fn(&Path);

#[test]
fn what_cannot_be_used_is_set_aside_unchanged_and_begun_anew() {
    let log = log(100, 3);
    let spoil: [(&str, Spoil); 5] = [
        ("text", |path| {
            std::fs::write(path, "not a database").unwrap()
        }),
        ("cut", |path| {
            let file = std::fs::File::options().write(true).open(path).unwrap();
            file.set_len(5_000).unwrap();
        }),
        ("zeros", |path| {
            std::fs::write(path, vec![0; 100_000]).unwrap()
        }),
        ("other tables", |path| {
            std::fs::remove_file(path).unwrap();
            let database = redb::Database::create(path).unwrap();
            let write = database.begin_write().unwrap();
            let table = redb::TableDefinition::<u64, u64>::new("others");
            write.open_table(table).unwrap().insert(1, 1).unwrap();
            write.commit().unwrap();
        }),
        ("no state", |path| {
            let database = redb::Database::create(path).unwrap();
            let write = database.begin_write().unwrap();
            let table = redb::TableDefinition::<&str, &[u8]>::new("meta");
            write.open_table(table).unwrap().remove("state").unwrap();
            write.commit().unwrap();
        }),
    ];
    for (name, spoil) in spoil {
        let room = Room::new();
        room.open().projection.feed(log.clone());
        spoil(&room.path());
        let spoiled = std::fs::read(room.path()).unwrap();

        let opening = room.open();
        assert_eq!(opening.applied, Sequence(0), "{name}");
        let aside = opening.set_aside.unwrap();
        assert_eq!(aside.path, room.aside(1));
        if !name.contains("tables") && !name.contains("state") {
            // A database that redb could open was closed by it again.
            assert_eq!(std::fs::read(room.aside(1)).unwrap(), spoiled, "{name}");
        }
        opening.projection.feed(log.clone());
        assert_holds(&opening.projection, &log);
    }
}

#[test]
fn a_projection_of_another_journal_is_set_aside_and_a_missing_one_is_not() {
    let room = Room::new();
    let log = log(50, 3);
    room.open().projection.feed(log.clone());
    let opening = room.open_for(JournalId([6; 16])).unwrap();
    assert_eq!(opening.applied, Sequence(0));
    assert!(opening.set_aside.unwrap().why.contains("0606"));
    drop(opening.projection);

    let again = room.open();
    assert_eq!(again.set_aside.unwrap().path, room.aside(2));
    drop(again.projection);
    std::fs::remove_file(room.path()).unwrap();
    assert_eq!(room.open().set_aside, None);
}

#[test]
fn files_set_aside_do_not_fill_the_disk() {
    let room = Room::new();
    for _ in 0..SET_ASIDE_MAX + 3 {
        std::fs::write(room.path(), "not a database").unwrap();
        assert!(room.open().set_aside.is_some());
    }
    let files = std::fs::read_dir(room.folder.path()).unwrap().count();
    assert_eq!(files, usize::try_from(SET_ASIDE_MAX).unwrap() + 1);
}

#[test]
fn a_full_disk_stops_projecting_and_the_next_opening_goes_on() {
    for site in [
        Site::ProjectionWrite,
        Site::ProjectionSetLen,
        Site::ProjectionSync,
    ] {
        let room = Room::new();
        let log = log(60_000, 50);
        room.open().projection.feed(log[..100].to_vec());
        let opening = room.open();
        room.disk.fail(Some((site, io::ErrorKind::StorageFull)));
        // More than is kept between two checkpoints, so that the disk is asked.
        opening.projection.feed(log[100..].to_vec());
        let error = opening.projection.runs(RunFilter::All).unwrap_err();
        assert!(matches!(error, ReadError::Projection { .. }), "{error}");
        // Feeding goes on to cost nothing.
        opening.projection.feed(log[..10].to_vec());
        drop(opening);

        room.disk.fail(None);
        let after = room.open();
        assert_eq!(after.set_aside, None, "{site:?}: the file itself is good");
        assert!(after.applied >= Sequence(100), "what was durable stays");
        let rest = usize::try_from(after.applied.0).unwrap();
        after.projection.feed(log[rest..].to_vec());
        assert_holds(&after.projection, &log);
    }
}

#[test]
fn a_full_disk_at_the_opening_is_an_error_and_sets_nothing_aside() {
    let room = Room::new();
    room.disk
        .fail(Some((Site::ProjectionCreate, io::ErrorKind::StorageFull)));
    let error = room.open_for(JOURNAL).unwrap_err();
    assert!(matches!(error, OpenError::Io { .. }), "{error}");

    room.disk.fail(None);
    drop(room.open());
    room.disk
        .fail(Some((Site::ProjectionWrite, io::ErrorKind::StorageFull)));
    // Opening writes to the file; whether or not it gets by without, the file stays.
    drop(room.open_for(JOURNAL));
    room.disk.fail(None);
    assert_eq!(room.open().set_aside, None);
}

/// redb gives back whatever lies on the disk; the checksum in each value finds it.
#[test]
fn a_changed_value_is_found_and_the_next_opening_rebuilds() {
    let log = log(100, 3);
    let spoil: [fn(&redb::WriteTransaction); 3] = [
        |write| {
            let runs = redb::TableDefinition::<&str, &[u8]>::new("runs");
            let mut runs = write.open_table(runs).unwrap();
            let mut value = runs.get("run-1").unwrap().unwrap().value().to_vec();
            value[9] ^= 1;
            runs.insert("run-1", &*value).unwrap();
        },
        |write| {
            let history = redb::TableDefinition::<(&str, u64), &[u8]>::new("history");
            let mut history = write.open_table(history).unwrap();
            let mut value = history.get(("run-1", 4)).unwrap().unwrap().value().to_vec();
            *value.last_mut().unwrap() ^= 0x80;
            history.insert(("run-1", 4), &*value).unwrap();
        },
        |write| {
            let history = redb::TableDefinition::<(&str, u64), &[u8]>::new("history");
            let mut history = write.open_table(history).unwrap();
            history.remove(("run-1", 4)).unwrap();
        },
    ];
    for spoil in spoil {
        let room = Room::new();
        room.open().projection.feed(log.clone());
        let database = redb::Database::create(room.path()).unwrap();
        let write = database.begin_write().unwrap();
        spoil(&write);
        write.commit().unwrap();
        drop(database);

        let opening = room.open();
        assert_eq!(opening.applied, Sequence(100), "an opening reads no rows");
        let error = opening.projection.history("run-1").unwrap_err();
        assert!(matches!(error, ReadError::Projection { .. }), "{error}");
        assert_eq!(
            opening.projection.history("run-2").unwrap().len(),
            33,
            "other runs are not held up"
        );
        drop(opening);
        assert!(room.aside(1).exists());
        let after = room.open();
        assert_eq!(after.applied, Sequence(0));
        after.projection.feed(log.clone());
        assert_holds(&after.projection, &log);
    }
}

/// Whatever lies in the file, an opening gives a projection, and an answer is right or an error.
#[test]
fn a_file_with_flipped_bits_never_gives_a_wrong_answer() {
    let room = Room::new();
    let log = log(400, 5);
    room.open().projection.feed(log.clone());
    let good = std::fs::read(room.path()).unwrap();
    let (rows, histories) = model(&log);
    // Small steps of a generator, so that every run of the test tries the same places.
    let mut place: u64 = 1;
    let mut noticed = 0;
    for _ in 0..60 {
        place = place
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let mut flipped = good.clone();
        let offset = usize::try_from((place >> 16) % good.len() as u64).unwrap();
        flipped[offset] ^= 1 << (place % 8);
        std::fs::write(room.path(), &flipped).unwrap();

        let opening = room.open();
        let rest = usize::try_from(opening.applied.0).unwrap();
        opening.projection.feed(log[rest..].to_vec());
        noticed += usize::from(opening.set_aside.is_some());
        match opening.projection.runs(RunFilter::All) {
            Ok(found) => assert_eq!(found, rows, "flip at {offset}"),
            Err(error) => assert!(matches!(error, ReadError::Projection { .. }), "{error}"),
        }
        for (run, history) in &histories {
            match opening.projection.history(run) {
                Ok(found) => assert_eq!(&found, history, "flip at {offset}"),
                Err(error) => {
                    assert!(matches!(error, ReadError::Projection { .. }), "{error}");
                    noticed += 1;
                }
            }
        }
    }
    assert!(noticed > 0, "no flip was noticed, so nothing was tested");
}
