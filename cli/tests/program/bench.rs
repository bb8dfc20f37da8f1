//! `intendant bench` prints what it promises and leaves nothing behind.

use crate::world::World;

#[test]
fn all_figures_are_there_and_the_folder_is_gone() {
    let world = World::new("", &[]);
    std::fs::create_dir(world.path("disk")).unwrap();
    let args = [
        "bench",
        "--runs",
        "5",
        "--steps",
        "3",
        "--concurrency",
        "2",
        "--folder",
        "disk",
    ];
    let figures = world.json(&args).ends(0).json();
    for name in [
        "steps_per_s",
        "p50_us",
        "p99_us",
        "syncs_per_step",
        "bytes_per_step",
        "limit_appends_per_s",
        "ratio",
        "append_ratio",
        "append_p50_ratio",
    ] {
        let figure = figures[name].as_f64();
        assert!(
            figure.is_some_and(|figure| figure.is_finite() && figure > 0.0),
            "{name}: {figures}"
        );
    }
    for (name, value) in [
        ("runs", 5),
        ("steps", 3),
        ("concurrency", 2),
        ("payload_bytes", 200),
        ("limit_record_bytes", 300),
    ] {
        assert_eq!(figures[name], value, "{name}");
    }
    assert!(figures["p50_us"].as_f64() <= figures["p99_us"].as_f64());
    // One step of a run alone needs a sync; more than two a step would be a lost promise.
    assert!(figures["syncs_per_step"].as_f64() <= Some(2.0), "{figures}");
    let left = std::fs::read_dir(world.path("disk")).unwrap().count();
    assert_eq!(left, 0, "something is left of the benchmark");
    assert!(!world.data().exists(), "it is no job");
}
