//! A missing or empty folder where a journal was expected is not a fresh start.

use std::path::Path;

use intendant_journal::disk::simulated::SimulatedDisk;
use intendant_journal::disk::{Site, create_dirs};
use intendant_journal::error::OpenError;
use intendant_journal::scan;

use crate::specimen::{DATA, ROOT, Specimen, data, options};

/// What is left of the folder.
type Left = (&'static str, fn(&Path) -> bool);
const LEFT: &[Left] = &[
    ("nothing", |_| false),
    ("the lock", |path| path == data("LOCK")),
    ("an interrupted identity", |path| {
        path == data("IDENTITY.tmp")
    }),
    ("the mark", |path| path == data("mark")),
    ("the projection", |path| path == data("projection.redb")),
    ("blobs", |path| path.starts_with(data("blobs"))),
    ("all but the log and the identity", |path| {
        !path.starts_with(data("journal")) && path != data("IDENTITY")
    }),
];

#[test]
fn fault_a14_an_absent_journal_is_not_a_fresh_start() {
    let mut specimen = Specimen::closed();
    specimen.files.insert(data("IDENTITY.tmp"), b"{".to_vec());
    for (what, is_left) in LEFT {
        for folder_exists in [false, true] {
            let mut files = specimen.files.clone();
            files.retain(|path, _| !path.starts_with(DATA) || is_left(path));
            let disk = SimulatedDisk::holding(&files);
            if folder_exists {
                create_dirs(&disk, Path::new(DATA), Site::FolderCreate, Site::FolderSync).unwrap();
            }
            let before = disk.contents(Path::new(ROOT));
            for error in [
                options(&disk).open(DATA).unwrap_err(),
                options(&disk).open_or_create(DATA).unwrap_err(),
            ] {
                let OpenError::Gone { path, id } = &error else {
                    panic!("{what}: {error}")
                };
                assert_eq!((&**path, id), (Path::new(DATA), &specimen.id.to_string()));
                assert!(error.to_string().contains("--new-journal"), "{error}");
            }
            let outside = scan::verify_on(std::sync::Arc::new(disk.clone()), Path::new(DATA));
            let outside = outside.unwrap_err();
            let absent = matches!(
                outside,
                OpenError::Missing { .. } | OpenError::Foreign { .. }
            );
            assert!(absent, "{what}: {outside}");
            assert!(
                disk.contents(Path::new(ROOT)) == before,
                "{what}: something was changed"
            );
        }
    }
}

#[test]
fn fault_a14_the_log_removed_and_the_identity_left() {
    let specimen = Specimen::closed();
    for also in [vec![], vec!["mark"], vec!["mark", "projection.redb"]] {
        let mut files = specimen.files.clone();
        files.retain(|path, _| !path.starts_with(data("journal")));
        for name in &also {
            files.remove(&data(name)).unwrap();
        }
        let disk = SimulatedDisk::holding(&files);
        let error = options(&disk).open_or_create(DATA).unwrap_err();
        let OpenError::Damaged(damage) = &error else {
            panic!("without {also:?}: {error}")
        };
        assert_eq!(damage.segment, Some(1));
        assert!(damage.to_string().contains("missing"), "{damage}");
        assert!(
            disk.contents(Path::new(ROOT)) == files,
            "something was changed"
        );
    }
}
