//! What the writer does with what was handed over: places batches in a group, writes and syncs the
//! group, rolls the segment.

use std::io;
use std::sync::Arc;

use super::queue::{Job, Shared};
use super::space::{Change, OpenIntents, inline_max_bytes, outcome_bytes, reserve_bytes};
use super::{Follower, Mark};
use crate::checkpoints::Head;
use crate::disk::{DiskFile, Site, write_all_at};
use crate::drive::Drive;
use crate::error::AppendError;
use crate::face::Appended;
use crate::format::chain;
use crate::format::entry::{Digest, Epoch, JournalId, Recorded, Sequence};
use crate::format::frame::{self, Home, Kind};
use crate::format::segment::{HEAD_BYTES, PAGE_BYTES, SegmentHead};
use crate::mutants::{self, Mutant};
use crate::segments::{Refusal, Spare, Supply};

/// A group is closed when it is as large as this, so that nobody waits for a very long write.
const GROUP_BYTES: usize = 4 * 1024 * 1024;

/// The segment that is written to.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) file: Arc<dyn DiskFile>,
    pub(crate) home: Home,
    /// Where the next group begins.
    pub(crate) position: u64,
    /// Its full size.
    pub(crate) end: u64,
    /// Its first frame is still to be written.
    pub(crate) fresh: bool,
}

impl Active {
    pub(crate) fn of(spare: Spare, journal: JournalId) -> Self {
        Self {
            home: Home::new(journal, spare.number),
            file: spare.file,
            position: PAGE_BYTES as u64,
            end: spare.bytes,
            fresh: true,
        }
    }
}

/// What the writer begins with.
pub(crate) struct WriterStart {
    pub(crate) journal: JournalId,
    pub(crate) epoch: Epoch,
    /// Size of new segments, from which the limits follow.
    pub(crate) segment_bytes: u64,
    pub(crate) active: Active,
    pub(crate) supply: Supply,
    pub(crate) mark: Mark,
    pub(crate) durable: Sequence,
    pub(crate) chain: Digest,
    pub(crate) open: OpenIntents,
    pub(crate) follower: Arc<dyn Follower>,
    pub(crate) drive: Drive,
}

/// Writes the log. Ends the waiting of everybody when it is dropped, whichever way that happens.
pub(super) struct Pen {
    shared: Arc<Shared>,
    start: WriterStart,
    /// Sequence of the next entry to be placed.
    next: u64,
    durable: Sequence,
    /// The group that is being gathered, as it will be on disk.
    group: Vec<u8>,
    /// Its batches.
    placed: Vec<(Job, Sequence)>,
    /// Bytes that each open intent reserves.
    reserve: u64,
    /// Bytes that may stay unused at the end of a segment.
    waste: u64,
}

impl std::fmt::Debug for Pen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pen")
            .field("durable", &self.durable)
            .finish_non_exhaustive()
    }
}

impl Drop for Pen {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.disable("the writer panicked");
        }
        self.shared.end();
    }
}

impl Pen {
    pub(super) fn new(shared: Arc<Shared>, start: WriterStart) -> Self {
        let inline_max = inline_max_bytes(start.segment_bytes);
        Self {
            shared,
            next: start.durable.0 + u64::from(!mutants::is(Mutant::SequenceReused)),
            durable: start.durable,
            group: Vec::new(),
            placed: Vec::new(),
            reserve: reserve_bytes(inline_max),
            waste: outcome_bytes(inline_max),
            start,
        }
    }

    /// The writer's thread: a turn for whatever has gathered, until the journal is closed.
    pub(super) fn run(mut self) {
        loop {
            let jobs = self.shared.take();
            if jobs.is_empty() {
                break;
            }
            self.turn(jobs);
        }
        self.finish();
    }

    /// Writes these batches, in one group if they fit, and tells their callers.
    fn turn(&mut self, jobs: Vec<Job>) {
        for job in jobs {
            self.place(job);
        }
        self.commit();
    }

    /// For those who have no thread: writes what has gathered.
    pub(super) fn turn_now(&mut self) {
        let jobs = self.shared.gathered();
        self.turn(jobs);
    }

    /// Does whatever the segments' thread would do now, if there is none.
    #[cfg(any(test, feature = "simulated"))]
    pub(super) fn supply_now(&self) {
        self.start.supply.turn_now();
    }

    /// The last thing that is done, once nothing is taken any more.
    pub(super) fn finish(&mut self) {
        self.start.mark.sync();
        // After a failure nothing more is signed: what is durable is for the next opening to say.
        if self.shared.disabled().is_none() {
            self.start.supply.seal(self.head());
        }
        self.start.supply.close();
    }

    /// Puts a batch into the group, or refuses it.
    fn place(&mut self, job: Job) {
        match self.make_room(&job) {
            Ok(()) => {}
            Err(error) => return job.refuse(error),
        }
        if self.start.active.fresh && self.group.is_empty() {
            let head = SegmentHead {
                first: Sequence(self.next),
                epoch: self.start.epoch,
                chain: self.start.chain,
            };
            head.put(&mut self.group, &self.start.active.home);
        }
        let first = Sequence(self.next);
        job.draft.place(
            &mut self.group,
            &self.start.active.home,
            first,
            self.durable,
        );
        self.next += u64::from(job.draft.entries());
        for change in &job.changes {
            self.start.open.apply(*change);
        }
        self.placed.push((job, first));
        if self.group.len() >= GROUP_BYTES {
            self.commit();
        }
    }

    /// Sees to it that the batch fits in the group, rolling if need be.
    fn make_room(&mut self, job: &Job) -> Result<(), AppendError> {
        self.check_enabled()?;
        if job.starts_effects {
            self.keep_reserve(job)?;
        }
        if self.fits(job) {
            return Ok(());
        }
        self.commit();
        self.check_enabled()?;
        if self.fits(job) {
            return Ok(());
        }
        let spare = match self.start.supply.take() {
            Ok(spare) => spare,
            Err(refusal) => return Err(self.refused(refusal)),
        };
        if !self.start.active.fresh {
            self.start.supply.seal(self.head());
        }
        self.start.active = Active::of(spare, self.start.journal);
        if self.fits(job) {
            Ok(())
        } else {
            let room = self.start.active.end - self.start.active.position;
            Err(AppendError::TooLarge {
                bytes: job.draft.stored_bytes(),
                max: usize::try_from(room).unwrap_or(usize::MAX),
            })
        }
    }

    fn check_enabled(&self) -> Result<(), AppendError> {
        match self.shared.disabled() {
            Some(why) => Err(AppendError::Disabled { why }),
            None => Ok(()),
        }
    }

    /// Room behind the group in the segment.
    fn remaining(&self) -> u64 {
        let active = &self.start.active;
        (active.end - active.position).saturating_sub(self.group.len() as u64)
    }

    fn fits(&self, job: &Job) -> bool {
        let head = if self.start.active.fresh && self.group.is_empty() {
            HEAD_BYTES
        } else {
            0
        };
        (head + job.draft.stored_bytes()) as u64 <= self.remaining()
    }

    /// Refuses a batch that lets effects start unless what is open, and what it opens, could
    /// still be ended if no byte more could be had from the disk.
    fn keep_reserve(&self, job: &Job) -> Result<(), AppendError> {
        if let Some(refusal) = self.start.supply.trouble() {
            return Err(self.refused(refusal));
        }
        let opens = job
            .changes
            .iter()
            .filter(|change| matches!(change, Change::Opens(_)))
            .count() as u64;
        let batch = job.draft.stored_bytes().next_multiple_of(PAGE_BYTES) as u64;
        let needed = batch + (self.start.open.count() + opens) * self.reserve;
        let here = self.remaining().saturating_sub(self.waste);
        match needed.saturating_sub(here) {
            0 => Ok(()),
            more => self
                .start
                .supply
                .ensure_room(more, self.waste)
                .map_err(|refusal| self.refused(refusal)),
        }
    }

    fn refused(&self, refusal: Refusal) -> AppendError {
        if let Refusal::Broken(why) = &refusal {
            self.shared.disable(why);
        }
        refusal.into()
    }

    /// Writes and syncs the group, then tells everyone.
    fn commit(&mut self) {
        if self.placed.is_empty() {
            return;
        }
        let used = self.group.len();
        self.group.resize(used.next_multiple_of(PAGE_BYTES), 0);
        let active = &self.start.active;
        if let Err(error) = write_all_at(
            &*active.file,
            &self.group,
            active.position,
            Site::GroupWrite,
        ) {
            return self.write_failed(&error);
        }
        if mutants::is(Mutant::MarkBeforeSync) {
            self.start.mark.advance(Sequence(self.next - 1));
        }
        let mut synced = match mutants::is(Mutant::AckBeforeSync) {
            true => Ok(()),
            false => self.start.active.file.sync_data(Site::GroupSync),
        };
        if synced.is_err() && mutants::is(Mutant::SyncRetried) {
            synced = self.start.active.file.sync_data(Site::GroupSync);
        }
        if let Err(error) = synced {
            let why = format!("sync of the log: {error}");
            return self.fail(&why, &AppendError::Unsettled { why: why.clone() });
        }
        let bytes = self.group.len() as u64;
        self.start.active.position += bytes;
        self.start.active.fresh = false;
        self.durable = Sequence(self.next - 1);
        let entries = self
            .placed
            .iter()
            .map(|(job, _)| job.entries.len() as u64)
            .sum();
        self.shared
            .became_durable(self.durable, entries, self.placed.len() as u64, bytes);

        let mut recorded = Vec::with_capacity(self.placed.len());
        for (job, first) in self.placed.drain(..) {
            let last = Sequence(first.0 + job.entries.len() as u64 - 1);
            // The caller may have dropped its future: the batch is recorded all the same.
            let _ = job.reply.send(Ok(Appended { first, last }));
            for (entry, sequence) in job.entries.into_iter().zip(first.0..) {
                recorded.push(Recorded {
                    sequence: Sequence(sequence),
                    epoch: self.start.epoch,
                    entry,
                });
            }
        }
        // The callers have been told; what follows is off their path.
        self.start.mark.advance(self.durable);
        self.start.follower.durable(recorded);
        if mutants::is(Mutant::AckBeforeSync) {
            drop(self.start.active.file.sync_data(Site::GroupSync));
        }
        self.shared.has_fed(self.durable);
        self.extend_chain(used);
        self.shared.has_hashed(self.head());
        self.group.clear();
    }

    /// The end of what is durable.
    fn head(&self) -> Head {
        Head {
            sequence: self.durable,
            chain: self.start.chain,
        }
    }

    /// Hashes the entries of the group, which is durable.
    fn extend_chain(&mut self, used: usize) {
        let mut at = 0;
        while at < used {
            let length = frame::length_of(&self.group[at..]).expect("the group was made of frames");
            let payload = at + frame::HEADER_BYTES;
            let end = payload + length as usize;
            if self.group[at + 20] == Kind::Entry as u8 {
                let sequence = Sequence(frame::u64_at(&self.group[at..], 8));
                self.start.chain = chain::next(
                    self.start.chain,
                    &self.group[payload..end],
                    sequence,
                    self.start.epoch,
                );
            }
            at += frame::stored_bytes(length as usize);
        }
    }

    /// Part of the group may be on disk. If it can be wiped out durably, the batches are refused;
    /// else nobody can say.
    fn write_failed(&mut self, error: &io::Error) {
        let active = &self.start.active;
        let zeros = vec![0; self.group.len()];
        let wiped = write_all_at(&*active.file, &zeros, active.position, Site::GroupZero)
            .and_then(|()| active.file.sync_data(Site::GroupZeroSync));
        let why = format!("write to the log: {error}");
        let told = match wiped {
            Ok(()) => AppendError::Refused {
                why: format!("{why}; a restart is safe"),
            },
            Err(_) => AppendError::Unsettled { why: why.clone() },
        };
        self.fail(&why, &told);
    }

    fn fail(&mut self, why: &str, told: &AppendError) {
        self.shared.disable(why);
        for (job, _) in self.placed.drain(..) {
            job.refuse(told.clone());
        }
        self.group.clear();
    }
}
