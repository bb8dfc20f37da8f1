//! What a process asked of the system, as `strace` saw it: a witness that knows nothing of the
//! program's own file layer, and so also sees what goes past it.

use std::fs;
use std::path::Path;

/// The calls that change files, or make a change durable.
pub const CHANGING: &str = "openat,creat,rename,renameat,renameat2,unlink,unlinkat,fdatasync,fsync,\
                            pwrite64,pwritev,pwritev2,write,writev,ftruncate,fallocate,mkdir,mkdirat,\
                            link,linkat,mmap";

/// One call on something in a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    /// Its name, such as `pwrite64`.
    pub name: String,
    /// The path it is on, below the folder, without a leading slash; empty for the folder itself.
    /// Of a renaming: the new name.
    pub path: String,
    /// The call as it was seen.
    pub line: String,
}

impl Call {
    /// Whether it may change what bears the path. Opening and mapping for reading does not.
    #[must_use]
    pub fn changes(&self) -> bool {
        match self.name.as_str() {
            "openat" => ["O_CREAT", "O_TRUNC", "O_APPEND"]
                .iter()
                .any(|flag| self.line.contains(flag)),
            "mmap" => self.line.contains("PROT_WRITE") && self.line.contains("MAP_SHARED"),
            _ => true,
        }
    }
}

/// Reads a trace (`strace -f -y`): the calls on a folder and what is in it, in order.
///
/// # Panics
/// If the trace cannot be read.
#[must_use]
pub fn read(trace: &Path, folder: &Path) -> Vec<Call> {
    let text = fs::read_to_string(trace).expect("the trace");
    let folder = folder.to_str().expect("a path in UTF-8");
    text.lines()
        .filter_map(|line| {
            let (_, line) = line.split_once(' ')?;
            let line = line.trim_start();
            // The end of a call that was cut by another thread's: its beginning has been read.
            if line.starts_with("<...") || line.contains(" = -1 ") {
                return None;
            }
            let (name, rest) = line.split_once('(')?;
            let path = paths(rest, folder).last()?.to_owned();
            Some(Call {
                name: name.to_owned(),
                path,
                line: line.to_owned(),
            })
        })
        .collect()
}

/// Every path in the folder that the text names, quoted or as that of a descriptor.
fn paths<'a>(text: &'a str, folder: &'a str) -> impl Iterator<Item = &'a str> {
    text.match_indices(folder).filter_map(|(at, found)| {
        let rest = &text[at + found.len()..];
        let end = rest.find(['"', '>'])?;
        match &rest[..end] {
            "" => Some(""),
            inside => inside.strip_prefix('/'),
        }
    })
}
