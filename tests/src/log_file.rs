//! The journal's files as a saboteur sees them.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Groups are written at multiples of this.
const PAGE: u64 = 4096;

/// The segment files, oldest first. Spares, which hold nothing yet, are left out.
///
/// # Panics
/// If there is no journal.
#[must_use]
pub fn segments(data: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(data.join("journal")).unwrap();
    let mut segments: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    segments.retain(|path| {
        path.extension().is_some_and(|extension| extension == "seg") && end(path) > PAGE
    });
    segments.sort();
    segments
}

/// The segment that is being written.
///
/// # Panics
/// If there is no journal.
#[must_use]
pub fn active(data: &Path) -> PathBuf {
    segments(data).pop().unwrap()
}

/// Where the next group would go: the first page behind all that is not zero.
///
/// # Panics
/// If the file cannot be read.
#[must_use]
pub fn end(segment: &Path) -> u64 {
    let bytes = fs::read(segment).unwrap();
    let last = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |last| last + 1);
    (last as u64).next_multiple_of(PAGE)
}

/// The last byte that is not zero.
///
/// # Panics
/// If the file cannot be read.
#[must_use]
pub fn last_byte(segment: &Path) -> u64 {
    let bytes = fs::read(segment).unwrap();
    bytes.iter().rposition(|byte| *byte != 0).unwrap() as u64
}

/// Overwrites bytes of a file.
///
/// # Panics
/// If that fails.
pub fn overwrite(file: &Path, offset: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(file).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

/// Flips one bit of a file.
///
/// # Panics
/// If that fails.
pub fn flip(file: &Path, offset: u64) {
    let mut byte = [0];
    let handle = OpenOptions::new()
        .read(true)
        .write(true)
        .open(file)
        .unwrap();
    handle.read_exact_at(&mut byte, offset).unwrap();
    handle.write_all_at(&[byte[0] ^ 0x10], offset).unwrap();
}

/// Cuts or extends a file.
///
/// # Panics
/// If that fails.
pub fn set_len(file: &Path, bytes: u64) {
    let file = OpenOptions::new().write(true).open(file).unwrap();
    file.set_len(bytes).unwrap();
}
