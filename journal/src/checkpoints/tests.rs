#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::*;

use super::key_file::{self, KeyFileError, PUBLIC, SECRET};
use super::*;
use crate::disk::watched::WatchedDisk;
use crate::disk::{RealDisk, Site};
use crate::format::entry::{Digest, JournalId, Sequence};

/// The vectors of the reference implementation, golang.org/x/mod/sumdb/note.
const VKEY: &str = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
const SKEY: &str = "PRIVATE+KEY+PeterNeumann+c74f20a3+AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz";
const TEXT: &str = "If you think cryptography is the answer to your problem,\n\
                    then you don't know what your problem is.\n";
const NOTE: &str = "If you think cryptography is the answer to your problem,\n\
                    then you don't know what your problem is.\n\
                    \n\
                    — PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n";

fn peter() -> Signer {
    Signer::from_secret_text(SKEY).unwrap()
}

fn known(signer: &Signer) -> Vec<Verifier> {
    vec![signer.verifier().clone()]
}

#[test]
fn the_published_vector_is_made_and_verified_byte_for_byte() {
    let verifier: Verifier = VKEY.parse().unwrap();
    assert_eq!(verifier.to_string(), VKEY);
    assert_eq!(*peter().verifier(), verifier);
    assert_eq!(peter().secret_text(), SKEY);
    assert_eq!(Note::sign(TEXT.into(), &peter()).to_string(), NOTE);

    let note = Note::parse(NOTE.as_bytes()).unwrap();
    assert_eq!(note.text(), TEXT);
    let signed = Standing::Signed("PeterNeumann".into());
    assert_eq!(note.standing(&[verifier]), signed);
}

#[test]
fn no_part_of_a_key_and_no_change_of_it_is_a_key() {
    for begin in 0..=VKEY.len() {
        for end in begin..=VKEY.len() {
            if (begin, end) != (0, VKEY.len()) {
                assert!(VKEY[begin..end].parse::<Verifier>().is_err());
            }
        }
    }
    for at in 0..VKEY.len() {
        let mut changed = VKEY.as_bytes().to_vec();
        changed[at] += 1;
        let changed = String::from_utf8(changed).unwrap();
        assert!(changed.parse::<Verifier>().is_err(), "{changed}");
    }
    let longer = "PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWAAAA";
    assert_eq!(longer.parse::<Verifier>(), Err(BadKey::Algorithm));
    let other = "PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
    assert_eq!(other.parse::<Verifier>(), Err(BadKey::Algorithm));
}

#[test]
fn a_signature_is_worth_what_the_known_keys_say() {
    let (ours, theirs) = (Signer::generate().unwrap(), Signer::generate().unwrap());
    let note = |signer: &Signer| Note::sign("text\n".into(), signer).to_string();
    let standing = |text: &str, keys: &[Verifier]| {
        let note = Note::parse(text.as_bytes()).unwrap();
        note.standing(keys)
    };
    let name = |signer: &Signer| signer.verifier().name().to_owned();
    let signed = note(&ours);
    assert_eq!(
        standing(&signed, &known(&ours)),
        Standing::Signed(name(&ours))
    );
    let unknown = Standing::UnknownKey(vec![name(&ours)]);
    assert_eq!(standing(&signed, &known(&theirs)), unknown);
    assert_eq!(standing(&signed, &[]), unknown);
    assert_eq!(standing("text\n", &known(&ours)), Standing::Unsigned);
    let changed = signed.replace("text", "Text");
    assert_eq!(
        standing(&changed, &known(&ours)),
        Standing::Broken(name(&ours))
    );

    // A line of a known key that does not hold spoils the note, beside one that holds too.
    let both = format!("{signed}{}", note(&theirs).split_once("\n\n").unwrap().1);
    let keys = [known(&ours), known(&theirs)].concat();
    assert!(matches!(standing(&both, &keys), Standing::Signed(_)));
    let spoiled = note(&Signer::from_secret_text(&ours.secret_text()).unwrap());
    let other_text = Note::sign("other\n".into(), &theirs).to_string();
    let spoiled = format!("{spoiled}{}", other_text.split_once("\n\n").unwrap().1);
    assert_eq!(standing(&spoiled, &keys), Standing::Broken(name(&theirs)));
}

#[test]
fn what_is_no_note_says_why() {
    let line = NOTE.split_once("\n\n").unwrap().1;
    let long = format!("text\n\n{}", line.repeat(101));
    let many = format!("text\n\n{}", line.repeat(16));
    assert!(Note::parse(many.as_bytes()).is_ok());
    for (bytes, why) in [
        (&b""[..], BadNote::End),
        (b"text", BadNote::End),
        (b"te\rxt\n", BadNote::Text),
        (b"te\xffxt\n", BadNote::Text),
        (long.as_bytes(), BadNote::Long),
        (&[b'\n'; 70_000], BadNote::Long),
        (b"text\n\n", BadNote::Signature { line: 1 }),
        (b"text\n\n- a AAAAAAAA\n", BadNote::Signature { line: 1 }),
        (
            "text\n\n— a AAAAAA==\n".as_bytes(),
            BadNote::Signature { line: 1 },
        ),
        (
            "text\n\n— a+b AAAAAAAA\n".as_bytes(),
            BadNote::Signature { line: 1 },
        ),
        (
            "text\n\n— a AAAAAAAA\n— b\n".as_bytes(),
            BadNote::Signature { line: 2 },
        ),
    ] {
        assert_eq!(Note::parse(bytes), Err(why), "{bytes:?}");
    }
}

fn checkpoint() -> Checkpoint {
    Checkpoint {
        journal: JournalId([0xab; 16]),
        sequence: Sequence(42),
        chain: Digest([7; 32]),
        wall_ms: 1_764_533_158_123,
    }
}

#[test]
fn the_text_of_a_checkpoint_is_that_of_the_format() {
    let text = "intendant/journal/abababababababababababababababab\n42\n\
                BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=\ntime 1764533158123\n";
    assert_eq!(checkpoint().to_string(), text);
    assert_eq!(Checkpoint::parse(text), Ok(checkpoint()));
    // A later program may add lines.
    assert_eq!(
        Checkpoint::parse(&format!("{text}more 1\n")),
        Ok(checkpoint())
    );
    for (from, to, line) in [
        ("intendant/", "example/", 1),
        ("abab", "xyxy", 1),
        ("\n42\n", "\n042\n", 2),
        ("\n42\n", "\n+42\n", 2),
        ("\n42\n", "\n-1\n", 2),
        ("BwcH", "", 3),
        ("wc=", "wd=", 3),
        ("time ", "at ", 4),
        ("158123\n", "158123\n\nx\n", 5),
    ] {
        let changed = text.replacen(from, to, 1);
        assert_eq!(
            Checkpoint::parse(&changed).unwrap_err().line,
            line,
            "{changed}"
        );
    }
}

#[test]
fn the_example_in_format_md_is_a_signed_checkpoint() {
    let note = Note::sign(checkpoint().to_string(), &peter()).to_string();
    let indented: String = note
        .lines()
        .map(|line| match line {
            "" => "\n".into(),
            line => format!("    {line}\n"),
        })
        .collect();
    let document = include_str!("../../FORMAT.md");
    assert!(document.contains(&indented), "{indented}");
    assert!(document.contains(VKEY));
}

proptest! {
    #[test]
    fn checkpoints_and_notes_come_back_as_they_were(
        id: [u8; 16], sequence: u64, chain: [u8; 32], wall_ms: i64, seed: u8,
    ) {
        let checkpoint = Checkpoint {
            journal: JournalId(id), sequence: Sequence(sequence), chain: Digest(chain), wall_ms,
        };
        let note = Note::sign(checkpoint.to_string(), &peter());
        let text = note.to_string();
        let read = Note::parse(text.as_bytes()).unwrap();
        prop_assert_eq!(&read, &note);
        prop_assert_eq!(read.to_string(), text.clone());
        prop_assert_eq!(Checkpoint::parse(read.text()), Ok(checkpoint));

        // One changed byte anywhere: never signed, never a panic.
        let mut bytes = text.into_bytes();
        let at = (sequence as usize ^ seed as usize) % bytes.len();
        bytes[at] ^= seed.max(1);
        if let Ok(note) = Note::parse(&bytes) {
            let signed = matches!(note.standing(&known(&peter())), Standing::Signed(_));
            prop_assert!(!signed, "byte {}", at);
        }
    }

    #[test]
    fn no_bytes_make_the_reader_panic(bytes: Vec<u8>, text: String) {
        let _ = Note::parse(&bytes);
        let _ = Note::parse(text.as_bytes());
        let _ = Checkpoint::parse(&text);
        let _ = text.parse::<Verifier>();
        let _ = Signer::from_secret_text(&text);
    }
}

#[test]
fn a_key_is_made_once_privately_and_synced_before_it_is_there() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("config/intendant");
    let disk = WatchedDisk::default();
    assert!(key_file::read(&disk, &folder).unwrap().is_none());
    assert!(disk.take_sites().is_empty(), "reading makes no key");
    let made = key_file::read_or_make(&disk, &folder).unwrap();
    let order = [
        // What is there may have been made and not been synced by somebody who was cut.
        Site::KeyDirSync,
        Site::KeyDirCreate,
        Site::KeyDirSync,
        Site::KeyDirCreate,
        Site::KeyDirSync,
        Site::KeyLockCreate,
        Site::KeyCreate,
        Site::KeyWrite,
        Site::KeySync,
        Site::KeyRename,
        Site::KeyDirSync,
        Site::KeyCreate,
        Site::KeyWrite,
        Site::KeySync,
        Site::KeyRename,
        Site::KeyDirSync,
    ];
    assert_eq!(disk.take_sites(), order);
    let mode = |name: &str| {
        let meta = std::fs::metadata(folder.join(name)).unwrap();
        meta.permissions().mode() & 0o777
    };
    assert_eq!(mode(SECRET), 0o600);
    let public = std::fs::read_to_string(folder.join(PUBLIC)).unwrap();
    assert_eq!(public, format!("{}\n", made.verifier()));

    let again = key_file::read_or_make(&disk, &folder).unwrap();
    assert_eq!(again.verifier(), made.verifier());
    assert!(disk.take_sites().is_empty(), "nothing is written again");
    // A start that was cut between the two halves is made up for.
    std::fs::remove_file(folder.join(PUBLIC)).unwrap();
    key_file::read_or_make(&disk, &folder).unwrap();
    let public = key_file::read_public(&disk, &folder).unwrap();
    assert_eq!(public.as_ref(), Some(made.verifier()));
    assert_eq!(mode(SECRET), 0o600);
}

#[test]
fn two_that_make_a_key_at_once_come_to_one() {
    for _ in 0..20 {
        let place = tempfile::tempdir().unwrap();
        let barrier = std::sync::Barrier::new(4);
        let keys: Vec<Verifier> = std::thread::scope(|scope| {
            let make = || {
                barrier.wait();
                let signer = key_file::read_or_make(&RealDisk, place.path()).unwrap();
                signer.verifier().clone()
            };
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(make)).collect();
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        let kept = key_file::read(&RealDisk, place.path()).unwrap().unwrap();
        assert!(keys.iter().all(|key| key == kept.verifier()), "{keys:?}");
    }
}

#[test]
fn a_key_that_cannot_be_used_is_not_replaced_and_no_secret_is_told() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(SECRET);
    let secret = Signer::generate().unwrap().secret_text();
    // Base64 may hold a plus sign itself.
    let last = secret.splitn(5, '+').nth(4).unwrap();
    let cut = &secret[..secret.len() - 1];
    std::fs::write(&path, cut).unwrap();
    let error = key_file::read_or_make(&RealDisk, place.path()).unwrap_err();
    assert!(matches!(error, KeyFileError::Bad { .. }), "{error}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), cut);
    let told = [format!("{error}"), format!("{error:?}")].concat();
    assert!(!told.contains(&last[..8]), "{told}");

    let signer = Signer::from_secret_text(&secret).unwrap();
    let shown = format!(
        "{signer:?} {:?}",
        crate::Options::new().signer(signer.clone())
    );
    assert!(!shown.contains(&last[..8]), "{shown}");
    assert!(shown.contains(signer.verifier().name()));
}

#[test]
fn a_key_that_cannot_be_written_leaves_nothing_that_passes_for_one() {
    for site in [
        Site::KeyCreate,
        Site::KeyWrite,
        Site::KeySync,
        Site::KeyRename,
    ] {
        let place = tempfile::tempdir().unwrap();
        let disk = WatchedDisk::default();
        disk.fail(Some((site, std::io::ErrorKind::StorageFull)));
        let error = key_file::read_or_make(&disk, place.path()).unwrap_err();
        assert!(
            matches!(error, KeyFileError::Io { .. }),
            "{site:?}: {error}"
        );
        assert!(key_file::read(&disk, place.path()).unwrap().is_none());
        disk.fail(None);
        key_file::read_or_make(&disk, place.path()).unwrap();
    }
}
