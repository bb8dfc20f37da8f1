//! Killing the program at seeded moments of a payouts job until all its kills have landed.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::marks::AttemptName;
use crate::moments::Moments;
use crate::payouts::Payouts;
use crate::program::{Program, until};
use crate::scene::Scene;

/// Where the kills of a campaign landed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Landed {
    /// Kills that hit a living process.
    pub kills: usize,
    /// Kills that cut no tool: before the first, or between two.
    pub between: usize,
    /// Attempts whose intent was there and whose tool had not begun.
    pub before_tool: usize,
    /// Attempts cut inside the tool, before it had paid.
    pub before_effect: usize,
    /// Attempts cut inside the tool, after it had paid.
    pub after_effect: usize,
}

/// Starts the job and kills it, `kills` times. The moments are spread over the job's rows: every
/// fifth comes soon after the start (inside recovery, with luck), the others when the job has made
/// its share of progress.
///
/// # Panics
/// If the program ends by itself otherwise than by a finished job.
#[must_use]
pub fn kill(scene: &Scene, payouts: &Payouts, moments: &mut Moments, kills: usize) -> Landed {
    let rows = payouts.asked().len();
    let mut landed = Landed::default();
    let mut snapshots = Vec::new();
    for number in 0..kills {
        let mut running = Program::new(scene).arg("run").arg(payouts.job()).start();
        if number % 5 == 0 {
            std::thread::sleep(Duration::from_millis(moments.within(0, 120)));
        } else {
            // Not up to the last rows: each later kill needs something to cut.
            let share = rows * (number + 1) / (kills + 2);
            until("the job's share of progress", || {
                running.has_ended() || payouts.begun() >= share
            });
            std::thread::sleep(Duration::from_micros(moments.within(0, 30_000)));
        }
        let ended = running.kill();
        assert_eq!(
            ended.signal(),
            Some(9),
            "kill {number} found a program that had ended with {:?}:\n{}\n{}",
            ended.code(),
            ended.stdout,
            ended.stderr
        );
        landed.kills += 1;
        snapshots.push(payouts.marks().begun);
    }
    classify(payouts, &snapshots, &mut landed);
    landed
}

/// Tells where the kills landed, once the guards of the last killed process have done their work.
fn classify(payouts: &Payouts, snapshots: &[BTreeSet<AttemptName>], landed: &mut Landed) {
    let (marks, ledger) = (payouts.marks(), payouts.ledger());
    let mut cut_so_far = BTreeSet::new();
    for begun in snapshots {
        let cut: Vec<_> = begun
            .iter()
            .filter(|attempt| !marks.ended.contains(*attempt) && !cut_so_far.contains(*attempt))
            .collect();
        if cut.is_empty() {
            landed.between += 1;
        }
        for attempt in cut {
            let (key, number) = attempt.split_once('.').unwrap();
            if ledger.has_paid(key, number.parse().unwrap()) {
                landed.after_effect += 1;
            } else {
                landed.before_effect += 1;
            }
            cut_so_far.insert(attempt.clone());
        }
    }
    let unbegun = marks
        .asked
        .iter()
        .filter(|attempt| !marks.begun.contains(*attempt));
    landed.before_tool = unbegun.count();
}
