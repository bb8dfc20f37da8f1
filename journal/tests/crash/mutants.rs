//! Each named mutant of the journal must be caught by the campaign: what the campaign cannot see, it
//! does not protect.

use intendant_journal::disk::Site;
use intendant_journal::mutants::{Mutant, with};

use crate::campaign::Campaign;
use crate::load::Load;
use crate::{decay, errors};

/// What catches a mutant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Hunter {
    Crashes(Load),
    /// Crashes of the load at one place, and many within the recovery from them.
    At(Load, Site),
    Errors(Load),
    Decay(Load),
}

impl Hunter {
    /// The violation it sees, if it sees one.
    fn hunt(self) -> Result<(), String> {
        match self {
            Self::Crashes(load) => Campaign::of(load).play(),
            Self::At(load, site) => Campaign::at(load, site).play(),
            Self::Errors(load) => errors::of_changes(load).map(drop),
            Self::Decay(load) => decay::sample(load, 300).map(drop),
        }
    }
}

/// The one most likely to catch it, to save time: the others are asked if it does not.
fn first(mutant: Mutant) -> Hunter {
    use Hunter::{At, Crashes, Decay, Errors};
    match mutant {
        Mutant::AckBeforeSync
        | Mutant::MarkBeforeSync
        | Mutant::IdentityNotSynced
        | Mutant::NameMadeBeforeNotSynced
        | Mutant::SequenceReused => Crashes(Load::Appends),
        Mutant::BatchSplit | Mutant::ZeroFrameAccepted => At(Load::Appends, Site::GroupSync),
        Mutant::NoDirectorySync | Mutant::StaleRecycledAccepted => Crashes(Load::Roll),
        Mutant::TruncationNotSynced | Mutant::UnsyncedTailTrusted => {
            At(Load::RollAtOpening, Site::GroupSync)
        }
        Mutant::SparesDiscardedUnderOneSync => Crashes(Load::Resize),
        Mutant::BlobNotSynced => Crashes(Load::Blobs),
        Mutant::SyncRetried | Mutant::ShortWriteIgnored => Errors(Load::Appends),
        Mutant::CrcOfPayloadAlone | Mutant::DamageSkipped | Mutant::DamageBelowWatermarkCut => {
            Decay(Load::Appends)
        }
        Mutant::ProjectionAheadAccepted => Decay(Load::Projection),
    }
}

fn everybody() -> impl Iterator<Item = Hunter> {
    Load::ALL.into_iter().flat_map(|load| {
        [
            Hunter::Crashes(load),
            Hunter::Errors(load),
            Hunter::Decay(load),
        ]
    })
}

#[test]
fn the_campaign_catches_every_mutant() {
    let mut survivors = Vec::new();
    for mutant in Mutant::ALL {
        let first = first(*mutant);
        let others = everybody().filter(|hunter| *hunter != first);
        let caught = std::iter::once(first).chain(others).find_map(|hunter| {
            let violation = with(*mutant, || hunter.hunt()).err()?;
            Some((hunter, violation))
        });
        match caught {
            Some((hunter, violation)) => {
                let violation = violation.lines().next().unwrap_or_default().to_owned();
                println!("{mutant:?} caught by {hunter:?}: {violation}");
            }
            None => survivors.push(mutant),
        }
    }
    assert!(survivors.is_empty(), "not caught: {survivors:?}");
}
