//! Judges what an opening, and `verify` from outside, make of a damaged journal.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use intendant_journal::disk::{Files, MemoryDisk};
use intendant_journal::error::{Damage, OpenError, ReadError};
use intendant_journal::face::IntentLog;
use intendant_journal::format::entry::Recorded;
use intendant_journal::{Journal, scan};

use crate::specimen::{DATA, ROOT, Specimen, options};

/// What a reader made of the folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// Everything is there.
    Whole,
    /// Bytes behind the last entry, from this place on: cut by an opening, named by `verify`.
    Cut(PathBuf, u64),
    /// It stops.
    Stop(Stop),
}

/// What a refusal says of the place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stop {
    pub(crate) kind: &'static str,
    pub(crate) path: PathBuf,
    pub(crate) segment: Option<u64>,
    pub(crate) offset: u64,
    /// Its whole text.
    pub(crate) text: String,
}

impl Told {
    pub(crate) fn stop(&self) -> &Stop {
        match self {
            Self::Stop(stop) => stop,
            other => panic!("it did not stop: {other:?}"),
        }
    }

    pub(crate) fn is_stop(&self) -> bool {
        matches!(self, Self::Stop(_))
    }
}

/// A disk with a specimen on it, for one case after another.
pub(crate) struct Bench<'a> {
    pub(crate) specimen: &'a Specimen,
    pub(crate) disk: MemoryDisk,
    /// What is on the disk.
    image: Files,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(specimen: &'a Specimen) -> Self {
        let bench = Self {
            specimen,
            disk: MemoryDisk::default(),
            image: specimen.files.clone(),
        };
        bench.disk.lay(Path::new(ROOT), &bench.image);
        bench
    }

    /// Damages the specimen and judges what comes of it.
    pub(crate) fn case(&mut self, what: &str, damage: impl FnOnce(&mut Files)) -> Told {
        self.image = self.specimen.files.clone();
        damage(&mut self.image);
        self.disk.lay(Path::new(ROOT), &self.image);
        let told = self.judge(what);
        self.image = self.specimen.files.clone();
        self.disk.lay(Path::new(ROOT), &self.image);
        told
    }

    /// The same for one byte, without laying everything anew where nothing was changed.
    pub(crate) fn byte(&mut self, path: &Path, at: usize, mask: u8) -> Told {
        let flip = |bytes: &mut Vec<u8>| bytes[at] ^= mask;
        self.disk.change(path, flip);
        self.image.get_mut(path).map(flip);
        let told = self.judge(&format!("{}, byte {at} ^ {mask:#x}", path.display()));
        self.image.get_mut(path).map(flip);
        match told {
            Told::Stop(_) => self.disk.change(path, flip),
            _ => self.disk.lay(Path::new(ROOT), &self.image),
        }
        told
    }

    fn judge(&self, what: &str) -> Told {
        let judged = catch_unwind(AssertUnwindSafe(|| {
            let outside = self.verify(what);
            let inside = self.open(what);
            agree(what, &inside, &outside);
            inside
        }));
        judged.unwrap_or_else(|_| panic!("{what}: see above"))
    }

    /// What `verify` says. It changes nothing, whatever it finds.
    pub(crate) fn verify(&self, what: &str) -> Told {
        let disk = Arc::new(self.disk.clone());
        let mut seen = Vec::new();
        let scanned = scan::scan_on(&self.disk, Path::new(DATA), &mut |it| seen.push(it));
        let verified = scan::verify_on(disk, Path::new(DATA));
        assert!(
            self.disk.holds(Path::new(ROOT), &self.image),
            "{what}: verify changed a byte"
        );
        match verified {
            Ok(report) => {
                assert!(
                    scanned.is_ok(),
                    "{what}: verify passes what a scan does not"
                );
                assert_eq!(report.log.end.0, seen.len() as u64, "{what}");
                self.check_entries(what, &seen);
                match report.log.unfinished {
                    None => Told::Whole,
                    Some(unfinished) => Told::Cut(unfinished.path, unfinished.offset),
                }
            }
            Err(error) => Told::Stop(check_error(what, &error)),
        }
    }

    fn open(&self, what: &str) -> Told {
        match options(&self.disk).open(DATA) {
            Err(error) => {
                let same = self.disk.holds(Path::new(ROOT), &self.image);
                assert!(
                    same,
                    "{what}: refused, and the evidence was changed ({error})"
                );
                Told::Stop(check_error(what, &error))
            }
            Ok(journal) => {
                let told = self.check_open(what, &journal);
                drop(journal);
                // What was mended is mended: the next opening finds nothing to do.
                let again = options(&self.disk)
                    .open(DATA)
                    .unwrap_or_else(|error| panic!("{what}: the second opening: {error}"));
                assert_eq!(again.recovered().cut_bytes, 0, "{what}");
                assert_eq!(again.recovered().set_aside, None, "{what}");
                told
            }
        }
    }

    fn check_open(&self, what: &str, journal: &Journal) -> Told {
        let recovered = journal.recovered();
        let end = usize::try_from(recovered.end.0).unwrap();
        let of_run: Vec<_> = journal.history("r").unwrap();
        let log: Vec<&Recorded> = self.all().take(end).collect();
        assert_eq!(log.len(), end, "{what}: more entries than anybody wrote");
        let expected: Vec<_> = log.iter().filter(|it| it.entry.run.is_some()).collect();
        assert!(
            of_run.iter().eq(expected.into_iter().copied()),
            "{what}: the history is not what was recorded"
        );
        self.check_end(what, end);
        if end < self.specimen.acknowledged.len() + self.specimen.in_flight.len() {
            // What nobody was told of may be lost. Bytes of it that are left are cut, and told.
            let left = recovered.cut_bytes > 0;
            let zeros = !self.image_has_bytes_behind(end);
            assert!(left || zeros, "{what}: cut without a word");
        }
        assert_eq!(
            recovered.cut_at.is_some(),
            recovered.cut_bytes > 0,
            "{what}"
        );
        match &recovered.cut_at {
            None => Told::Whole,
            Some((path, at)) => Told::Cut(path.clone(), *at),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Recorded> {
        self.specimen
            .acknowledged
            .iter()
            .chain(&self.specimen.in_flight)
    }

    /// Whether the folder still has text of an entry behind the end.
    fn image_has_bytes_behind(&self, end: usize) -> bool {
        let lost = self.all().skip(end).filter_map(crate::support::value);
        let texts: Vec<_> = lost.collect();
        self.image.iter().any(|(path, bytes)| {
            let is_log = path.extension().is_some_and(|it| it == "seg");
            is_log
                && texts
                    .iter()
                    .any(|text| bytes.windows(text.len()).any(|it| it == text.as_bytes()))
        })
    }

    fn check_end(&self, what: &str, end: usize) {
        let least = self.specimen.acknowledged.len();
        assert!(
            end >= least,
            "{what}: silently lost: it ends with entry {end}, {least} were acknowledged"
        );
    }

    fn check_entries(&self, what: &str, seen: &[Recorded]) {
        self.check_end(what, seen.len());
        assert!(
            seen.iter().eq(self.all().take(seen.len())),
            "{what}: the entries are not what was recorded"
        );
    }
}

/// A refusal is typed, names the place and what is lost, and tells what to do.
pub(crate) fn check_error(what: &str, error: &OpenError) -> Stop {
    let text = error.to_string();
    let stop = |kind, path: &Path, segment, offset| Stop {
        kind,
        path: path.to_owned(),
        segment,
        offset,
        text: text.clone(),
    };
    let damaged = |damage: &Damage| {
        let of_segment = damage.path.extension().is_some_and(|it| it == "seg");
        assert_eq!(damage.segment.is_some(), of_segment, "{what}: {damage}");
        for part in [&damage.what, &damage.lost, &damage.remedy] {
            assert!(part.len() > 10, "{what}: says too little: {damage:?}");
        }
        stop("damaged", &damage.path, damage.segment, damage.offset)
    };
    match error {
        OpenError::Damaged(damage) | OpenError::Read(ReadError::Damaged(damage)) => damaged(damage),
        OpenError::Shortened {
            path,
            segment,
            offset,
            end,
            durable,
            ..
        } => {
            assert!(end < durable, "{what}: {error}");
            assert!(
                text.contains("lost") && text.contains("restore"),
                "{what}: {error}"
            );
            stop("shortened", path, *segment, *offset)
        }
        OpenError::Gone { path, .. } => stop("gone", path, None, 0),
        OpenError::Missing { path } => stop("missing", path, None, 0),
        OpenError::Foreign { path, .. } => stop("foreign", path, None, 0),
        OpenError::Newer { path, .. } => stop("newer", path, None, 0),
        other => panic!("{what}: an error of another kind: {other:?}"),
    }
}

/// Opening and `verify` say the same of the same place.
fn agree(what: &str, inside: &Told, outside: &Told) {
    let same = match (inside, outside) {
        (Told::Stop(inside), Told::Stop(outside)) => {
            (inside.kind, &inside.path, inside.segment, inside.offset)
                == (outside.kind, &outside.path, outside.segment, outside.offset)
        }
        (inside, outside) => inside == outside,
    };
    assert!(
        same,
        "{what}: opening and verify differ:\n{inside:?}\n{outside:?}"
    );
}
