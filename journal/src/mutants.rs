//! Named faults that can be built into the journal (cargo feature of that name), so that its tests
//! can be tested: each is a mistake that somebody made in some journal, and the crash campaign must
//! catch it. Without the feature there are none, and no code asks.

#[cfg(feature = "mutants")]
use std::cell::Cell;

macro_rules! mutants {
    ($($(#[doc = $doc:expr])* $mutant:ident,)*) => {
        /// A mistake.
        #[cfg_attr(not(feature = "mutants"), expect(unreachable_pub))]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Mutant {
            $($(#[doc = $doc])* $mutant,)*
        }

        impl Mutant {
            /// Every one.
            #[cfg(feature = "mutants")]
            pub const ALL: &'static [Mutant] = &[$(Mutant::$mutant,)*];
        }
    };
}

mutants! {
    /// Callers are told before the sync.
    AckBeforeSync,
    /// The mark is moved before the sync.
    MarkBeforeSync,
    /// The folder is not synced after a new segment got its name.
    NoDirectorySync,
    /// A small file is renamed into place before its content is synced.
    IdentityNotSynced,
    /// A blob is renamed into place before its content is synced.
    BlobNotSynced,
    /// The name of a folder that an earlier opening made is taken for durable.
    NameMadeBeforeNotSynced,
    /// Several spares are deleted under one sync of their folder.
    SparesDiscardedUnderOneSync,
    /// A sync that failed is tried again.
    SyncRetried,
    /// What a short write left out is not written.
    ShortWriteIgnored,
    /// Checksums cover the payload and nothing else: not length, kind, sequence, epoch, place.
    CrcOfPayloadAlone,
    /// Zeros within a batch are read as frames of nothing.
    ZeroFrameAccepted,
    /// Damage is skipped, and what comes after it is taken.
    DamageSkipped,
    /// What a witness says had been durable is cut off as a torn end.
    DamageBelowWatermarkCut,
    /// The zeros over a torn end are not synced.
    TruncationNotSynced,
    /// What was read is acted on without being made durable.
    UnsyncedTailTrusted,
    /// The part of a batch that is there is taken.
    BatchSplit,
    /// A new opening begins with the last sequence that was used.
    SequenceReused,
    /// New segments hold what an old one held, and frames do not say which segment they are of.
    StaleRecycledAccepted,
    /// A projection that knows more than the log is no reason to stop.
    ProjectionAheadAccepted,
}

#[cfg(feature = "mutants")]
thread_local! {
    static ACTIVE: Cell<Option<Mutant>> = const { Cell::new(None) };
}

/// Runs something with a mistake built in, on this thread alone.
#[cfg(feature = "mutants")]
pub fn with<T>(mutant: Mutant, work: impl FnOnce() -> T) -> T {
    struct Restore;
    impl Drop for Restore {
        fn drop(&mut self) {
            ACTIVE.set(None);
        }
    }
    ACTIVE.set(Some(mutant));
    let _restore = Restore;
    work()
}

/// Whether this mistake is to be made.
#[cfg(feature = "mutants")]
pub(crate) fn is(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}

/// Whether this mistake is to be made: never.
#[cfg(not(feature = "mutants"))]
pub(crate) const fn is(_mutant: Mutant) -> bool {
    false
}
