//! `intendant checkpoint`: a signed statement of the log's end, to be kept elsewhere.

use clap::Args;
use serde::Serialize;

use super::Common;
use crate::checkpoint::Given;
use crate::exit::{Exit, Failure};
use crate::print;
use crate::reach::Reach;

/// Sign what is durable now; the checkpoint goes to standard output, to be kept elsewhere
#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  intendant checkpoint > /mnt/other-machine/payouts.note
  intendant verify --checkpoint /mnt/other-machine/payouts.note

The folder keeps one too, and gets one by itself whenever a segment is full and at the end of every
command that writes. What somebody cuts off who can write to the folder is found only by a copy that
is kept where they cannot. The key is made at first use in $XDG_CONFIG_HOME/intendant/: keep a copy
of it, and give signing-key.pub to whoever is to verify.

Exit codes: 0 signed, 12 there is no key to sign with, 4 journal refused, 6 storage error.")]
pub(super) struct CheckpointArgs {}

#[derive(Serialize)]
struct Shown {
    schema: u32,
    #[serde(flatten)]
    given: Given,
}

pub(super) fn run(common: &Common, _: &CheckpointArgs) -> Result<Exit, Failure> {
    let given = Reach::new(&common.data).checkpoint()?;
    if common.json {
        print::json(&Shown { schema: 1, given });
        return Ok(Exit::Done);
    }
    print::out(given.note.trim_end_matches('\n'));
    print::note(format!(
        "signed up to sequence {}; it lies in {} too",
        given.sequence,
        given.path.display()
    ));
    Ok(Exit::Done)
}
