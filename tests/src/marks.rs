//! What the tools began and ended, by their own account: files in a folder, made by the scripts
//! that `payouts` wraps around the tools. They tell where a kill landed.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// An attempt as the tool sees it: `<key>.<attempt>`.
pub type AttemptName = String;

/// All marks.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// Attempts whose tool began.
    pub begun: BTreeSet<AttemptName>,
    /// Attempts whose tool came to its end.
    pub ended: BTreeSet<AttemptName>,
    /// Attempts of which the reconciler was asked.
    pub asked: BTreeSet<AttemptName>,
    /// Attempts whose tool began more than once.
    pub again: BTreeSet<AttemptName>,
}

impl Marks {
    /// Reads the folder.
    ///
    /// # Panics
    /// If it holds anything else.
    #[must_use]
    pub fn read(folder: &Path) -> Self {
        let mut marks = Self::default();
        for file in fs::read_dir(folder).unwrap() {
            let name = file.unwrap().file_name().into_string().unwrap();
            let (kind, attempt) = name.split_once('.').unwrap();
            let set = match kind {
                "begin" => &mut marks.begun,
                "end" => &mut marks.ended,
                "ask" => &mut marks.asked,
                "again" => &mut marks.again,
                _ => panic!("mark {name}"),
            };
            set.insert(attempt.to_owned());
        }
        marks
    }

    /// Number of tools that began.
    ///
    /// # Panics
    /// If the folder cannot be read.
    #[must_use]
    pub fn count_begun(folder: &Path) -> usize {
        let names = fs::read_dir(folder)
            .unwrap()
            .map(|file| file.unwrap().file_name());
        names
            .filter(|name| name.to_string_lossy().starts_with("begin."))
            .count()
    }
}
