//! Where the socket is.

use std::path::{Path, PathBuf};

use intendant_journal::format::entry::JournalId;

/// Longest path of a socket, the closing zero not counted.
const LONGEST: usize = 107;

/// In the journal's folder; where that path is longer than a socket's may be, in the user's
/// runtime folder. `None` if it fits nowhere.
pub(crate) fn socket_path(
    data: &Path,
    journal: JournalId,
    runtime: Option<&Path>,
) -> Option<PathBuf> {
    let own = data.join("engine.sock");
    let elsewhere = || Some(runtime?.join(format!("intendant-{journal}.sock")));
    [Some(own), elsewhere()]
        .into_iter()
        .flatten()
        .find(|path| path.as_os_str().len() <= LONGEST)
}

/// The user's runtime folder, if there is one.
pub(crate) fn runtime_folder() -> Option<PathBuf> {
    let folder = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?);
    (folder.is_absolute() && folder.is_dir()).then_some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_path_goes_to_the_runtime_folder() {
        let id = JournalId([7; 16]);
        let run = Path::new("/run/user/1000");
        let short = Path::new("/tmp/data");
        let long = PathBuf::from(format!("/tmp/{}", "x".repeat(120)));
        assert_eq!(
            socket_path(short, id, Some(run)),
            Some(short.join("engine.sock"))
        );
        assert_eq!(
            socket_path(&long, id, Some(run)),
            Some(run.join(format!("intendant-{id}.sock")))
        );
        assert_eq!(socket_path(&long, id, None), None);
        assert_eq!(socket_path(&long, id, Some(&long)), None);
    }
}
