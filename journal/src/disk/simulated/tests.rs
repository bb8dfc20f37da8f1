//! The simulated disk against what is promised of it, and against the real one.

use std::path::Path;

use super::*;
use crate::disk::{RealDisk, create_dirs, write_all_at};

const SITE: Site = Site::GroupWrite;

fn path(name: &str) -> PathBuf {
    Path::new("/d").join(name)
}

fn disk() -> SimulatedDisk {
    let disk = SimulatedDisk::new();
    create_dirs(&disk, Path::new("/d"), Site::FolderCreate, Site::FolderSync).unwrap();
    disk
}

fn created(disk: &SimulatedDisk, name: &str, content: &[u8]) -> Arc<dyn DiskFile> {
    let file = disk.create(&path(name), SITE).unwrap();
    write_all_at(&*file, content, 0, SITE).unwrap();
    file
}

#[test]
fn fault_a2_what_was_not_synced_may_be_lost_and_what_was_stays() {
    let disk = disk();
    let file = created(&disk, "a", b"old");
    file.sync_all(SITE).unwrap();
    disk.sync_dir(Path::new("/d"), SITE).unwrap();
    file.write_at(b"new!", 0, SITE).unwrap();
    let open = disk.unsynced();
    assert_eq!(open.len(), 2, "bytes and length: {open:?}");
    for (fates, expected) in [
        ([Fate::Lost, Fate::Lost], &b"old"[..]),
        ([Fate::Whole, Fate::Lost], b"new"),
        ([Fate::Lost, Fate::Whole], b"old\0"),
        ([Fate::Whole, Fate::Whole], b"new!"),
        ([Fate::Prefix(1), Fate::Whole], b"nld\0"),
    ] {
        let after = disk.cut(&fates);
        assert_eq!(after.bytes(&path("a")).unwrap(), expected, "{fates:?}");
        assert!(after.all_durable());
    }
    assert_eq!(disk.killed().bytes(&path("a")).unwrap(), b"new!");
    assert_eq!(
        disk.killed().unsynced(),
        open,
        "a kill makes nothing durable"
    );
    file.sync_data(SITE).unwrap();
    assert!(disk.all_durable());
    assert_eq!(disk.cut(&[]).bytes(&path("a")).unwrap(), b"new!");
}

#[test]
fn fault_a8_names_are_durable_by_a_sync_of_their_folder_alone() {
    let disk = disk();
    let file = created(&disk, "a.tmp", b"content");
    file.sync_all(SITE).unwrap();
    assert!(disk.cut(&[Fate::Lost]).files().is_empty());
    disk.rename(&path("a.tmp"), &path("a"), SITE).unwrap();
    let names = |fates: &[Fate]| disk.cut(fates).list(Path::new("/d")).unwrap();
    assert_eq!(names(&[Fate::Whole, Fate::Lost]), ["a.tmp"]);
    assert_eq!(names(&[Fate::Lost, Fate::Whole]), ["a"]);
    assert_eq!(names(&[Fate::Whole, Fate::Whole]), ["a"]);
    assert!(names(&[Fate::Lost, Fate::Lost]).is_empty());
    disk.sync_dir(Path::new("/d"), SITE).unwrap();
    assert_eq!(disk.cut(&[]).bytes(&path("a")).unwrap(), b"content");
    disk.remove(&path("a"), SITE).unwrap();
    assert_eq!(names(&[Fate::Lost]), ["a"]);
    assert!(names(&[Fate::Whole]).is_empty());
}

#[test]
fn fault_a5_a_sync_after_a_failed_one_helps_only_what_is_written_again() {
    let disk = disk();
    let file = created(&disk, "a", &[1; 8192]);
    file.sync_all(SITE).unwrap();
    disk.sync_dir(Path::new("/d"), SITE).unwrap();
    file.write_at(&[2; 8192], 0, SITE).unwrap();
    disk.plan_fault(
        Calls::Changes,
        disk.changes(),
        Fault::Error(io::ErrorKind::Other),
    );
    file.sync_data(SITE).unwrap_err();
    assert_eq!(disk.faults_met(), 1);
    file.sync_data(SITE).unwrap();
    assert_eq!(
        disk.bytes(&path("a")).unwrap(),
        [2; 8192],
        "it is still seen"
    );
    let after = disk.cut(&[Fate::Lost, Fate::Lost]);
    assert_eq!(
        after.bytes(&path("a")).unwrap(),
        [1; 8192],
        "and was never durable"
    );
    file.write_at(&[3; 10], 0, SITE).unwrap();
    file.sync_data(SITE).unwrap();
    let after = disk.cut(&[Fate::Lost]).bytes(&path("a")).unwrap();
    assert_eq!(after[..4096], [&[3; 10][..], &[2; 4086]].concat());
    assert_eq!(after[4096..], [1; 4096]);
}

#[test]
fn fault_a6_a7_short_writes_and_quotas() {
    let disk = disk();
    let file = created(&disk, "a", &[1; 100]);
    disk.set_quota(Some(150));
    assert_eq!(file.write_at(&[2; 100], 100, SITE).unwrap(), 50);
    let full = file.write_at(&[2; 50], 150, SITE).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    assert_eq!(
        file.write_at(&[3; 150], 0, SITE).unwrap(),
        150,
        "overwriting"
    );
    file.set_len(151, SITE).unwrap_err();
    disk.set_quota(None);
    disk.plan_fault(Calls::Changes, disk.changes(), Fault::Short);
    assert_eq!(file.write_at(&[4; 100], 150, SITE).unwrap(), 50);
    file.write_at(&[4; 50], 200, SITE).unwrap_err();
    disk.set_quota(None);
    file.write_at(&[4; 50], 200, SITE).unwrap();
}

#[test]
fn faults_meet_reads_and_flips_change_a_bit_everywhere() {
    let disk = disk();
    let file = created(&disk, "a", &[0; 10]);
    disk.plan_fault(
        Calls::Reads,
        disk.reads() + 1,
        Fault::Error(io::ErrorKind::Other),
    );
    file.len().unwrap();
    file.len().unwrap_err();
    file.sync_all(SITE).unwrap();
    disk.flip(&path("a"), 3, 7).unwrap();
    disk.flip(&path("a"), 10, 0).unwrap();
    let expected = [0, 0, 0, 128, 0, 0, 0, 0, 0, 0];
    assert_eq!(disk.bytes(&path("a")).unwrap(), expected);
    assert_eq!(
        disk.cut(&[Fate::Whole]).bytes(&path("a")).unwrap(),
        expected
    );
}

#[test]
fn the_witness_sees_the_disk_before_each_change() {
    let disk = disk();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let theirs = Arc::clone(&seen);
    disk.watch(move |disk, operation| {
        let names = disk.killed().list(Path::new("/d")).unwrap();
        theirs
            .lock()
            .unwrap()
            .push((operation.what.clone(), names.len()));
    });
    created(&disk, "a", b"x");
    disk.unwatch();
    created(&disk, "b", b"x");
    let seen = seen.lock().unwrap();
    assert_eq!(
        *seen,
        [
            ("creation".to_owned(), 0),
            ("write of 1 bytes at 0".to_owned(), 1)
        ]
    );
}

#[test]
fn locks_end_with_their_handle_and_not_beyond_a_crash() {
    let disk = disk();
    let first = created(&disk, "a", b"");
    let open = || disk.open(&path("a"), Access::Read).unwrap();
    assert!(first.try_lock(Lock::Exclusive).unwrap());
    assert!(!open().try_lock(Lock::Shared).unwrap());
    let after = disk.killed();
    let survivor = after.open(&path("a"), Access::Read).unwrap();
    assert!(survivor.try_lock(Lock::Exclusive).unwrap());
    drop(first);
    let (one, two) = (open(), open());
    assert!(one.try_lock(Lock::Shared).unwrap());
    assert!(two.try_lock(Lock::Shared).unwrap());
    assert!(!open().try_lock(Lock::Exclusive).unwrap());
    drop(one);
    drop(two);
    assert!(open().try_lock(Lock::Exclusive).unwrap());
}

/// Does the same to both disks and compares what each call says and what is there in the end.
#[test]
fn it_behaves_like_the_real_disk_while_nothing_crashes() {
    fn play(disk: &dyn Disk, root: &Path) -> Vec<String> {
        let at = |name: &str| root.join(name);
        let kind = |error: io::Error| error.kind();
        let mut said = Vec::new();
        let mut say = |text: String| said.push(text);
        say(format!(
            "{:?}",
            disk.create_dir(&at("f"), SITE).map_err(kind)
        ));
        say(format!(
            "{:?}",
            disk.create_dir(&at("f"), SITE).map_err(kind)
        ));
        say(format!(
            "{:?}",
            disk.create_dir(&at("x/y"), SITE).map_err(kind)
        ));
        let file = disk.create(&at("f/a"), SITE).unwrap();
        say(format!(
            "{:?}",
            disk.create(&at("f/a"), SITE).map(drop).map_err(kind)
        ));
        say(format!(
            "{:?}",
            disk.create(&at("g/a"), SITE).map(drop).map_err(kind)
        ));
        say(format!(
            "{:?}",
            file.write_at(b"hello", 5000, SITE).map_err(kind)
        ));
        say(format!("{:?}", file.len().map_err(kind)));
        let mut buffer = [9; 20];
        say(format!("{:?} {buffer:?}", file.read_at(&mut buffer, 4995)));
        say(format!(
            "{:?}",
            file.read_at(&mut buffer, 5005).map_err(kind)
        ));
        say(format!("{:?}", file.set_len(5002, SITE).map_err(kind)));
        say(format!("{:?}", file.set_len(5006, SITE).map_err(kind)));
        say(format!("{:?} {buffer:?}", file.read_at(&mut buffer, 4999)));
        let read_only = disk.open(&at("f/a"), Access::Read).unwrap();
        say(format!("{}", read_only.write_at(b"x", 0, SITE).is_err()));
        say(format!(
            "{:?}",
            disk.open(&at("f/b"), Access::Read).map(drop).map_err(kind)
        ));
        say(format!("{:?}", disk.kind(&at("f")).map_err(kind)));
        say(format!("{:?}", disk.kind(&at("f/a")).map_err(kind)));
        say(format!("{:?}", disk.kind(&at("f/b")).map_err(kind)));
        say(format!("{:?}", disk.kind(&at("f/a/b")).map_err(kind)));
        say(format!(
            "{:?}",
            disk.rename(&at("f/b"), &at("f/c"), SITE).map_err(kind)
        ));
        drop(disk.create(&at("f/c"), SITE).unwrap());
        say(format!(
            "{:?}",
            disk.rename(&at("f/a"), &at("f/c"), SITE).map_err(kind)
        ));
        say(format!("{:?}", disk.list(&at("f")).map_err(kind)));
        say(format!("{:?}", disk.list(&at("nowhere")).map_err(kind)));
        say(format!("{:?}", read_only.len().map_err(kind)));
        say(format!("{:?}", disk.remove(&at("f/c"), SITE).map_err(kind)));
        say(format!("{:?}", disk.remove(&at("f/c"), SITE).map_err(kind)));
        say(format!("{:?}", file.len().map_err(kind)));
        say(format!("{:?}", disk.sync_dir(&at("f"), SITE).map_err(kind)));
        say(format!("{:?}", disk.sync_dir(&at("x"), SITE).map_err(kind)));
        said
    }
    let folder = tempfile::tempdir().unwrap();
    let real = play(&RealDisk, folder.path());
    let disk = disk();
    assert_eq!(play(&disk, Path::new("/d")), real);
}
