//! Opening a journal: whether the folder may be entered, what its log holds, and starting the
//! threads once everything that was read is durable.

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

use crate::blobs::Blobs;
use crate::checkpoints::{CHECKPOINTS, Notary, NotaryStart};
use crate::clocks::Clocks;
use crate::disk::{Access, Disk, Kind, Site, create_dirs};
use crate::error::{AppendError, OpenError};
use crate::face::Batch;
use crate::format::entry::{Body, Entry, Epoch, JournalId, Opened, Recorded};
use crate::format::frame::Home;
use crate::format::segment::{self, PAGE_BYTES};
use crate::identity::{self, Records};
use crate::journal::{BLOBS, Journal, Options, Recovered, SEGMENTS};
use crate::lock::Held;
use crate::mutants::{self, Mutant};
use crate::projection::{self, Projection};
use crate::recovery::{
    Backlog, Begin, Layout, Patience, Repaired, Scan, ScanStart, Witness, discard_spares, io_error,
    missing, read_layout, repair, scan, scan_gist,
};
use crate::segments::{Spare, Supply, SupplyStart};
use crate::surroundings::Surroundings;
use crate::witnesses::{Asked, Witnesses};
use crate::writer::space::{Change, OpenIntents, inline_max_bytes};
use crate::writer::{Active, Follower, MARK, Mark, Writer, WriterStart};

/// Hands what became durable to the projection.
struct Feed(Arc<Projection>);

impl Follower for Feed {
    fn durable(&self, entries: Vec<Recorded>) {
        self.0.feed(entries);
    }
}

/// Whether a journal may be created.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Creation {
    Never,
    Allowed,
}

/// Opens the journal in a folder, or creates one if that is allowed.
pub(crate) fn open(
    options: &Options,
    folder: &Path,
    creation: Creation,
) -> Result<Journal, OpenError> {
    // A program that changes its working directory must not lose its journal.
    let folder = &std::path::absolute(folder).map_err(io_error(folder, "resolving its path"))?;
    if !segment::size_is_valid(options.segment_bytes) {
        return Err(OpenError::Io {
            path: folder.to_owned(),
            doing: "choosing the size of segments".into(),
            source: std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                format!(
                    "{} bytes; it must be a multiple of {PAGE_BYTES} from {} to {}",
                    options.segment_bytes,
                    segment::MIN_BYTES,
                    segment::MAX_BYTES
                ),
            ),
        });
    }
    let disk = &*options.disk;
    let around = options.surroundings.clone();
    let around = around.unwrap_or_else(Surroundings::real);
    let door = Door::new(options, folder, creation)?;
    door.may_enter()?;
    create_dirs(disk, folder, Site::FolderCreate, Site::FolderSync)
        .map_err(io_error(folder, "creating it"))?;
    let lock = Held::take(disk, folder, around.pid)?;
    match judge(options, &door, &around) {
        Ok((id, created, opening)) => start(options, &door, &around, lock, id, created, opening),
        Err(error) => {
            lock.give_back();
            Err(error)
        }
    }
}

/// Under the lock: which journal it is, and what its log holds. Changes nothing if there is damage.
fn judge<'a>(
    options: &Options,
    door: &Door<'a>,
    around: &Surroundings,
) -> Result<(JournalId, bool, Opening<'a>), OpenError> {
    // Asked again under the lock: another process may have created the journal in between.
    let (id, created) = match door.may_enter()? {
        Some(id) => (id, false),
        None => {
            identity::write(door.disk, door.folder, around.new_id)?;
            (around.new_id, true)
        }
    };
    let opening = Opening::begin(options, door, id, around)?;
    Ok((id, created, opening))
}

/// Starts the threads and records the opening.
fn start(
    options: &Options,
    door: &Door<'_>,
    around: &Surroundings,
    mut lock: Held,
    id: JournalId,
    created: bool,
    opening: Opening<'_>,
) -> Result<Journal, OpenError> {
    let folder = door.folder;
    let epoch = Epoch(opening.scan.epoch.0.checked_add(1).ok_or_else(|| {
        io_error(folder, "raising the epoch")(std::io::Error::other("there is no higher one"))
    })?);
    let has_checkpoint = opening.has_checkpoint;
    let notary = Arc::new(Notary::new(NotaryStart {
        disk: Arc::clone(&options.disk),
        folder: folder.join(CHECKPOINTS),
        journal: id,
        signer: options.signer.clone(),
        now: options.surroundings.as_ref().map(|around| around.now),
    }));
    let (writer, projection, clocks, mut recovered) = opening.finish(options, epoch, &notary)?;
    recovered.created = created;

    block_on(writer.append(Batch {
        entries: vec![opened_entry(&options.program, around)],
        starts_effects: false,
    }))?;
    // From its first moment on a signed journal has a head: one that has none was stripped of it.
    if !has_checkpoint && let Some(head) = writer.head() {
        notary.write_if_signing(head);
    }
    if door.recorded == Some(id) {
        door.records.keep(door.disk)?;
    } else {
        door.records.write(door.disk, &door.known_path, id)?;
    }
    lock.set_epoch(epoch)
        .map_err(io_error(lock.path(), "writing the epoch"))?;
    tracing::info!(journal = %id, %epoch, end = %recovered.end, "journal open");
    Ok(Journal {
        writer,
        notary,
        projection,
        blobs: Blobs::new(Arc::clone(&options.disk), folder.join(BLOBS)),
        id,
        epoch,
        folder: folder.to_owned(),
        inline_max: inline_max_bytes(options.segment_bytes),
        clocks,
        recovered,
        lock: Mutex::new(lock),
    })
}

/// Whether the folder may be entered: what it holds against what is recorded outside.
struct Door<'a> {
    disk: &'a dyn Disk,
    folder: &'a Path,
    creation: Creation,
    new_journal: bool,
    records: Records,
    known_path: PathBuf,
    recorded: Option<JournalId>,
}

impl<'a> Door<'a> {
    fn new(options: &'a Options, folder: &'a Path, creation: Creation) -> Result<Self, OpenError> {
        let disk = &*options.disk;
        let records = Records::new(options.state_home.clone());
        let known_path = Records::known_path(disk, folder)?;
        let recorded = records.read(disk, &known_path)?;
        Ok(Self {
            disk,
            folder,
            creation,
            new_journal: options.new_journal,
            records,
            known_path,
            recorded,
        })
    }

    /// The journal that is there, `None` if one is to be created, or why not.
    fn may_enter(&self) -> Result<Option<JournalId>, OpenError> {
        let path = self.folder.to_owned();
        let there = match identity::folder_kind(self.disk, self.folder)? {
            None => None,
            Some(Kind::Folder) => identity::read(self.disk, self.folder)?,
            Some(_) => {
                let what = "it is not a folder".into();
                return Err(OpenError::Foreign { path, what });
            }
        };
        let recorded = self.recorded.filter(|_| !self.new_journal);
        let gone = |recorded: JournalId| OpenError::Gone {
            path: path.clone(),
            id: recorded.to_string(),
        };
        match (there, recorded) {
            (Some(id), Some(recorded)) if id != recorded => {
                Err(self.doubted(Some(id)).unwrap_or_else(|| gone(recorded)))
            }
            (Some(id), _) => Ok(Some(id)),
            (None, Some(recorded)) => Err(self.doubted(None).unwrap_or_else(|| gone(recorded))),
            (None, None) => {
                if let Some(error) = self.doubted(None) {
                    return Err(error);
                }
                let exists = identity::folder_kind(self.disk, self.folder)?.is_some();
                if exists && !identity::is_empty(self.disk, self.folder)? {
                    let what = "it has no file IDENTITY and is not empty".into();
                    return Err(OpenError::Foreign { path, what });
                }
                match self.creation {
                    Creation::Allowed => Ok(None),
                    Creation::Never => Err(OpenError::Missing { path }),
                }
            }
        }
    }
}

impl Door<'_> {
    /// The damage of `IDENTITY`, if the journal itself is there.
    fn doubted(&self, there: Option<JournalId>) -> Option<OpenError> {
        let damage = match (there, self.recorded) {
            (Some(there), Some(recorded)) => {
                identity::contradicted(self.disk, self.folder, there, recorded)
            }
            _ => identity::missing(self.disk, self.folder),
        };
        damage.map(OpenError::Damaged)
    }
}

/// What an opening must know of an entry.
struct Gist {
    wall_ms: i64,
    what: What,
}

enum What {
    Opened(Box<Recorded>),
    Changes(Change),
    Other,
}

impl Gist {
    fn of(recorded: Recorded) -> Self {
        Self {
            wall_ms: recorded.entry.at.wall_ms,
            what: match (&recorded.entry.body, Change::of(&recorded.entry)) {
                (Body::Opened(_), _) => What::Opened(Box::new(recorded)),
                (_, Some(change)) => What::Changes(change),
                (_, None) => What::Other,
            },
        }
    }
}

/// A journal whose log has been read and repaired.
struct Opening<'a> {
    folder: &'a Path,
    segments: PathBuf,
    id: JournalId,
    layout: Layout,
    scan: Scan,
    open: OpenIntents,
    clocks: Clocks,
    repaired: Repaired,
    projection: projection::Opening,
    /// The folder has a checkpoint that vouches for this journal.
    has_checkpoint: bool,
}

impl<'a> Opening<'a> {
    /// Reads and judges the log; changes it only if there is no damage.
    fn begin(
        options: &Options,
        door: &Door<'a>,
        id: JournalId,
        around: &Surroundings,
    ) -> Result<Self, OpenError> {
        let disk = &*options.disk;
        let folder = door.folder;
        let recorded = door.recorded == Some(id);
        let segments = folder.join(SEGMENTS);
        let layout = read_layout(disk, &segments, id)?;
        let keys = options.keys();
        let witnesses = Witnesses::ask(disk, folder, id, recorded, Asked::All { keys: &keys })?;
        if layout.segments.is_empty() && witnesses.last.is_some() {
            return Err(missing(&segments, 1).into());
        }
        let mut open = OpenIntents::default();
        let mut clocks = Clocks::new(around.boot_id.clone());
        let scan = scan_gist(
            &ScanStart {
                disk,
                folder,
                journal: id,
                layout: &layout,
                witness: witnesses.last.clone(),
                patience: Patience::Owner,
                from: Begin::of(id),
                readers: options.readers(),
                watch: witnesses.watch(),
            },
            Backlog::SMALL,
            &|recorded| Some(Gist::of(recorded)),
            &mut |_, gist| {
                clocks.see_wall_ms(gist.wall_ms);
                match gist.what {
                    What::Opened(opened) => clocks.see(&opened),
                    What::Changes(change) => open.apply(change),
                    What::Other => {}
                }
            },
        )?;
        witnesses.check(&scan.seen)?;
        let projection = Projection::look(Arc::clone(&options.disk), folder, id)?;
        let applied = Witness {
            name: "the projection",
            durable: projection.applied,
        };
        if layout.segments.is_empty() && applied.durable.0 > 0 {
            return Err(missing(&segments, 1).into());
        }
        if !mutants::is(Mutant::ProjectionAheadAccepted) {
            scan.check(&applied, folder)?;
        }
        // Nothing is missing: from here on the folder may be changed.
        let projection = projection.open(options.drive)?;

        create_dirs(
            disk,
            &segments,
            Site::SegmentsDirCreate,
            Site::SegmentsDirSync,
        )
        .map_err(io_error(&segments, "creating it"))?;
        let repaired = repair(disk, &segments, &layout, scan.tail)?;
        if let Some((path, at)) = &repaired.cut_at {
            tracing::warn!(
                path = %path.display(), at, bytes = repaired.cut_bytes,
                "a torn end of the log was cut; what it held had never been acknowledged"
            );
        }
        Ok(Self {
            folder,
            segments,
            id,
            layout,
            scan,
            open,
            clocks,
            repaired,
            projection,
            has_checkpoint: witnesses.has_checkpoint,
        })
    }

    /// Brings the projection up to the log's end and starts the writer.
    fn finish(
        self,
        options: &Options,
        epoch: Epoch,
        notary: &Arc<Notary>,
    ) -> Result<(Writer, Arc<Projection>, Clocks, Recovered), OpenError> {
        let disk = &options.disk;
        let projected = self.project(options)?;
        let used = self.scan.tail.map_or(0, |tail| tail.index + 1);
        let count = discard_spares(
            &**disk,
            &self.segments,
            &self.layout,
            used,
            options.segment_bytes,
        )?;
        let open_file = |index: usize| {
            let found = &self.layout.segments[index];
            disk.open(&found.path, Access::ReadWrite)
                .map_err(io_error(&found.path, "opening it"))
        };
        let mut spares = Vec::new();
        for index in used..count {
            let found = &self.layout.segments[index];
            spares.push(Spare {
                number: found.number,
                bytes: found.bytes,
                file: open_file(index)?,
            });
        }
        let mark_path = self.folder.join(MARK);
        let mark =
            Mark::open(&**disk, &mark_path, self.id).map_err(io_error(&mark_path, "opening it"))?;
        let supply = Supply::start(SupplyStart {
            disk: Arc::clone(disk),
            folder: self.segments.clone(),
            journal: self.id,
            segment_bytes: options.segment_bytes,
            spares,
            next: count as u64 + 1,
            notary: Arc::clone(notary),
            drive: options.drive,
        })
        .map_err(io_error(&self.segments, "starting the segments' thread"))?;
        let active = match self.scan.tail {
            Some(tail) => {
                let found = &self.layout.segments[tail.index];
                Active {
                    file: open_file(tail.index)?,
                    home: Home::new(self.id, found.number),
                    position: tail.end.next_multiple_of(PAGE_BYTES as u64),
                    end: found.bytes,
                    fresh: false,
                }
            }
            None => {
                let spare = supply.take().map_err(AppendError::from)?;
                Active::of(spare, self.id)
            }
        };
        let projection = Arc::new(self.projection.projection);
        let recovered = Recovered {
            created: false,
            end: self.scan.end,
            open_intents: self.open.count(),
            cut_bytes: self.repaired.cut_bytes,
            cut_at: self.repaired.cut_at,
            filled_bytes: self.repaired.filled_bytes,
            rewritten_bytes: self.repaired.rewritten_bytes,
            projected,
            set_aside: self.projection.set_aside.map(|it| (it.path, it.why)),
        };
        let writer = Writer::start(WriterStart {
            journal: self.id,
            epoch,
            segment_bytes: options.segment_bytes,
            active,
            supply,
            mark,
            durable: self.scan.end,
            chain: self.scan.chain,
            open: self.open,
            follower: Arc::new(Feed(Arc::clone(&projection))),
            drive: options.drive,
        })
        .map_err(io_error(self.folder, "starting the writer's thread"))?;
        Ok((writer, projection, self.clocks, recovered))
    }

    /// Feeds the projection what it does not have yet; returns how much that was.
    fn project(&self, options: &Options) -> Result<u64, OpenError> {
        const PIECE: usize = 1024;
        const AHEAD: u64 = 64 * 1024;
        let applied = self.projection.applied;
        if applied >= self.scan.end {
            return Ok(0);
        }
        let projection = &self.projection.projection;
        let begins = self.scan.begins.iter();
        let from = begins
            .copied()
            .rfind(|begin| begin.first.0 <= applied.0 + 1)
            .unwrap_or_else(|| Begin::of(self.id));
        let mut piece = Vec::with_capacity(PIECE);
        scan(
            &ScanStart {
                disk: &*options.disk,
                folder: self.folder,
                journal: self.id,
                layout: &self.layout,
                witness: None,
                patience: Patience::Owner,
                from,
                readers: options.readers(),
                watch: &[],
            },
            &mut |_, recorded| {
                if recorded.sequence <= applied {
                    return;
                }
                piece.push(recorded);
                if piece.len() == PIECE {
                    projection.feed(std::mem::replace(&mut piece, Vec::with_capacity(PIECE)));
                    projection.wait_for_backlog(AHEAD);
                }
            },
        )?;
        projection.feed(piece);
        Ok(self.scan.end.0 - applied.0)
    }
}

pub(crate) fn opened_entry(program: &str, around: &Surroundings) -> Entry {
    Entry {
        at: around.now,
        run: None,
        body: Body::Opened(Opened {
            pid: around.pid,
            boot_id: around.boot_id.clone(),
            program: program.to_owned(),
        }),
    }
}

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future on this thread, which may well be one of an async runtime in the middle of a
/// task: without `unconstrained` a task that has used up its share of polls would wait for ever, for
/// only its runtime gives it a new one.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let future = tokio::task::unconstrained(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}
