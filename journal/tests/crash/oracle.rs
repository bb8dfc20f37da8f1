//! Judges a disk after a crash: opens it, compares with what the callers know, goes on using it.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use intendant_journal::disk::simulated::SimulatedDisk;
use intendant_journal::error::OpenError;
use intendant_journal::face::{IntentLog, RunFilter};
use intendant_journal::format::entry::Recorded;
use intendant_journal::scan;

use crate::load::{FOLDER, Load, Shared, append, open};
use crate::support::note;

/// Opens the disk as the next process would, uses it and closes it. `number` counts the openings
/// that follow the load.
///
/// O3 and O4 by [`crate::model::Model::compare`]; O5 and O11: after nothing but crashes every opening
/// succeeds; O7: what an opening showed is held to afterwards; `verify` agrees before and after.
pub(crate) fn judge(
    load: Load,
    disk: &SimulatedDisk,
    model: &Shared,
    number: u32,
) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| judged(load, disk, model, number))).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        Err(format!("panic: {text}"))
    })
}

fn judged(load: Load, disk: &SimulatedDisk, model: &Shared, number: u32) -> Result<(), String> {
    match scan::verify_on(Arc::new(disk.killed()), Path::new(FOLDER)) {
        Ok(_) => {}
        Err(OpenError::Missing { .. }) if model.lock().unwrap().recorded() == 0 => {}
        Err(error) => return Err(format!("verify before the opening: {error}")),
    }
    let journal = open(&load.options(disk, &load.program(number)), model)
        .map_err(|error| format!("the opening is refused: {error}"))?;
    let log = read(disk)?;
    // What is read now is told to others: from here on it must stay.
    let known = model.lock().unwrap().compare(&log)?;
    *model.lock().unwrap() = known;
    questions(&journal, &log)?;
    for (blob, content) in model.lock().unwrap().blobs() {
        match journal.get_blob(blob) {
            Ok(found) if found == *content => {}
            Ok(_) => return Err("a blob has another content".to_owned()),
            Err(error) => return Err(format!("a blob that was stored: {error}")),
        }
    }
    append(
        &journal,
        model,
        vec![vec![note("after", &number.to_string())]],
    );
    if let Some(why) = journal.disabled() {
        return Err(format!("disabled without a fault: {why}"));
    }
    drop(journal);
    let log = read(disk)?;
    model.lock().unwrap().compare(&log)?;
    match scan::verify_on(Arc::new(disk.killed()), Path::new(FOLDER)) {
        Ok(report) if report.log.unfinished.is_none() => Ok(()),
        Ok(report) => Err(format!(
            "a torn end after closing: {:?}",
            report.log.unfinished
        )),
        Err(error) => Err(format!("verify after closing: {error}")),
    }
}

/// All entries of the log.
pub(crate) fn read(disk: &SimulatedDisk) -> Result<Vec<Recorded>, String> {
    let mut log = Vec::new();
    scan::scan_on(disk, Path::new(FOLDER), &mut |recorded| log.push(recorded))
        .map_err(|error| format!("reading from outside: {error}"))?;
    Ok(log)
}

/// The projection says the same as the log.
fn questions(journal: &dyn IntentLog, log: &[Recorded]) -> Result<(), String> {
    let mut by_run: BTreeMap<&str, Vec<&Recorded>> = BTreeMap::new();
    for recorded in log {
        if let Some(run) = &recorded.entry.run {
            by_run.entry(run).or_default().push(recorded);
        }
    }
    let rows = journal
        .runs(RunFilter::All)
        .map_err(|error| format!("runs: {error}"))?;
    let named: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.run.as_str()).collect();
    if named != by_run.keys().copied().collect() {
        return Err(format!("the projection knows the runs {named:?}"));
    }
    for (run, expected) in by_run {
        let history = journal
            .history(run)
            .map_err(|error| format!("history: {error}"))?;
        if !history.iter().eq(expected.iter().copied()) {
            return Err(format!("the history of {run} is not what the log says"));
        }
    }
    Ok(())
}
