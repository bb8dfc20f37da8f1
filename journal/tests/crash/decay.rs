//! Damage that no crash leaves: bits that changed, pages of another journal, groups that are gone.
//!
//! O5: the opening finds everything that was recorded, or is refused and changes nothing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use intendant_journal::disk::simulated::{Fate, Files, SimulatedDisk};
use intendant_journal::disk::{Access, Disk, Site, write_all_at};
use intendant_journal::scan;
use proptest::test_runner::TestRng;

use crate::load::{FOLDER, Load, Shared, open, twin_of};
use crate::masks::{chance, random};
use crate::model::Model;
use crate::oracle::read;

const PAGE: usize = 4096;

/// A journal that was closed, and what its callers know.
struct Played {
    load: Load,
    disk: SimulatedDisk,
    model: Model,
}

impl Played {
    fn of(load: Load) -> Self {
        let disk = SimulatedDisk::new();
        let model = Shared::default();
        load.play(&disk, &model);
        let model = model.lock().unwrap().clone();
        Self { load, disk, model }
    }

    /// Judges a damaged copy; true if it was refused.
    fn judge(&self, disk: &SimulatedDisk, damaged: &Path) -> Result<bool, String> {
        let evidence = content(disk);
        let verified = scan::verify_on(Arc::new(disk.clone()), Path::new(FOLDER));
        let model = Shared::new(Mutex::new(self.model.clone()));
        match open(&self.load.options(disk, "finds damage"), &model) {
            Ok(journal) => {
                drop(journal);
                let log = read(disk)?;
                model.lock().unwrap().compare(&log).map(|_| false)
            }
            Err(error) => {
                if content(disk) != evidence {
                    return Err(format!("evidence was changed, then: {error}"));
                }
                // From outside, what is recorded elsewhere is not read.
                if let Ok(report) = verified
                    && damaged.starts_with(FOLDER)
                {
                    return Err(format!("refused ({error}), and verify says {report:?}"));
                }
                Ok(true)
            }
        }
    }
}

/// All files but the lock, whose text is the opener's.
fn content(disk: &SimulatedDisk) -> Files {
    let mut files = disk.contents(Path::new("/"));
    files.remove(&Path::new(FOLDER).join("LOCK"));
    files
}

/// Overwrites part of a file, durably.
fn overwrite(disk: &SimulatedDisk, path: &Path, bytes: &[u8], offset: usize) {
    let file = disk.open(path, Access::ReadWrite).unwrap();
    write_all_at(&*file, bytes, offset as u64, Site::GroupWrite).unwrap();
    file.sync_all(Site::GroupSync).unwrap();
}

/// The first violation of a sample, if there is one; else how many copies were refused and accepted.
pub(crate) fn sample(load: Load, flips: usize) -> Result<(usize, usize), String> {
    let played = Played::of(load);
    let mut verdicts = (0, 0);
    let mut count = |what: String, judged: Result<bool, String>| match judged {
        Ok(true) => {
            verdicts.0 += 1;
            Ok(())
        }
        Ok(false) => {
            verdicts.1 += 1;
            Ok(())
        }
        Err(why) => Err(format!("{}: {what}: {why}", load.name())),
    };
    let mut random = random(2);
    for _ in 0..flips {
        let (path, offset) = place(&played.disk, &mut random);
        let bit = u8::try_from(chance(&mut random, 8)).unwrap();
        let disk = played.disk.killed();
        disk.flip(&path, offset as u64, bit).unwrap();
        let what = format!("bit {bit} at {offset} of {}", path.display());
        count(what, played.judge(&disk, &path))?;
    }
    // Each page of the log replaced by zeros, and by that of a journal that did the same.
    let twin = SimulatedDisk::new();
    twin_of(load, &twin);
    for (path, offset) in log_pages(&played.disk) {
        let disk = played.disk.killed();
        overwrite(&disk, &path, &[0; PAGE], offset);
        let what = format!("zeros at {offset} of {}", path.display());
        count(what, played.judge(&disk, &path))?;
        let Ok(bytes) = twin.bytes(&path) else {
            continue;
        };
        let disk = played.disk.killed();
        overwrite(&disk, &path, &bytes[offset..offset + PAGE], offset);
        let what = format!("another journal's page at {offset} of {}", path.display());
        count(what, played.judge(&disk, &path))?;
    }
    // The last page gone, and the mark with it: the projection alone knows better.
    let (path, offset) = log_pages(&played.disk).pop().unwrap();
    let disk = played.disk.killed();
    overwrite(&disk, &path, &[0; PAGE], offset);
    disk.remove(&Path::new(FOLDER).join("mark"), Site::MarkWrite)
        .unwrap();
    let unsynced = disk.unsynced().len();
    let disk = disk.cut(&vec![Fate::Whole; unsynced]);
    let what = format!("zeros at {offset} of {}, and no mark", path.display());
    match played.judge(&disk, &path) {
        Ok(false) => return Err(format!("{}: {what}: accepted", load.name())),
        judged => count(what, judged)?,
    }
    Ok(verdicts)
}

/// The pages of the segments in which anything is, heads of files aside.
fn log_pages(disk: &SimulatedDisk) -> Vec<(PathBuf, usize)> {
    let mut pages = Vec::new();
    for path in disk.files() {
        if path.extension().is_some_and(|extension| extension == "seg") {
            let bytes = disk.bytes(&path).unwrap();
            let used = (PAGE..bytes.len())
                .step_by(PAGE)
                .filter(|at| bytes[*at..*at + PAGE].iter().any(|byte| *byte != 0));
            pages.extend(used.map(|offset| (path.clone(), offset)));
        }
    }
    pages
}

/// A byte of a file: mostly one that is not zero.
fn place(disk: &SimulatedDisk, random: &mut TestRng) -> (PathBuf, usize) {
    let files: Vec<_> = content(disk)
        .into_iter()
        .filter(|(_, bytes)| !bytes.is_empty())
        .collect();
    let (path, bytes) = &files[chance(random, files.len())];
    let any = chance(random, bytes.len());
    let next = (any..bytes.len()).find(|at| bytes[*at] != 0);
    let offset = match next {
        Some(next) if chance(random, 8) > 0 => next,
        _ => any,
    };
    (path.clone(), offset)
}

pub(crate) fn nothing_is_lost_silently() {
    let whole = std::env::var_os("INTENDANT_WHOLE").is_some();
    let flips = if whole { 20_000 } else { 300 };
    for load in Load::ALL {
        let (refused, accepted) = sample(load, flips).unwrap();
        println!("{}: {refused} refused, {accepted} accepted", load.name());
        assert!(
            refused > 20 && accepted > 20,
            "the damage never mattered, or always"
        );
    }
}
