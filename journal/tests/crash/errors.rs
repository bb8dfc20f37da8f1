//! Each call of the disk failing once, alone, during loads and during recoveries.

use std::io::ErrorKind;
use std::sync::Mutex;

use intendant_journal::disk::simulated::{Calls, Fate, Fault, SimulatedDisk};

use crate::load::{Load, Shared, open};
use crate::oracle::judge;

const FAULTS: [Fault; 4] = [
    Fault::Error(ErrorKind::Other),
    Fault::Error(ErrorKind::PermissionDenied),
    Fault::Error(ErrorKind::ReadOnlyFilesystem),
    Fault::Short,
];

/// The disk after everything unsynced was lost, was kept, or after a kill.
fn ends(disk: &SimulatedDisk) -> Vec<(&'static str, SimulatedDisk)> {
    let unsynced = disk.unsynced().len();
    vec![
        ("killed", disk.killed()),
        ("all unsynced lost", disk.cut(&vec![Fate::Lost; unsynced])),
        ("all unsynced kept", disk.cut(&vec![Fate::Whole; unsynced])),
    ]
}

/// Whatever change of a load fails: what was acknowledged is there afterwards, what was refused is
/// not, and the next opening succeeds. Gives how many faults were met, or the first violation.
pub(crate) fn of_changes(load: Load) -> Result<u64, String> {
    let counted = SimulatedDisk::new();
    load.play(&counted, &Shared::default());
    let mut met = 0;
    for number in 0..counted.changes() {
        for fault in FAULTS {
            let disk = SimulatedDisk::new();
            disk.plan_fault(Calls::Changes, number, fault);
            let model = Shared::default();
            load.play(&disk, &model);
            disk.set_quota(None);
            met += disk.faults_met();
            for (end, disk) in ends(&disk) {
                let model = Shared::new(Mutex::new(model.lock().unwrap().clone()));
                let recovered = judge(load, &disk, &model, 1)
                    .and_then(|()| recover_with_fault(load, &disk, &model, number, fault));
                recovered.map_err(|why| {
                    let load = load.name();
                    format!("{load}: change {number} met {fault:?}, then {end}: {why}")
                })?;
            }
        }
    }
    Ok(met)
}

/// The opening after it meets the same fault at the same number, if it gets there.
fn recover_with_fault(
    load: Load,
    disk: &SimulatedDisk,
    model: &Shared,
    number: u64,
    fault: Fault,
) -> Result<(), String> {
    let disk = disk.killed();
    disk.plan_fault(Calls::Changes, number, fault);
    drop(open(&load.options(&disk, "meets a fault"), model));
    disk.set_quota(None);
    let unsynced = disk.unsynced().len();
    let disk = disk.cut(&vec![Fate::Lost; unsynced]);
    judge(load, &disk, model, 2).map_err(|why| format!("and again in recovery: {why}"))
}

pub(crate) fn each_change_fails_once() {
    for load in Load::ALL {
        let met = of_changes(load).unwrap();
        assert!(met > 200, "{}: only {met} faults were met", load.name());
    }
}

/// A reading call that fails makes the opening fail or changes nothing, and never costs an entry.
pub(crate) fn each_read_fails_once() {
    let mut refused = 0;
    for load in Load::ALL {
        let disk = SimulatedDisk::new();
        let model = Shared::default();
        load.play(&disk, &model);
        let counted = disk.killed();
        let copy = Shared::new(Mutex::new(model.lock().unwrap().clone()));
        judge(load, &counted, &copy, 1).unwrap();
        for number in 0..counted.reads() {
            let disk = disk.killed();
            disk.plan_fault(Calls::Reads, number, Fault::Error(ErrorKind::Other));
            let model = Shared::new(Mutex::new(model.lock().unwrap().clone()));
            if open(&load.options(&disk, "meets a fault"), &model).is_err() {
                refused += 1;
            }
            let unsynced = disk.unsynced().len();
            let disk = disk.cut(&vec![Fate::Lost; unsynced]);
            if let Err(why) = judge(load, &disk, &model, 2) {
                panic!("{}: read {number} failed: {why}", load.name());
            }
        }
    }
    assert!(refused > 50, "only {refused} openings were refused");
}
