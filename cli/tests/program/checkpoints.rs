//! `checkpoint` and `verify`: what is signed, what is found, and with which exit code.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::world::{RECONCILABLE, Ran, World, first_segment, ran};

fn paid(rows: &[(&str, u32)]) -> World {
    let world = World::new(RECONCILABLE, rows);
    world.run().ends(0);
    world
}

fn newest_note(data: &Path) -> PathBuf {
    let names = std::fs::read_dir(data.join("checkpoints")).unwrap();
    names.map(|name| name.unwrap().path()).max().unwrap()
}

fn copy(from: &Path, to: &Path) {
    let done = Command::new("cp").arg("-a").args([from, to]).status();
    assert!(done.unwrap().success());
}

/// A command as another user gives it, whose folder of keys is this one and who has no record of
/// the journal.
fn as_another(world: &World, config: &str, args: &[&str]) -> Ran {
    let mut command = world.command(args);
    ran(command
        .env("XDG_CONFIG_HOME", world.path(config))
        .env("XDG_STATE_HOME", world.path(&format!("state of {config}")))
        .output()
        .unwrap())
}

#[track_caller]
fn error(ran: Ran, code: i32, word: &str) -> Value {
    let error = ran.ends(code).json()["error"].clone();
    assert_eq!(error["code"], word, "{error}");
    assert!(!error["remedy"].as_str().unwrap().is_empty(), "{error}");
    error
}

#[test]
fn p10_what_a_run_recorded_is_signed_to_its_end() {
    use std::os::unix::fs::PermissionsExt as _;
    let world = paid(&[("a", 1)]);
    let report = world.json(&["verify"]).ends(0).json();
    assert_eq!(report["valid"], true);
    assert_eq!(report["signed"], true);
    assert_eq!(report["head"]["sequence"], report["last_sequence"]);
    let key = world.path("config/intendant/signing-key");
    let mode = std::fs::metadata(&key).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let public = std::fs::read_to_string(key.with_extension("pub")).unwrap();
    let name = report["head"]["key"].as_str().unwrap();
    assert!(public.starts_with(&format!("{name}+")), "{public}");

    let told = world.intendant(&["verify"]).ends(0).out;
    assert!(told.starts_with("valid\n"), "{told}");
    assert!(told.contains(name), "{told}");
    let doctor = world.intendant(&["doctor"]).ends(0).out;
    assert!(doctor.contains(name), "{doctor}");
}

#[test]
fn p10_a_checkpoint_is_given_by_a_live_engine_and_by_a_stopped_journal() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    world.hold("a");
    let running = world.start();
    world.wait_called("a");
    let live = world.json(&["checkpoint"]).ends(0).json();
    let path = PathBuf::from(live["path"].as_str().unwrap());
    let note = std::fs::read_to_string(&path).unwrap();
    assert_eq!(live["note"], note);
    assert_eq!(path, newest_note(&world.data()));
    let lines: Vec<&str> = note.lines().collect();
    let origin = format!("intendant/journal/{}", live["journal"].as_str().unwrap());
    assert_eq!(lines[..2], [origin, live["sequence"].to_string()]);
    // What is printed for people is the note, to be sent where one likes.
    let words = world.intendant(&["checkpoint"]).ends(0);
    assert_eq!(words.out, note);
    assert!(words.err.contains("signed up to"), "{}", words.err);
    world.write("kept.note", &words.out);
    let args = ["verify", "--checkpoint", "kept.note"];
    world.json(&args).ends(0);
    world.let_go("a");
    running.ends().ends(0);

    let stopped = world.json(&["checkpoint"]).ends(0).json();
    assert!(stopped["sequence"].as_u64() > live["sequence"].as_u64());
    assert_eq!(stopped["key"], live["key"]);
    world.json(&args).ends(0);
}

#[test]
fn p10_x12_a_truncation_below_a_checkpoint_kept_elsewhere_is_found() {
    let world = paid(&[("a", 1)]);
    copy(&world.data(), &world.path("yesterday"));
    world.rows(&[("a", 1), ("b", 2)]);
    world.run().ends(0);
    let kept = world.intendant(&["checkpoint"]).ends(0).out;
    world.write("kept.note", &kept);
    std::fs::remove_dir_all(world.data()).unwrap();
    copy(&world.path("yesterday"), &world.data());

    let here = world.json(&["verify"]).ends(0).json();
    let end = here["last_sequence"].as_u64().unwrap();
    let args = ["verify", "--checkpoint", "kept.note"];
    let found = error(world.json(&args), 11, "truncated");
    assert_eq!(found["sequence"], end + 1);
    assert_eq!(found["segment"], 1);
    assert!(found["offset"].as_u64().unwrap() > 4096);
    assert_eq!(
        found["path"],
        first_segment(&world.data()).to_str().unwrap()
    );
    let durable = kept.lines().nth(1).unwrap();
    let message = found["message"].as_str().unwrap();
    assert!(message.contains(durable), "{message}");
    // An auditor elsewhere needs the public key alone.
    let key = world.path("config/intendant/signing-key.pub");
    let args = [&args[..], &["--key", key.to_str().unwrap(), "--json"]].concat();
    error(as_another(&world, "auditor", &args), 11, "truncated");
    assert!(!world.path("auditor").exists(), "verify makes no key");
}

#[test]
fn p10_a_tail_cut_off_with_every_unsigned_witness_is_found_by_the_folder_itself() {
    let world = paid(&[("a", 1)]);
    let segment = first_segment(&world.data());
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[3 * 4096..].fill(0);
    std::fs::write(&segment, &bytes).unwrap();
    for witness in ["mark", "projection.redb"] {
        std::fs::remove_file(world.data().join(witness)).unwrap();
    }
    let found = error(world.json(&["verify"]), 11, "truncated");
    assert_eq!(found["segment"], 1);
    for args in [&["run", "job.toml"][..], &["pending"]] {
        let refused = error(world.json(args), 4, "shortened");
        assert_eq!(refused["sequence"], found["sequence"], "{args:?}");
        // Behind the last entry; the next would begin a page.
        let end = found["offset"].as_u64().unwrap();
        let next = refused["offset"].as_u64().unwrap();
        assert_eq!(next, end.next_multiple_of(4096), "{args:?}");
    }
    assert_eq!(std::fs::read(&segment).unwrap(), bytes);
}

#[test]
fn p10_a_forged_checkpoint_is_told() {
    let world = paid(&[("a", 1)]);
    let path = newest_note(&world.data());
    let note = std::fs::read_to_string(&path).unwrap();
    let hash = note.lines().nth(2).unwrap();
    let other = format!(
        "{}{}",
        if hash.starts_with('A') { "B" } else { "A" },
        &hash[1..]
    );
    let (_, signature) = note.trim_end().rsplit_once(' ').unwrap();
    let (kept, last) = signature.split_at(signature.len() - 4);
    let turned = format!("{kept}{}", if last == "AAA=" { "BBA=" } else { "AAA=" });
    for forged in [
        note.replacen(hash, &other, 1),
        note.replacen(signature, &turned, 1),
        "900\n".to_owned(),
    ] {
        std::fs::write(&path, &forged).unwrap();
        let found = error(world.json(&["verify"]), 10, "altered");
        assert_eq!(found["path"], path.to_str().unwrap(), "{forged}");
        let told = world.intendant(&["verify"]).ends(10).err;
        assert!(told.contains("altered"), "{told}");
    }
    std::fs::write(&path, &note).unwrap();
    world.json(&["verify"]).ends(0);
}

/// The chain of the log written anew is whole, and all its hashes are right.
#[test]
fn p10_a_log_written_anew_is_unsigned_and_altered_against_what_was_signed() {
    let world = paid(&[("a", 1)]);
    let genuine = newest_note(&world.data());
    copy(&genuine, &world.path("kept.note"));
    let identity = std::fs::read(world.data().join("IDENTITY")).unwrap();
    std::fs::rename(world.data(), world.path("genuine")).unwrap();
    std::fs::create_dir(world.data()).unwrap();
    std::fs::write(world.data().join("IDENTITY"), identity).unwrap();
    let args = ["run", "job.toml", "--json"];
    as_another(&world, "forger", &args).ends(0);

    let report = world.json(&["verify"]).ends(12).json();
    assert_eq!(report["valid"], false);
    let why = report["why_unsigned"].as_str().unwrap();
    assert!(why.contains("intendant/key/"), "{why}");
    let args = ["verify", "--checkpoint", "kept.note"];
    let found = error(world.json(&args), 10, "altered");
    assert_eq!(found["segment"], 1);
    assert!(found["sequence"].as_u64().unwrap() >= 1);
    // Put beside it, it stops the start as well.
    let notes = world.data().join("checkpoints");
    std::fs::remove_dir_all(&notes).unwrap();
    std::fs::create_dir(&notes).unwrap();
    copy(
        &world.path("kept.note"),
        &notes.join(genuine.file_name().unwrap()),
    );
    let refused = error(world.run(), 4, "contradicted");
    assert_eq!(refused["segment"], 1);
    let signed: u64 = genuine
        .file_stem()
        .unwrap()
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(refused["sequence"], signed);
    error(world.json(&["verify"]), 10, "altered");
}

#[test]
fn p10_nothing_unsigned_passes_for_signed() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    // There is no place for a key: recording goes on, and that is told.
    world.write("no-folder", "");
    let run = as_another(&world, "no-folder", &["run", "job.toml"]).ends(0);
    assert!(run.err.contains("not signed"), "{}", run.err);
    let asked = as_another(&world, "no-folder", &["checkpoint", "--json"]);
    error(asked, 12, "unsigned");
    let told = world.intendant(&["verify"]).ends(12).out;
    assert!(told.starts_with("UNSIGNED"), "{told}");
    assert!(told.contains("there is no checkpoint"), "{told}");

    // With a key from now on, for those who know it.
    world.run().ends(0);
    world.json(&["verify"]).ends(0);
    let other = as_another(&world, "other", &["verify", "--json"]).ends(12);
    assert_eq!(other.json()["signed"], false);
    let key = world.path("config/intendant/signing-key.pub");
    let given = ["verify", "--json", "--key", key.to_str().unwrap()];
    as_another(&world, "other", &given).ends(0);
    // The keys that are named are those that are believed, and no others.
    as_another(&world, "other", &["checkpoint", "--json"]).ends(0);
    let key = world.path("other/intendant/signing-key.pub");
    std::fs::remove_file(newest_note(&world.data())).unwrap();
    world.json(&["verify"]).ends(0);
    let given = ["verify", "--key", key.to_str().unwrap()];
    world.json(&given).ends(12);
    // And a head that was taken away is missed.
    std::fs::remove_dir_all(world.data().join("checkpoints")).unwrap();
    let report = world.json(&["verify"]).ends(12).json();
    assert_eq!(report["why_unsigned"], "there is no checkpoint");
}

#[test]
fn files_that_are_none_of_the_kind_are_bad_usage_and_no_secret_is_told() {
    let world = paid(&[("a", 1)]);
    let secret = world.path("config/intendant/signing-key");
    let secret = secret.to_str().unwrap();
    for args in [
        ["verify", "--checkpoint", "gone.note"],
        ["verify", "--checkpoint", "rows.csv"],
        ["verify", "--key", "gone.pub"],
        ["verify", "--key", "rows.csv"],
        ["verify", "--key", secret],
    ] {
        let ran = world.json(&args);
        let text = std::fs::read_to_string(secret).unwrap();
        assert!(!ran.out.contains(text.trim().rsplit('/').next().unwrap()));
        let told = error(ran, 2, "usage");
        assert!(!told["path"].is_null(), "{args:?}: {told}");
    }
    let public = format!("{secret}.pub");
    world.json(&["verify", "--key", &public]).ends(0);
}
