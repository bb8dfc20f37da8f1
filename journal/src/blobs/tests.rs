use super::*;
use crate::disk::watched::WatchedDisk;

struct Room {
    folder: tempfile::TempDir,
    disk: WatchedDisk,
}

impl Room {
    fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            disk: WatchedDisk::default(),
        }
    }

    /// A new opening.
    fn blobs(&self) -> Blobs {
        self.disk.fail(None);
        Blobs::new(
            Arc::new(self.disk.clone()),
            self.folder.path().join("blobs"),
        )
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for fan in std::fs::read_dir(self.folder.path().join("blobs")).unwrap() {
            for file in std::fs::read_dir(fan.unwrap().path()).unwrap() {
                found.push(file.unwrap().path());
            }
        }
        found
    }
}

const CONTENT: &[u8] = b"a payload";

#[test]
fn content_is_found_by_its_hash_in_any_opening() {
    let room = Room::new();
    let blob = room.blobs().put(CONTENT).unwrap();
    let empty = room.blobs().put(b"").unwrap();
    assert_eq!(room.blobs().get(&blob).unwrap(), CONTENT);
    assert_eq!(room.blobs().get(&empty).unwrap(), b"");
    let name = blob.sha256.to_string();
    let path = room
        .folder
        .path()
        .join("blobs")
        .join(&name[..2])
        .join(&name);
    assert_eq!(std::fs::read(path).unwrap(), CONTENT);
}

#[test]
fn everything_is_synced_before_put_returns() {
    let room = Room::new();
    room.blobs().put(CONTENT).unwrap();
    let sites = room.disk.take_sites();
    let order = [
        Site::BlobDirCreate,
        Site::BlobDirSync,
        Site::BlobDirCreate,
        Site::BlobDirSync,
        Site::BlobCreate,
        Site::BlobWrite,
        Site::BlobSync,
        Site::BlobRename,
        Site::BlobDirSync,
    ];
    let mut left = order.iter().peekable();
    for site in &sites {
        if left.peek() == Some(&site) {
            left.next();
        }
    }
    assert_eq!(left.next(), None, "{sites:?}");
    assert_eq!(sites.last(), Some(&Site::BlobDirSync));
}

#[test]
fn the_same_content_again_costs_nothing_and_later_a_sync_of_the_folder() {
    let room = Room::new();
    let blobs = room.blobs();
    let blob = blobs.put(CONTENT).unwrap();
    room.disk.take_sites();
    assert_eq!(blobs.put(CONTENT).unwrap(), blob);
    assert_eq!(room.disk.take_sites(), []);

    // A later opening cannot know whether the name was durable.
    assert_eq!(room.blobs().put(CONTENT).unwrap(), blob);
    let sites = room.disk.take_sites();
    assert!(!sites.contains(&Site::BlobWrite), "{sites:?}");
    assert_eq!(sites.last(), Some(&Site::BlobDirSync));
}

#[test]
fn damage_is_reported_and_healed_by_storing_the_content_again() {
    let damages: [fn(&Path); 4] = [
        |path| std::fs::write(path, b"b payload").unwrap(),
        |path| std::fs::write(path, b"a payload.").unwrap(),
        |path| std::fs::write(path, b"").unwrap(),
        |path| std::fs::remove_file(path).unwrap(),
    ];
    for damage in damages {
        let room = Room::new();
        let blob = room.blobs().put(CONTENT).unwrap();
        damage(&room.blobs().path(&blob));
        let error = room.blobs().get(&blob).unwrap_err();
        let ReadError::Damaged(found) = &error else {
            panic!("{error}");
        };
        assert_eq!(found.path, room.blobs().path(&blob));
        room.blobs().put(CONTENT).unwrap();
        assert_eq!(room.blobs().get(&blob).unwrap(), CONTENT);
    }
}

#[test]
fn a_failure_anywhere_promises_nothing_and_the_next_opening_stores_it() {
    let sites = [
        Site::BlobDirCreate,
        Site::BlobDirSync,
        Site::BlobCreate,
        Site::BlobWrite,
        Site::BlobSync,
        Site::BlobRename,
    ];
    for site in sites {
        let room = Room::new();
        let blobs = room.blobs();
        room.disk.fail(Some((site, io::ErrorKind::Other)));
        let error = blobs.put(CONTENT).unwrap_err();
        assert!(matches!(error, AppendError::Refused { .. }), "{error}");
        room.disk.fail(None);
        let after = blobs.put(b"other content").unwrap_err();
        assert!(after.to_string().contains("restart"), "{after}");

        let blobs = room.blobs();
        let blob = blobs.put(CONTENT).unwrap();
        assert_eq!(blobs.get(&blob).unwrap(), CONTENT);
        assert_eq!(room.files().len(), 1, "no temporary file is left");
    }
}

#[test]
fn a_full_disk_is_said_to_be_one_and_storing_goes_on_once_there_is_space() {
    let room = Room::new();
    let blobs = room.blobs();
    for site in [Site::BlobDirCreate, Site::BlobCreate, Site::BlobWrite] {
        room.disk.fail(Some((site, io::ErrorKind::StorageFull)));
        let error = blobs.put(CONTENT).unwrap_err();
        assert!(matches!(error, AppendError::NoSpace { .. }), "{error}");
    }
    room.disk.fail(None);
    let blob = blobs.put(CONTENT).unwrap();
    assert_eq!(blobs.get(&blob).unwrap(), CONTENT);
    assert_eq!(room.files().len(), 1);
}

#[test]
fn many_callers_with_the_same_content_do_not_disturb_each_other() {
    let room = Room::new();
    let blobs = room.blobs();
    std::thread::scope(|scope| {
        for caller in 0..8_u8 {
            let blobs = &blobs;
            scope.spawn(move || {
                for content in 0..20_u8 {
                    let content = vec![content; 10_000];
                    let blob = blobs.put(&content).unwrap();
                    assert_eq!(blobs.get(&blob).unwrap(), content, "caller {caller}");
                }
            });
        }
    });
    assert_eq!(room.files().len(), 20);
}
