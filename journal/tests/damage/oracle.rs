//! Judges what an opening, and `verify` from outside, make of a damaged journal.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use intendant_journal::disk::simulated::{Files, SimulatedDisk};
use intendant_journal::error::{Damage, OpenError, ReadError};
use intendant_journal::face::IntentLog;
use intendant_journal::format::entry::{
    BlobRef, Body, Entry, Outcome, OutcomeEntry, Payload, Recorded,
};
use intendant_journal::{Journal, scan};

use crate::specimen::{DATA, ROOT, Specimen, data, options, segment};

/// What a reader made of the folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Told {
    /// Everything is there.
    Whole,
    /// Everything is there, but for zeros at the end of a file, which were filled in.
    Filled,
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
    disk: SimulatedDisk,
    /// What is on the disk.
    image: Files,
    plain: bool,
    outside_knows_less: bool,
    blob: Option<PathBuf>,
}

impl<'a> Bench<'a> {
    pub(crate) fn new(specimen: &'a Specimen) -> Self {
        Self {
            specimen,
            disk: SimulatedDisk::holding(&specimen.files),
            image: specimen.files.clone(),
            plain: false,
            outside_knows_less: false,
            blob: None,
        }
    }

    /// Damages the specimen and judges what comes of it.
    pub(crate) fn case(&mut self, what: &str, damage: impl FnOnce(&mut Files)) -> Told {
        self.image = self.specimen.files.clone();
        damage(&mut self.image);
        self.disk = SimulatedDisk::holding(&self.image);
        let told = self.judge(what);
        self.image = self.specimen.files.clone();
        self.disk = SimulatedDisk::holding(&self.image);
        told
    }

    /// The same for one byte, without laying everything anew where nothing was changed.
    pub(crate) fn byte(&mut self, path: &Path, at: usize, mask: u8) -> Told {
        let flip = |bytes: &mut Vec<u8>| bytes[at] ^= mask;
        self.disk.change(path, flip).unwrap();
        flip(self.image.get_mut(path).unwrap());
        let told = self.judge(&format!("{}, byte {at} ^ {mask:#x}", path.display()));
        flip(self.image.get_mut(path).unwrap());
        match told {
            Told::Stop(_) => self.disk.change(path, flip).unwrap(),
            _ => self.disk = SimulatedDisk::holding(&self.image),
        }
        told
    }

    /// A case in which somebody changes a byte while the journal is read.
    pub(crate) fn touched(&mut self, what: &str, path: &Path, touch: impl FnOnce(&mut Vec<u8>)) {
        self.disk.change(path, touch).unwrap();
        self.judge(what);
    }

    /// The oracle's own words instead of the case's name: for the canaries.
    pub(crate) fn that_says_why(mut self) -> Self {
        self.plain = true;
        self
    }

    /// `verify` does not look at the record outside.
    pub(crate) fn whose_record_is_damaged(mut self) -> Self {
        self.outside_knows_less = true;
        self
    }

    /// An opening does not read blobs: `verify` does, and whoever asks for one.
    pub(crate) fn whose_blob_is_damaged(mut self, path: &Path) -> Self {
        self.blob = Some(path.to_owned());
        self
    }

    fn judge(&self, what: &str) -> Told {
        let judge = || {
            let outside = self.verify(what);
            let inside = self.open(what);
            if let Some(blob) = &self.blob {
                let stop = outside.stop();
                assert_eq!(&stop.path, blob, "{what}: {}", stop.text);
                assert_eq!(inside, Told::Whole, "{what}");
            } else if !(self.outside_knows_less && outside == Told::Whole) {
                agree(what, &inside, &outside);
            }
            inside
        };
        if self.plain {
            return judge();
        }
        catch_unwind(AssertUnwindSafe(judge)).unwrap_or_else(|_| panic!("{what}: see above"))
    }

    /// What `verify` says. It changes nothing, whatever it finds.
    fn verify(&self, what: &str) -> Told {
        let verified = scan::verify_on(Arc::new(self.disk.clone()), Path::new(DATA));
        self.check_untouched(what, "verify");
        match verified {
            Ok(report) => {
                let mut seen = Vec::new();
                scan::scan_on(&self.disk, Path::new(DATA), &mut |it| seen.push(it)).unwrap();
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

    fn check_untouched(&self, what: &str, who: &str) {
        let same = self.disk.contents(Path::new(ROOT)) == self.image;
        assert!(same, "{what}: {who} changed a byte of evidence");
    }

    fn open(&self, what: &str) -> Told {
        let journal = match options(&self.disk).open(DATA) {
            Ok(journal) => journal,
            Err(error) => {
                self.check_untouched(what, "a refused opening");
                return Told::Stop(check_error(what, &error));
            }
        };
        let recovered = journal.recovered().clone();
        let end = usize::try_from(recovered.end.0).unwrap();
        self.check_end(what, end);
        self.check_cut(what, end, recovered.cut_bytes);
        assert_eq!(
            recovered.cut_at.is_some(),
            recovered.cut_bytes > 0,
            "{what}"
        );
        match journal.history("r") {
            Ok(history) => self.check_history(what, &history, end),
            // What redb does not see at an opening the checksums see at the first question.
            Err(ReadError::Projection { .. }) if self.projection_is_damaged() => {}
            Err(error) => panic!("{what}: {error}"),
        }
        if let Some(path) = &self.blob {
            self.check_blob(what, &journal, path);
        }
        drop(journal);
        // What was mended is mended: the next opening finds nothing to do, and has everything.
        let again = options(&self.disk)
            .open(DATA)
            .unwrap_or_else(|error| panic!("{what}: the second opening: {error}"));
        assert_eq!(again.recovered().cut_bytes, 0, "{what}");
        self.check_history(what, &again.history("r").unwrap(), end);
        match recovered.cut_at {
            None if recovered.filled_bytes > 0 => Told::Filled,
            None => Told::Whole,
            Some((path, at)) => Told::Cut(path, at),
        }
    }

    fn projection_is_damaged(&self) -> bool {
        let path = data("projection.redb");
        self.image.get(&path) != self.specimen.files.get(&path)
    }

    fn check_history(&self, what: &str, history: &[Recorded], end: usize) {
        assert!(
            end <= self.all().count(),
            "{what}: more entries than anybody wrote"
        );
        let of_run = self.all().take(end).filter(|it| it.entry.run.is_some());
        assert!(
            history.iter().eq(of_run),
            "{what}: the history is not what was recorded"
        );
    }

    /// What nobody was told of may be lost. Bytes of it that are left are cut, and told.
    fn check_cut(&self, what: &str, end: usize, cut_bytes: u64) {
        let silent = end < self.all().count() && cut_bytes == 0;
        assert!(
            !silent || !self.has_text_behind(end),
            "{what}: cut without a word"
        );
    }

    /// Whoever asks for a damaged blob is told so, and never gets other bytes.
    fn check_blob(&self, what: &str, journal: &Journal, path: &Path) {
        let blobs = self.all().flat_map(|it| named(&it.entry));
        let named: Vec<_> = blobs
            .filter(|blob| path.ends_with(blob.sha256.to_string()))
            .collect();
        assert_eq!(named.len(), 1, "{what}: the blob is named once");
        match journal.get_blob(&named[0]) {
            Err(ReadError::Damaged(damage)) => assert_eq!(damage.path, path, "{what}"),
            other => panic!("{what}: {other:?}"),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Recorded> {
        self.specimen
            .acknowledged
            .iter()
            .chain(&self.specimen.in_flight)
    }

    /// Whether the folder still has text of an entry behind the end.
    fn has_text_behind(&self, end: usize) -> bool {
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

fn named(entry: &Entry) -> Option<BlobRef> {
    match &entry.body {
        Body::Outcome(OutcomeEntry {
            outcome: Outcome::Succeeded(Payload::JsonBlob(blob)),
            ..
        }) => Some(*blob),
        _ => None,
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
        let of_segment = (1..20).any(|number| damage.path == segment(number));
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
        // An opening cuts from the first byte that is not zero, `verify` names the frame it is in.
        (Told::Cut(inside, _), Told::Cut(outside, _)) => inside == outside,
        (Told::Filled, Told::Whole | Told::Cut(..)) => true,
        (inside, outside) => inside == outside,
    };
    assert!(
        same,
        "{what}: opening and verify differ:\n{inside:?}\n{outside:?}"
    );
}
