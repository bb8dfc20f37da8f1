//! Signed checkpoints: when they are made, and what they find that the log alone cannot tell.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use intendant_journal::checkpoints::audit::{AuditReport, Conclusion, Evidence, Finding, audit};
use intendant_journal::checkpoints::{CheckpointError, Signer, Standing, Verifier};
use intendant_journal::disk::Site;
use intendant_journal::error::OpenError;
use intendant_journal::face::IntentLog;
use intendant_journal::format::entry::Sequence;
use intendant_journal::{Journal, Options, scan};
use support::faulty::{ENOSPC, Fault, FaultyDisk};
use support::*;

const PAGE: usize = 4096;

struct Signed {
    place: Place,
    signer: Signer,
}

impl Signed {
    fn new() -> Self {
        Self {
            place: Place::new(),
            signer: Signer::generate().unwrap(),
        }
    }

    fn options(&self) -> Options {
        self.place.options().signer(self.signer.clone())
    }

    fn open(&self) -> Journal {
        self.options().open_or_create(self.place.data()).unwrap()
    }

    /// Each note in a group, and so in pages, of its own.
    fn write(&self, notes: std::ops::Range<u32>) {
        let journal = self.open();
        for number in notes {
            append(&journal, vec![note("r", &format!("note {number:04}"))]).unwrap();
        }
        journal.close();
    }

    fn notes(&self) -> Vec<PathBuf> {
        let mut names: Vec<_> = std::fs::read_dir(self.place.data().join("checkpoints"))
            .map(|names| names.map(|name| name.unwrap().path()).collect())
            .unwrap_or_default();
        names.sort();
        names
    }

    fn newest(&self) -> PathBuf {
        self.notes().pop().unwrap()
    }

    fn keys(&self) -> Vec<Verifier> {
        vec![self.signer.verifier().clone()]
    }

    fn audit(&self) -> AuditReport {
        self.audit_with(&[])
    }

    fn audit_with(&self, kept_elsewhere: &[(PathBuf, Vec<u8>)]) -> AuditReport {
        let evidence = Evidence {
            keys: self.keys(),
            kept_elsewhere: kept_elsewhere.to_vec(),
        };
        audit(self.place.data(), &evidence).unwrap()
    }

    fn end(&self) -> u64 {
        scan::scan(self.place.data(), |_| ()).unwrap().end.0
    }

    fn without_mark(&self) {
        std::fs::remove_file(self.place.data().join("mark")).unwrap();
        std::fs::remove_file(self.place.data().join("projection.redb")).unwrap();
    }
}

/// The sequence in a checkpoint's name.
fn sequence(path: &Path) -> u64 {
    path.file_stem().unwrap().to_str().unwrap().parse().unwrap()
}

#[track_caller]
fn assert_valid(report: &AuditReport, up_to: u64) {
    match report.conclusion() {
        Conclusion::Valid(head) => {
            assert_eq!(head.checkpoint.unwrap().sequence, Sequence(up_to));
        }
        other => panic!("{other:?}"),
    }
}

/// The content of all files but the lock, which whoever comes writes his name into.
fn without_lock(place: &Place) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let mut files = place.files();
    files.remove(&place.data().join("LOCK"));
    files
}

/// Zeros the pages of the first segment from the one on that holds these bytes.
fn cut_from(place: &Place, needle: &str) {
    let path = place.segment(1);
    let at = find(&path, needle.as_bytes()) / PAGE * PAGE;
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[at..].fill(0);
    std::fs::write(&path, bytes).unwrap();
}

#[test]
fn checkpoints_are_made_at_the_first_opening_at_seals_on_demand_and_at_the_end() {
    let signed = Signed::new();
    let journal = signed.open();
    assert_eq!(
        signed.notes().len(),
        1,
        "a signed journal has a head at once"
    );
    append(&journal, vec![note("r", "a")]).unwrap();
    let made = journal.checkpoint().unwrap();
    assert_eq!(made.checkpoint.sequence, journal.durable());
    assert_eq!(std::fs::read_to_string(&made.path).unwrap(), made.note);
    assert_eq!(
        journal.checkpoint().unwrap(),
        made,
        "of the same there is one"
    );
    let before = signed.notes().len();
    for _ in 0..40 {
        append(&journal, vec![note("r", &"x".repeat(5_000))]).unwrap();
    }
    let end = journal.durable().0;
    journal.close();
    let segments = scan::verify(signed.place.data()).unwrap().log.segments;
    assert!(segments > 3, "{segments}");
    let notes = signed.notes();
    assert!(
        notes.len() as u64 >= before as u64 + segments - 2,
        "{notes:?}"
    );
    assert_eq!(sequence(notes.last().unwrap()), end, "and at the end");

    let report = signed.audit();
    assert_valid(&report, end);
    assert_eq!(report.checkpoints.len(), notes.len());
    let all = |checked: &intendant_journal::checkpoints::audit::Checked| {
        checked.finding == Finding::Fits && matches!(checked.standing, Some(Standing::Signed(_)))
    };
    assert!(report.checkpoints.iter().all(all), "{report:?}");

    // A later opening adds one at its end alone.
    signed.open().close();
    assert_eq!(signed.notes().len(), notes.len() + 1);
}

#[test]
fn without_a_key_there_is_no_checkpoint_and_that_is_told() {
    let signed = Signed::new();
    let journal = signed.place.open();
    assert_eq!(journal.checkpoint(), Err(CheckpointError::Unsigned));
    assert!(journal.signed_by().is_none());
    journal.close();
    assert!(signed.notes().is_empty());
    let report = signed.audit();
    let Conclusion::Unsigned { why } = report.conclusion() else {
        panic!("{report:?}")
    };
    assert!(why.contains("no checkpoint"), "{why}");
    // Opened with a key, it is signed from then on.
    signed.open().close();
    assert_valid(&signed.audit(), signed.end());
}

#[test]
fn every_cut_of_the_tail_is_found_by_a_checkpoint_in_the_folder_and_stops_the_opening() {
    let signed = Signed::new();
    signed.write(0..8);
    let end = signed.end();
    for kept in 0..8_u32 {
        let cut = Signed {
            place: signed.place.copy(),
            signer: signed.signer.clone(),
        };
        cut_from(&cut.place, &format!("note {kept:04}"));
        cut.without_mark();
        let report = cut.audit();
        let Conclusion::Truncated {
            by,
            end: at,
            durable,
            place,
        } = report.conclusion()
        else {
            panic!("{kept}: {report:?}")
        };
        assert_eq!((at.0, durable.0), (u64::from(kept) + 1, end));
        let place = place.unwrap();
        assert_eq!((place.segment, &place.path), (1, &cut.place.segment(1)));
        let whole = find(
            &signed.place.segment(1),
            format!("note {kept:04}").as_bytes(),
        );
        let page = (whole / PAGE * PAGE) as u64;
        assert!(
            place.offset <= page && place.offset > page - PAGE as u64,
            "{place:?}"
        );
        assert_eq!(by.path, cut.newest());

        let before = without_lock(&cut.place);
        for options in [cut.options(), cut.place.options()] {
            let error = options.open(cut.place.data()).unwrap_err();
            let OpenError::Shortened {
                end: at,
                durable,
                witness,
                ..
            } = &error
            else {
                panic!("{kept}: {error}")
            };
            assert_eq!((at.0, durable.0), (u64::from(kept) + 1, end));
            assert_eq!(witness, "a checkpoint");
        }
        assert_eq!(without_lock(&cut.place), before, "no byte is changed");
    }
}

#[test]
fn a_torn_end_below_a_checkpoint_is_no_torn_end() {
    let signed = Signed::new();
    signed.write(0..4);
    signed.without_mark();
    let path = signed.place.segment(1);
    let at = find(&path, b"note 0003");
    flip(&path, at);
    let error = signed.options().open(signed.place.data()).unwrap_err();
    assert!(matches!(error, OpenError::Damaged(_)), "{error}");
    let report = signed.audit();
    assert!(
        matches!(report.conclusion(), Conclusion::Truncated { .. }),
        "{report:?}"
    );
    // Where no checkpoint says more, it is one, and is cut.
    std::fs::remove_dir_all(signed.place.data().join("checkpoints")).unwrap();
    signed.options().open(signed.place.data()).unwrap();
}

#[test]
fn yesterdays_copy_is_found_by_a_newer_checkpoint_kept_elsewhere() {
    let signed = Signed::new();
    signed.write(0..3);
    let yesterday = Signed {
        place: signed.place.copy(),
        signer: signed.signer.clone(),
    };
    let then = yesterday.end();
    signed.write(3..6);
    let kept = signed.newest();
    let kept = [(kept.clone(), std::fs::read(&kept).unwrap())];
    assert_valid(&signed.audit_with(&kept), signed.end());
    assert_valid(&yesterday.audit(), then);
    let report = yesterday.audit_with(&kept);
    let Conclusion::Truncated {
        by, end, durable, ..
    } = report.conclusion()
    else {
        panic!("{report:?}")
    };
    assert_eq!((end.0, durable.0), (then, signed.end()));
    assert_eq!(by.path, kept[0].0);
}

/// The same journal by its id, with another history, signed by `signer`.
fn replaced(signed: &Signed, signer: Signer) -> Signed {
    let other = Signed {
        place: Place::new(),
        signer,
    };
    std::fs::create_dir_all(other.place.data()).unwrap();
    let identity = |place: &Place| place.data().join("IDENTITY");
    std::fs::copy(identity(&signed.place), identity(&other.place)).unwrap();
    let journal = other.options().open(other.place.data()).unwrap();
    for number in 0..6 {
        append(&journal, vec![note("r", &format!("forged {number}"))]).unwrap();
    }
    journal.close();
    other
}

#[test]
fn a_log_written_anew_passes_only_with_the_stolen_key_and_never_against_a_checkpoint_kept() {
    let signed = Signed::new();
    signed.write(0..4);
    let kept = signed.newest();
    let kept = [(kept.clone(), std::fs::read(&kept).unwrap())];

    let forged = replaced(&signed, Signer::generate().unwrap());
    let evidence = Evidence {
        keys: signed.keys(),
        kept_elsewhere: Vec::new(),
    };
    let report = audit(forged.place.data(), &evidence).unwrap();
    let Conclusion::Unsigned { why } = report.conclusion() else {
        panic!("{report:?}")
    };
    assert!(why.contains(forged.signer.verifier().name()), "{why}");

    let stolen = replaced(&signed, signed.signer.clone());
    assert_valid(&stolen.audit(), stolen.end());
    for anew in [&forged, &stolen] {
        let evidence = Evidence {
            keys: signed.keys(),
            kept_elsewhere: kept.to_vec(),
        };
        let report = audit(anew.place.data(), &evidence).unwrap();
        let Conclusion::Altered { by, place, first } = report.conclusion() else {
            panic!("{report:?}")
        };
        assert_eq!((&by.path, &by.finding), (&kept[0].0, &Finding::Differs));
        assert!(first.0 >= 1 && first.0 <= sequence(&by.path));
        let place = place.unwrap();
        assert_eq!((place.segment, place.path), (1, anew.place.segment(1)));
        assert!(place.offset >= PAGE as u64);
    }
}

#[test]
fn p10_a_log_written_anew_beside_its_signed_checkpoint_stops_the_opening() {
    let signed = Signed::new();
    signed.write(0..4);
    let forged = replaced(&signed, Signer::generate().unwrap());
    std::fs::remove_dir_all(forged.place.data().join("checkpoints")).unwrap();
    let kept = signed.newest();
    let planted = forged.place.data().join("checkpoints");
    std::fs::create_dir(&planted).unwrap();
    let planted = planted.join(kept.file_name().unwrap());
    std::fs::copy(&kept, &planted).unwrap();

    let before = without_lock(&forged.place);
    let options = || forged.place.options().signer(signed.signer.clone());
    let opened = options().open(forged.place.data()).unwrap_err();
    let scanned = scan::scan_knowing(forged.place.data(), &signed.keys(), |_| ()).unwrap_err();
    for error in [opened, scanned] {
        let OpenError::Contradicted {
            path,
            segment,
            offset,
            sequence: at,
            checkpoint,
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!((path, *segment), (&forged.place.segment(1), 1));
        assert!(*offset >= PAGE as u64, "{error}");
        assert_eq!((at.0, checkpoint), (sequence(&kept), &planted));
    }
    assert_eq!(without_lock(&forged.place), before, "no byte is changed");

    // A newer one by a key that nobody knows hides it from nobody.
    let mut noise = Signed {
        place: forged.place.copy(),
        signer: Signer::generate().unwrap(),
    };
    std::fs::remove_dir_all(noise.place.data().join("checkpoints")).unwrap();
    noise.write(6..7);
    std::fs::copy(
        &planted,
        noise.newest().with_file_name(planted.file_name().unwrap()),
    )
    .unwrap();
    noise.signer = signed.signer.clone();
    let error = noise.options().open(noise.place.data()).unwrap_err();
    assert!(matches!(error, OpenError::Contradicted { .. }), "{error}");
    // The signature of a known key does not hold: no word against the log. `audit` tells of it.
    let note = std::fs::read_to_string(&planted).unwrap();
    std::fs::write(&planted, note.replacen("time ", "time 1", 1)).unwrap();
    options().open(forged.place.data()).unwrap();
}

#[test]
fn flipping_dropping_and_swapping_entries_is_damage_of_the_log_itself() {
    let signed = Signed::new();
    signed.write(0..6);
    let evidence = Evidence {
        keys: signed.keys(),
        ..Evidence::default()
    };
    let path = signed.place.segment(1);
    let bytes = std::fs::read(&path).unwrap();
    let page = |number: u32| find(&path, format!("note {number:04}").as_bytes()) / PAGE * PAGE;
    let pages: Vec<usize> = (0..6).map(page).collect();
    let mut altered = Vec::new();
    for at in &pages[..5] {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at + 30] ^= 1 << bit;
            altered.push(flipped);
        }
        let mut zeroed = bytes.clone();
        zeroed[*at..at + PAGE].fill(0);
        altered.push(zeroed);
        let mut dropped = bytes.clone();
        dropped.copy_within(at + PAGE.., *at);
        altered.push(dropped);
        let mut swapped = bytes.clone();
        swapped.copy_within(at + PAGE..at + 2 * PAGE, *at);
        swapped[at + PAGE..at + 2 * PAGE].copy_from_slice(&bytes[*at..at + PAGE]);
        altered.push(swapped);
    }
    for altered in altered {
        std::fs::write(&path, altered).unwrap();
        let error = audit(signed.place.data(), &evidence).unwrap_err();
        assert!(matches!(error, OpenError::Damaged(_)), "{error}");
    }
    std::fs::write(&path, bytes).unwrap();
    assert_valid(&signed.audit(), signed.end());
}

#[test]
fn a_head_that_alone_was_changed_is_found_whatever_byte_it_was() {
    let signed = Signed::new();
    signed.write(0..3);
    let newest = signed.newest();
    for path in signed.notes() {
        if path != newest {
            std::fs::remove_file(path).unwrap();
        }
    }
    let bytes = std::fs::read(&newest).unwrap();
    let (mut altered, mut unsigned) = (0, 0);
    for at in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        std::fs::write(&newest, changed).unwrap();
        match signed.audit().conclusion() {
            Conclusion::Altered { by, .. } => {
                assert_eq!(by.path, newest);
                altered += 1;
            }
            // The name or id of a key that nobody knows.
            Conclusion::Unsigned { .. } => unsigned += 1,
            other => panic!("byte {at}: {other:?}"),
        }
    }
    assert!(altered > 100 && unsigned < 60, "{altered} {unsigned}");
    // Under another name.
    std::fs::write(&newest, &bytes).unwrap();
    let other = newest.with_file_name("00000000000000000002.note");
    std::fs::rename(&newest, &other).unwrap();
    let report = signed.audit();
    assert!(matches!(report.conclusion(), Conclusion::Altered { .. }));
}

#[test]
fn what_is_no_witness_stops_no_opening() {
    let signed = Signed::new();
    signed.write(0..3);
    let folder = signed.place.data().join("checkpoints");
    let genuine = std::fs::read_to_string(signed.newest()).unwrap();
    let end = signed.end();
    let beyond = folder.join("00000000000000000900.note");
    let says_more = genuine.replacen(&format!("\n{end}\n"), "\n900\n", 1);
    let other_journal = Signed::new();
    other_journal.write(0..60);
    let foreign = std::fs::read_to_string(other_journal.newest()).unwrap();
    for text in [&says_more, &genuine, &foreign, "", "900\n"] {
        std::fs::write(&beyond, text).unwrap();
        let journal = signed.options().open(signed.place.data()).unwrap();
        journal.close();
        let report = signed.audit();
        assert!(
            matches!(report.conclusion(), Conclusion::Altered { .. }),
            "{text:?}: and yet it is told: {report:?}"
        );
    }
    // Without the key nobody can say that the signature does not hold.
    std::fs::write(&beyond, &says_more).unwrap();
    let error = signed
        .place
        .options()
        .open(signed.place.data())
        .unwrap_err();
    assert!(matches!(error, OpenError::Shortened { .. }), "{error}");
}

#[test]
fn a_checkpoint_that_cannot_be_written_stops_no_recording() {
    for site in [
        Site::CheckpointCreate,
        Site::CheckpointWrite,
        Site::CheckpointSync,
        Site::CheckpointRename,
        Site::CheckpointDirSync,
    ] {
        let signed = Signed::new();
        let disk = FaultyDisk::default();
        let options = signed.options().disk(Arc::new(disk.clone()));
        let journal = options.open_or_create(signed.place.data()).unwrap();
        disk.fail(site, Fault::Error(ENOSPC), u32::MAX);
        for _ in 0..30 {
            append(&journal, vec![note("r", &"x".repeat(5_000))]).unwrap();
        }
        let error = journal.checkpoint().unwrap_err();
        assert!(
            matches!(error, CheckpointError::Io { .. }),
            "{site:?}: {error}"
        );
        assert!(journal.checkpoint_trouble().is_some(), "{site:?}");
        assert_eq!(journal.disabled(), None, "{site:?}");
        append(&journal, vec![note("r", "after")]).unwrap();
        disk.heal();
        journal.checkpoint().unwrap();
        assert_eq!(journal.checkpoint_trouble(), None, "{site:?}");
        journal.close();
        assert_valid(&signed.audit(), signed.end());
    }
}

#[test]
fn an_audit_beside_a_live_writer_finds_nothing_wrong() {
    let signed = Signed::new();
    let journal = signed.open();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..400 {
                append(&journal, vec![note("r", &"y".repeat(2_000))]).unwrap();
                if number % 10 == 0 {
                    journal.checkpoint().unwrap();
                }
            }
            done.store(true, Ordering::Release);
        });
        let mut audits = 0;
        while !done.load(Ordering::Acquire) || audits < 3 {
            let report = signed.audit();
            assert!(
                matches!(report.conclusion(), Conclusion::Valid(_)),
                "{report:?}"
            );
            audits += 1;
        }
    });
    // Its threads are at work in the folder until then.
    journal.close();
    let before = signed.place.files();
    signed.audit();
    assert_eq!(signed.place.files(), before, "it changes nothing");
}
