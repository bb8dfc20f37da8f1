//! `verify` beside a live owner, and on a copy.

use std::path::Path;
use std::sync::Arc;

use intendant_journal::disk::simulated::SimulatedDisk;
use intendant_journal::error::OpenError;
use intendant_journal::face::IntentLog;
use intendant_journal::scan;

use crate::oracle::check_error;
use crate::specimen::{DATA, ROOT, Specimen, data, options, segment};
use crate::support::*;

fn verify(disk: &SimulatedDisk, folder: &Path) -> Result<scan::VerifyReport, Box<OpenError>> {
    Ok(scan::verify_on(Arc::new(disk.clone()), folder)?)
}

#[test]
fn verify_beside_a_live_owner_passes_what_is_in_order_and_names_what_is_not() {
    let specimen = Specimen::closed();
    let disk = SimulatedDisk::holding(&specimen.files);
    let journal = options(&disk).open(DATA).unwrap();
    for number in 0..30 {
        append(
            &journal,
            vec![note("r", &format!("live {number} {}", "v".repeat(3_000)))],
        )
        .unwrap();
        let report = verify(&disk, Path::new(DATA)).unwrap();
        assert_eq!(report.log.end, journal.durable());
    }
    // Damage under the owner's feet, from the first segment to the last group.
    let files = disk.contents(Path::new(ROOT));
    let mut found = 0;
    for (path, bytes) in files
        .iter()
        .filter(|(path, _)| path.starts_with(data("journal")))
    {
        let Some(end) = bytes[4096..].iter().rposition(|byte| *byte != 0) else {
            continue;
        };
        for at in [20, 4096, 4096 + end / 2, 4096 + end - 10] {
            disk.change(path, |bytes| bytes[at] ^= 0x10).unwrap();
            let error = verify(&disk, Path::new(DATA)).unwrap_err();
            let stop = check_error("live", &error);
            assert_eq!(&stop.path, path, "byte {at}: {}", stop.text);
            disk.change(path, |bytes| bytes[at] ^= 0x10).unwrap();
            found += 1;
        }
    }
    assert!(found >= 12, "{found}");
    journal.close();
    assert!(verify(&disk, Path::new(DATA)).is_ok());
}

#[test]
fn verify_says_the_same_of_a_copy() {
    let specimen = Specimen::killed();
    let elsewhere = Path::new("/backup/copy");
    let mut cases = 0;
    for number in 1..=specimen.used {
        let path = segment(number);
        for at in (0..specimen.content_end(&path)).step_by(1_009) {
            let mut files = specimen.files.clone();
            files.get_mut(&path).unwrap()[at] ^= 4;
            let here = SimulatedDisk::holding(&files);
            let copied = files
                .into_iter()
                .filter(|(path, _)| path.starts_with(DATA) && *path != data("LOCK"))
                .map(|(path, bytes)| (elsewhere.join(path.strip_prefix(DATA).unwrap()), bytes))
                .collect();
            let copy = SimulatedDisk::holding(&copied);
            let text = |result: Result<scan::VerifyReport, Box<OpenError>>| match result {
                Ok(report) => format!("{report:?}"),
                Err(error) => error.to_string(),
            };
            let of_copy = text(verify(&copy, elsewhere)).replace("/backup/copy", DATA);
            assert_eq!(
                of_copy,
                text(verify(&here, Path::new(DATA))),
                "segment {number}, byte {at}"
            );
            assert!(
                copy.contents(Path::new("/backup")) == copied,
                "verify changed the copy"
            );
            cases += 1;
        }
    }
    assert!(cases > 100, "{cases}");
}
