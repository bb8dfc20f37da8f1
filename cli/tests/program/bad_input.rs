//! Bad input: each is a clear error or its pinned outcome, and nothing is lost.

use crate::world::{OPAQUE, RECONCILABLE, World, first_segment};

#[test]
fn mistakes_in_a_job_file_are_all_told_and_nothing_starts() {
    let world = World::new("reconcille = [\"./x\"]", &[("a", 1)]);
    let job = std::fs::read_to_string(world.path("job.toml")).unwrap();
    world.write("job.toml", &job.replace("./pay.sh", "./gone.sh"));
    for command in ["run", "check"] {
        let error = &world.json(&[command, "job.toml"]).ends(2).json()["error"];
        assert_eq!(error["code"], "bad_job");
        let problems = error["problems"].to_string();
        assert!(
            problems.contains("reconcille") && problems.contains("gone.sh"),
            "{problems}"
        );
        let people = world.intendant(&[command, "job.toml"]).ends(2).err;
        assert!(people.contains("job.toml:"), "{people}");
    }
    world.json(&["run", "nowhere.toml"]).ends(2);
    assert!(!world.data().exists(), "nothing was started");
}

#[test]
fn a_sound_job_is_told_with_what_an_interruption_means() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    let summary = world.json(&["check", "job.toml"]).ends(0).json();
    assert_eq!(summary["items"], 1);
    assert!(
        world
            .intendant(&["check", "job.toml"])
            .ends(0)
            .out
            .contains("is asked")
    );
    assert!(!world.data().exists());
}

#[test]
fn an_environment_name_that_is_not_set_starts_nothing() {
    let world = World::new(OPAQUE, &[("a", 1)]);
    let job = std::fs::read_to_string(world.path("job.toml")).unwrap();
    let job = job.replace("version = 1", "version = 1\nenv = [\"INTENDANT_NOT_SET\"]");
    world.write("job.toml", &job);
    world.run().ends(2);
    assert!(!world.data().exists());
}

#[test]
fn a_journal_that_is_gone_though_recorded_is_no_fresh_start() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    world.run().ends(0);
    std::fs::rename(world.data(), world.path("elsewhere")).unwrap();
    let error = &world.run().ends(4).json()["error"];
    assert_eq!(error["code"], "gone");
    assert!(error["remedy"].as_str().unwrap().contains("--new-journal"));
    assert!(!world.data().exists());
    for args in [
        &["pending"][..],
        &["runs"],
        &["show", "pay"],
        &["explain", "pay/pay/a#1"],
        &["tail"],
        &["verify"],
        &["cancel", "pay"],
    ] {
        let told = &world.json(args).ends(4).json()["error"];
        assert_eq!(told, error, "{args:?}");
    }
    assert_eq!(record_finding(&world)["state"], "bad");
    // Brought back, it goes on; asked for deliberately, a new one begins.
    std::fs::rename(world.path("elsewhere"), world.data()).unwrap();
    assert_eq!(world.run().ends(0).json()["actions"]["replayed"], 1);
    std::fs::remove_dir_all(world.data()).unwrap();
    let args = ["run", "job.toml", "--new-journal"];
    assert_eq!(world.json(&args).ends(0).json()["actions"]["replayed"], 0);
}

/// What `doctor` says of the record outside.
fn record_finding(world: &World) -> serde_json::Value {
    let doctor = world.json(&["doctor"]).json();
    let findings = doctor["findings"].as_array().unwrap();
    let record = findings.iter().find(|finding| finding["what"] == "record");
    record.unwrap_or_else(|| panic!("{doctor}")).clone()
}

#[test]
fn a_new_journal_is_not_begun_over_one_that_is_there() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    world.run().ends(0);
    assert_eq!(record_finding(&world)["state"], "ok");
    let args = ["run", "job.toml", "--new-journal"];
    let error = &world.json(&args).ends(2).json()["error"];
    assert_eq!(error["code"], "journal_there");
    assert_eq!(error["path"], world.data().to_str().unwrap());
    assert_eq!(world.pending()["engine"], "stopped");
    // Another journal than the recorded one is refused, and taken only on demand.
    std::fs::rename(world.data(), world.path("first")).unwrap();
    world.json(&args).ends(0);
    std::fs::remove_dir_all(world.data()).unwrap();
    std::fs::rename(world.path("first"), world.data()).unwrap();
    let record = record_finding(&world);
    assert_eq!(record["state"], "bad");
    assert!(record["remedy"].as_str().unwrap().contains("--new-journal"));
    world.run().ends(4);
    assert_eq!(world.json(&args).ends(0).json()["actions"]["replayed"], 1);
    world.run().ends(0);
}

#[test]
fn without_a_place_for_records_the_user_is_warned() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    for args in [&["run", "job.toml"][..], &["doctor"]] {
        let mut command = world.command(args);
        let command = command.env_remove("HOME").env_remove("XDG_STATE_HOME");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let told = [output.stdout, output.stderr].concat();
        let told = String::from_utf8(told).unwrap();
        let words: Vec<&str> = told.split_whitespace().collect();
        assert!(
            words.join(" ").contains("cannot be recorded outside"),
            "{told}"
        );
    }
}

#[test]
fn a_folder_of_another_program_is_refused_and_left_alone() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    std::fs::create_dir(world.data()).unwrap();
    world.write("data/photos.db", "not ours");
    for args in [
        &["run", "job.toml"][..],
        &["pending"],
        &["verify"],
        &["doctor"],
    ] {
        let ran = world.json(args).ends(4);
        if args != ["doctor"] {
            assert_eq!(ran.json()["error"]["code"], "foreign", "{args:?}");
        }
    }
    let names: Vec<_> = std::fs::read_dir(world.data()).unwrap().collect();
    assert_eq!(names.len(), 1);
}

#[test]
fn other_commands_never_create_a_journal() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    for args in [
        &["pending"][..],
        &["runs"],
        &["show", "pay"],
        &["tail"],
        &["verify"],
        &["cancel", "pay"],
        &["reconcile", "pay/pay/a#1"],
    ] {
        let error = &world.json(args).ends(4).json()["error"];
        assert_eq!(error["code"], "missing", "{args:?}");
        assert_eq!(error["path"], world.data().to_str().unwrap());
    }
    assert!(!world.data().exists());
}

#[test]
fn a_newer_format_and_an_unreadable_file_are_refused() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    world.run().ends(0);
    let identity = world.data().join("IDENTITY");
    let text = std::fs::read_to_string(&identity).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut newer = json.clone();
    newer["format"] = 99.into();
    std::fs::write(&identity, newer.to_string()).unwrap();
    for args in [&["run", "job.toml"][..], &["pending"], &["verify"]] {
        assert_eq!(
            world.json(args).ends(4).json()["error"]["code"],
            "newer",
            "{args:?}"
        );
    }
    std::fs::remove_file(&identity).unwrap();
    std::fs::create_dir(&identity).unwrap();
    for args in [&["run", "job.toml"][..], &["pending"], &["verify"]] {
        let error = &world.json(args).ends(4).json()["error"];
        assert!(
            error["path"].as_str().unwrap().contains("IDENTITY"),
            "{error}"
        );
    }
    std::fs::remove_dir(&identity).unwrap();
    std::fs::write(&identity, text).unwrap();
    world.run().ends(0);
}

#[test]
fn damage_names_segment_and_offset_and_no_byte_is_changed() {
    let world = World::new(RECONCILABLE, &[("a", 1), ("b", 2)]);
    world.run().ends(0);
    let segment = first_segment(&world.data());
    let mut bytes = std::fs::read(&segment).unwrap();
    // In the middle of the first entries, with many good ones behind it.
    bytes[4096 + 40] ^= 0x55;
    std::fs::write(&segment, &bytes).unwrap();
    for (args, code) in [
        (&["run", "job.toml"][..], 4),
        (&["pending"], 4),
        (&["verify"], 10),
    ] {
        let error = &world.json(args).ends(code).json()["error"];
        assert_eq!(error["code"], "damaged", "{args:?}");
        assert_eq!(error["segment"], 1);
        assert!(error["offset"].as_u64().unwrap() >= 4096);
        assert!(!error["remedy"].as_str().unwrap().is_empty());
    }
    assert_eq!(std::fs::read(&segment).unwrap(), bytes);
}

#[test]
fn a_log_that_ends_too_early_names_segment_and_offset() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    world.run().ends(0);
    let segment = first_segment(&world.data());
    let mut bytes = std::fs::read(&segment).unwrap();
    bytes[3 * 4096..].fill(0);
    std::fs::write(&segment, &bytes).unwrap();
    for (args, code) in [
        (&["run", "job.toml"][..], 4),
        (&["pending"], 4),
        (&["verify"], 11),
    ] {
        let error = &world.json(args).ends(code).json()["error"];
        assert_eq!(error["code"], "shortened", "{args:?}: {error}");
        assert_eq!(error["path"], segment.to_str().unwrap());
        assert_eq!(error["segment"], 1);
        let offset = usize::try_from(error["offset"].as_u64().unwrap()).unwrap();
        assert!((4097..=3 * 4096).contains(&offset), "{error}");
    }
    assert_eq!(std::fs::read(&segment).unwrap(), bytes);
}

#[test]
fn an_output_that_is_no_json_is_unusable_and_never_run_again() {
    let world = World::new(RECONCILABLE, &[("a", 1)]);
    world.script("pay.sh", "#!/bin/sh\necho x >> called.a\necho 'not json'\n");
    let ended = world.run().ends(1).json();
    assert_eq!(ended["actions"]["failed"], 1);
    assert!(
        ended["why"].as_str().unwrap().contains("unusable"),
        "{ended}"
    );
    let shown = world.json(&["show", "pay/pay/a#1"]).ends(0).json();
    assert_eq!(shown["state"], "succeeded, output unusable");
    assert_eq!(shown["output"], "not json\n");
    world.run().ends(1);
    assert_eq!(world.calls("a").0, 1);
}

#[test]
fn an_output_of_20_mb_is_kept_by_its_hash() {
    let world = World::new(OPAQUE, &[("a", 1)]);
    world.script(
        "pay.sh",
        "#!/bin/sh\nhead -c 20000000 /dev/zero | tr '\\0' 7\n",
    );
    let ended = world.run().ends(1).json();
    assert_eq!(ended["actions"]["failed"], 1);
    let shown = world.json(&["show", "pay/pay/a#1"]).ends(0).json();
    assert_eq!(shown["state"], "succeeded, output unusable");
    assert_eq!(shown["output"]["lost"]["bytes"], 20_000_000);
    assert_eq!(
        shown["output"]["lost"]["sha256"].as_str().unwrap().len(),
        64
    );
}

#[test]
fn an_output_of_a_megabyte_is_kept_and_shown_while_stopped() {
    let world = World::new(OPAQUE, &[("a", 1)]);
    world.script(
        "pay.sh",
        "#!/bin/sh\nprintf '{\"receipt\":\"'\nhead -c 1000000 /dev/zero | tr '\\0' r\nprintf '\"}'\n",
    );
    world.run().ends(0);
    let shown = world.json(&["show", "pay/pay/a#1"]).ends(0).json();
    assert_eq!(
        shown["output"]["receipt"].as_str().unwrap().len(),
        1_000_000
    );
    assert_eq!(world.json(&["verify"]).ends(0).json()["blobs"], 1);
}
