//! The suite that any journal behind the face must pass; a storage of its own runs it from one test.
//!
//! Each case opens a journal that is empty at first, and knows nothing of it but the face. A case
//! is a function of its own, so that a storage can also run them one by one.
//!
//! ```
//! use intendant_journal::conformance::{self, Store};
//! use intendant_journal::format::entry::JournalId;
//! use intendant_journal::memory::MemoryLog;
//!
//! struct InMemory(MemoryLog);
//!
//! impl Store for InMemory {
//!     type Log = MemoryLog;
//!     fn open(&mut self) -> MemoryLog {
//!         self.0.reopen()
//!     }
//! }
//!
//! conformance::suite(|| InMemory(MemoryLog::new(JournalId([1; 16]))));
//! ```

use crate::error::{AppendError, ReadError};
use crate::face::{Append, Appended, Batch, IntentLog, RunFilter};
use crate::format::entry::{
    BlobRef, Body, Digest, End, Entry, Moment, NotedEntry, PassEnded, PassStarted, Payload,
    Recorded, ScopePath, Sequence,
};

/// One journal, empty at first, that can be opened again and again.
pub trait Store {
    /// What opening it gives.
    type Log: IntentLog;

    /// Opens the journal. The log of the opening before has been dropped.
    fn open(&mut self) -> Self::Log;

    /// Bytes of payload that are certainly too many for one batch, if there is such a limit.
    fn batch_too_large_bytes(&self) -> Option<usize> {
        None
    }
}

type Case<S> = fn(S);

/// Runs every case on a store of its own.
///
/// # Panics
/// If the journal does not conform; the case's name is on standard error.
pub fn suite<S: Store, F: FnMut() -> S>(mut fresh: F) {
    let cases: [(&str, Case<S>); 12] = [
        ("order", order),
        ("order_of_hand_over", order_of_hand_over),
        ("atomic_batches", atomic_batches),
        ("concurrent_callers", concurrent_callers),
        ("epochs", epochs),
        ("durable_is_monotone", durable_is_monotone),
        ("reads_own_writes", reads_own_writes),
        ("runs_and_claims", runs_and_claims),
        ("reopening", reopening),
        ("blobs", blobs),
        ("inline_limit", inline_limit),
        ("refusals_leave_nothing", refusals_leave_nothing),
    ];
    for (name, case) in cases {
        eprintln!("conformance: {name}");
        case(fresh());
    }
}

/// Entries keep the order of their appends, across runs and within one, and nothing of them changes.
pub fn order<S: Store>(mut store: S) {
    let log = store.open();
    let mut last = Sequence(0);
    for number in 0..20 {
        let run = if number % 3 == 0 { "a" } else { "b" };
        let appended = append(&log, &[noted(run, number)]);
        assert_eq!(appended.first, appended.last, "a batch of one entry");
        assert!(appended.first > last, "sequences grow");
        last = appended.last;
    }
    assert_eq!(numbers(&log, "a"), [0, 3, 6, 9, 12, 15, 18]);
    assert_eq!(numbers(&log, "b").len(), 13);
    let history = history(&log, "b");
    assert_eq!(history[0].entry, noted("b", 1), "nothing of it has changed");
    assert!(history.is_sorted_by_key(|recorded| recorded.sequence));
}

/// The order of the log is that of the calls, not of the first polls; a dropped future takes
/// nothing back.
pub fn order_of_hand_over<S: Store>(mut store: S) {
    let log = store.open();
    let mut futures: Vec<Option<Append>> = (0..50)
        .map(|number| Some(log.append(batch(&[noted("r", number)]))))
        .collect();
    for (index, future) in futures.iter_mut().enumerate() {
        if index % 7 == 0 {
            drop(future.take());
        }
    }
    let mut lasts: Vec<Sequence> = Vec::new();
    for future in futures.into_iter().rev().flatten() {
        lasts.push(block_on(future).expect("an append").last);
    }
    lasts.reverse();
    assert!(lasts.is_sorted(), "sequences follow the order of the calls");
    assert_eq!(numbers(&log, "r"), (0..50).collect::<Vec<_>>());
    drop(log);
    assert_eq!(numbers(&store.open(), "r"), (0..50).collect::<Vec<_>>());
}

/// The entries of a batch lie together, in order, even when other callers append at the same time.
pub fn atomic_batches<S: Store>(mut store: S) {
    let log = store.open();
    std::thread::scope(|scope| {
        for caller in 0..4 {
            let log = &log;
            scope.spawn(move || {
                for round in 0..10 {
                    let base = caller * 1000 + round * 10;
                    let entries: Vec<Entry> = (0..7).map(|n| noted("r", base + n)).collect();
                    let appended = append(log, &entries);
                    assert_eq!(appended.last.0 - appended.first.0, 6, "seven in a row");
                }
            });
        }
    });
    let check = |log: &S::Log| {
        let found = history(log, "r");
        assert_eq!(found.len(), 4 * 10 * 7);
        for chunk in found.chunks(7) {
            let base = number(&chunk[0]);
            assert_eq!(base % 10, 0, "a batch begins with its first entry");
            for (offset, recorded) in (0..).zip(chunk) {
                assert_eq!(number(recorded), base + offset);
                assert_eq!(recorded.sequence.0, chunk[0].sequence.0 + offset);
            }
        }
    };
    check(&log);
    drop(log);
    check(&store.open());
}

/// Many callers at once: each one's entries keep their order, and none is lost or doubled.
pub fn concurrent_callers<S: Store>(mut store: S) {
    let log = store.open();
    std::thread::scope(|scope| {
        for caller in 0..8 {
            let log = &log;
            scope.spawn(move || {
                let run = format!("caller-{caller}");
                for n in 0..25 {
                    append(log, &[noted(&run, n)]);
                }
            });
        }
    });
    let expected: Vec<u64> = (0..25).collect();
    for caller in 0..8 {
        assert_eq!(numbers(&log, &format!("caller-{caller}")), expected);
    }
    let entries = log.stats().entries;
    assert!(entries >= 200, "all are counted, found {entries}");
}

/// Every opening raises the epoch, and every entry carries that of the opening that wrote it.
pub fn epochs<S: Store>(mut store: S) {
    let mut opened = Vec::new();
    let mut id = None;
    for number in 0..3 {
        let log = store.open();
        assert_eq!(*id.get_or_insert(log.id()), log.id(), "identity stays");
        opened.push(log.epoch());
        append(&log, &[noted("r", number)]);
    }
    assert!(
        opened.windows(2).all(|pair| pair[0] < pair[1]),
        "{opened:?}"
    );
    let log = store.open();
    let found: Vec<_> = history(&log, "r").iter().map(|r| r.epoch).collect();
    assert_eq!(found, opened);
}

/// The durable sequence never goes back, covers what was acknowledged, and survives a reopening.
pub fn durable_is_monotone<S: Store>(mut store: S) {
    let log = store.open();
    let mut before = log.durable();
    for number in 0..30 {
        let appended = append(&log, &[noted("r", number), noted("r", number)]);
        let durable = log.durable();
        assert!(durable >= appended.last, "acknowledged, so durable");
        assert!(durable >= before, "never back");
        before = durable;
    }
    drop(log);
    let log = store.open();
    assert!(log.durable() >= before, "not back by a reopening");
    let appended = append(&log, &[noted("r", 99)]);
    assert!(appended.first > before, "a sequence is given once");
}

/// What was acknowledged is seen by the very next question.
pub fn reads_own_writes<S: Store>(mut store: S) {
    let log = store.open();
    assert_eq!(history(&log, "r"), [], "an unknown run has no history");
    assert_eq!(log.runs(RunFilter::All).expect("rows"), []);
    append(&log, &[started("r", 1)]);
    for expected in 2..30 {
        append(&log, &[noted("r", expected)]);
        assert_eq!(history(&log, "r").len() as u64, expected);
        let rows = log.runs(RunFilter::All).expect("rows");
        assert_eq!(rows[0].entries, expected);
    }
    assert_eq!(history(&log, ""), [], "the empty name is a run like others");
}

/// Rows tell where each run stands; only runs whose current pass has not ended are claimed.
pub fn runs_and_claims<S: Store>(mut store: S) {
    let log = store.open();
    let mut firsts = Vec::new();
    // Names in no alphabetic order: rows are listed by age.
    for run in ["m", "z", "a", "k"] {
        firsts.push(append(&log, &[started(run, 1), noted(run, 0)]).first);
    }
    append(&log, &[ended("z", 1, completed())]);
    append(&log, &[ended("a", 1, End::Failed("no".to_owned()))]);
    append(&log, &[ended("k", 1, End::Cancelled("asked".to_owned()))]);
    let last = append(&log, &[started("a", 2)]).last;

    let check = |log: &S::Log| {
        let all = log.runs(RunFilter::All).expect("rows");
        let names: Vec<&str> = all.iter().map(|row| row.run.as_str()).collect();
        assert_eq!(names, ["m", "z", "a", "k"], "oldest first");
        assert_eq!(all.iter().map(|row| row.first).collect::<Vec<_>>(), firsts);
        let ends: Vec<_> = all.iter().map(|row| row.end.as_deref()).collect();
        assert_eq!(ends, [None, Some("completed"), None, Some("cancelled")]);
        let flags: Vec<bool> = all.iter().map(|row| row.ended).collect();
        assert_eq!(flags, [false, true, false, true]);
        let again = &all[2];
        assert_eq!((again.pass, again.version, again.entries), (2, 102, 4));
        assert_eq!((again.workflow.as_str(), again.last), ("workflow", last));

        let open = log.runs(RunFilter::Open).expect("rows");
        let names: Vec<&str> = open.iter().map(|row| row.run.as_str()).collect();
        assert_eq!(names, ["m", "a"]);
        let mut claimed = log.claim().expect("claims");
        claimed.sort();
        assert_eq!(claimed, ["a", "m"], "ended runs are not claimed");
    };
    check(&log);
    drop(log);
    check(&store.open());
}

/// After a reopening everything acknowledged is there, and the log goes on.
pub fn reopening<S: Store>(mut store: S) {
    let mut expected: Vec<Recorded> = Vec::new();
    for opening in 0..4 {
        let log = store.open();
        assert_eq!(log.disabled(), None);
        assert_eq!(history(&log, "r"), expected);
        for n in 0..10 {
            append(
                &log,
                &[noted("r", opening * 100 + n), noted("other", opening)],
            );
        }
        expected = history(&log, "r");
        assert_eq!(expected.len() as u64, (opening + 1) * 10);
    }
}

/// Content is found by its hash, after a reopening too, and never under a wrong name.
pub fn blobs<S: Store>(mut store: S) {
    let log = store.open();
    let contents: [&[u8]; 3] = [b"", b"some bytes", &[0xAB; 300_000]];
    let stored: Vec<BlobRef> = contents
        .iter()
        .map(|content| log.put_blob(content).expect("a blob"))
        .collect();
    let again = log.put_blob(contents[1]).expect("the same blob");
    assert_eq!(again, stored[1], "the same content has the same name");
    assert_eq!(
        stored[1].sha256.to_string(),
        "0d22cdcc10e6d049dbe1af5123d50873fdfc1a4f58306e58cb6241be9472014d"
    );
    let check = |log: &S::Log| {
        for (content, blob) in contents.iter().zip(&stored) {
            assert_eq!(blob.bytes, content.len() as u64);
            assert_eq!(&log.get_blob(blob).expect("stored content"), content);
        }
        let unknown = BlobRef {
            sha256: Digest([0; 32]),
            bytes: 4,
        };
        let wrong_length = BlobRef {
            bytes: stored[1].bytes + 1,
            ..stored[1]
        };
        for blob in [unknown, wrong_length] {
            let error: ReadError = log.get_blob(&blob).expect_err("no such content");
            assert!(!error.to_string().is_empty());
        }
    };
    check(&log);
    drop(log);
    check(&store.open());
}

/// A payload of exactly the inline limit fits into an entry; a longer one into a blob.
pub fn inline_limit<S: Store>(mut store: S) {
    let log = store.open();
    let limit = log.inline_max_bytes();
    let text = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let mut longest = started("r", 1);
    if let Body::PassStarted(started) = &mut longest.body {
        started.input = Payload::Json(text(limit));
    }
    append(&log, &[longest.clone()]);
    let over = text(limit + 1);
    let blob = log.put_blob(over.as_bytes()).expect("a blob");
    drop(log);
    let log = store.open();
    assert_eq!(history(&log, "r")[0].entry, longest);
    assert_eq!(log.get_blob(&blob).expect("content"), over.as_bytes());
}

/// Of a batch that is refused nothing is there, then or later, and the log goes on.
pub fn refusals_leave_nothing<S: Store>(mut store: S) {
    let log = store.open();
    append(&log, &[started("r", 1), noted("r", 1)]);
    let before = log.durable();
    let refused = block_on(log.append(Batch::default())).expect_err("an empty batch");
    assert!(matches!(refused, AppendError::Refused { .. }), "{refused}");
    if let Some(bytes) = store.batch_too_large_bytes() {
        let piece = log.inline_max_bytes().min(bytes);
        let entries: Vec<Entry> = (0..bytes.div_ceil(piece))
            .map(|n| {
                let mut entry = noted("r", 666 + n as u64);
                if let Body::Noted(noted) = &mut entry.body {
                    noted.value = format!("\"{}\"", "x".repeat(piece));
                }
                entry
            })
            .collect();
        let refused = block_on(log.append(batch(&entries))).expect_err("too large a batch");
        assert!(matches!(refused, AppendError::TooLarge { .. }), "{refused}");
    }
    assert_eq!(log.durable(), before, "nothing was recorded");
    assert_eq!(log.disabled(), None, "a refusal does not disable the log");
    append(&log, &[noted("r", 2)]);
    let check = |log: &S::Log| {
        assert_eq!(history(log, "r").len(), 3);
        let rows = log.runs(RunFilter::All).expect("rows");
        assert_eq!((rows.len(), rows[0].entries), (1, 3));
    };
    check(&log);
    drop(log);
    check(&store.open());
}

fn block_on<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime without drivers needs nothing of the system")
        .block_on(future)
}

fn batch(entries: &[Entry]) -> Batch {
    Batch {
        entries: entries.to_vec(),
        starts_effects: false,
    }
}

fn append(log: &impl IntentLog, entries: &[Entry]) -> Appended {
    block_on(log.append(batch(entries))).expect("an append")
}

fn history(log: &impl IntentLog, run: &str) -> Vec<Recorded> {
    log.history(run).expect("a history")
}

fn numbers(log: &impl IntentLog, run: &str) -> Vec<u64> {
    history(log, run).iter().map(number).collect()
}

fn number(recorded: &Recorded) -> u64 {
    match &recorded.entry.body {
        Body::Noted(noted) => noted.value.parse().expect("a number, as it was written"),
        other => panic!("an entry that was not appended: {other:?}"),
    }
}

fn entry(run: &str, body: Body) -> Entry {
    Entry {
        at: Moment {
            wall_ms: -1,
            boot_ms: 1 << 40,
        },
        run: Some(run.to_owned()),
        body,
    }
}

fn noted(run: &str, number: u64) -> Entry {
    let noted = NotedEntry {
        path: ScopePath(format!("0/{number}")),
        what: "random".to_owned(),
        value: number.to_string(),
    };
    entry(run, Body::Noted(noted))
}

fn started(run: &str, pass: u32) -> Entry {
    let started = PassStarted {
        workflow: "workflow".to_owned(),
        version: 100 + pass,
        pass,
        input: Payload::Json("{}".to_owned()),
        input_digest: Digest([3; 32]),
    };
    entry(run, Body::PassStarted(started))
}

fn ended(run: &str, pass: u32, end: End) -> Entry {
    entry(run, Body::PassEnded(PassEnded { pass, end }))
}

fn completed() -> End {
    End::Completed(Payload::Json("null".to_owned()))
}
