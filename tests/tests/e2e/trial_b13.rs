//! Trial B13: two processes share the store.

use std::os::unix::fs::symlink;

use intendant_tests::program::{Program, until};
use intendant_tests::scene::{Scene, content};
use intendant_tests::stub::{Manner, Stub};
use intendant_tests::stub_job::StubJob;

use crate::CLIENT;

#[test]
fn trial_b13_a_second_owner_is_refused_and_a_stale_lock_never_blocks() {
    let scene = Scene::new("b13", "");
    let stub = Stub::new(Manner {
        hold: true,
        ..Manner::GOOD
    });
    let job = StubJob::default().write(&scene, CLIENT, &stub);
    let mut first = Program::new(&scene).arg("run").arg(&job).start();
    until("the first owner is at work", || stub.held() == 1);
    let pid = first.pid().as_raw_nonzero().to_string();

    symlink(scene.data(), scene.path("link")).unwrap();
    let spellings = [
        scene.data(),
        scene.path("link"),
        "../data".into(),
        "../job/.././data".into(),
    ];
    // The owner makes a spare segment ready meanwhile; the log and its mark stand still.
    let files = [
        "data/journal/0000000000000001.seg",
        "data/mark",
        "data/IDENTITY",
        "data/LOCK",
    ];
    let look = || files.map(|file| content(&scene.path(file)));
    let before = look();
    for data in spellings {
        let second = Program::new(&scene)
            .arg("run")
            .arg(&job)
            .arg("--data")
            .arg(&data);
        let second = second.run().expect(5);
        let error = &second.json()["error"];
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(&pid), "{message} does not name {pid}");
        assert!(!error["remedy"].as_str().unwrap().is_empty());
    }
    assert_eq!(look(), before, "the refused wrote");
    assert!(!first.has_ended());

    // Who only reads is served meanwhile.
    let pending = Program::new(&scene).arg("pending").run().expect(0).json();
    assert_eq!(pending["engine"], "live");
    assert_eq!(pending["items"][0]["state"], "running");
    for command in [["runs", ""], ["show", StubJob::RUN]] {
        let words = command.into_iter().filter(|word| !word.is_empty());
        let _ = Program::new(&scene).args(words).run().expect(0).json();
    }

    assert_eq!(first.kill().signal(), Some(9));
    stub.behave(|manner| manner.hold = false);
    let done = Program::new(&scene)
        .arg("run")
        .arg(&job)
        .run()
        .expect(0)
        .json();
    assert_eq!(done["actions"]["done"], 1);
    stub.let_through();
    assert_eq!(stub.effects().len(), 1);
}
