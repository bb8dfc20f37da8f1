//! The words that job files use for closed choices. One table a type, used for reading, writing
//! and for telling what would have been understood.

use intendant::tool::contract::{Approval, Closure, SideEffect};
use serde::{Deserialize, Deserializer, Serializer, de::Error};

/// A closed choice with one word for each value.
pub trait Word: Copy + PartialEq + 'static {
    /// All values with their words.
    const ALL: &'static [(&'static str, Self)];

    /// The word of this value.
    fn word(self) -> &'static str {
        let found = Self::ALL.iter().find(|(_, value)| *value == self);
        found.expect("the table holds every value").0
    }

    /// The value of a word.
    fn from_word(word: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == word);
        found.map(|(_, value)| *value)
    }
}

impl Word for Closure {
    const ALL: &'static [(&'static str, Self)] = &[
        ("abort_claim", Self::AbortClaim),
        ("fence", Self::Fence),
        ("deadline", Self::Deadline),
    ];
}

impl Word for SideEffect {
    const ALL: &'static [(&'static str, Self)] = &[
        ("read_only", Self::ReadOnly),
        ("reversible", Self::Reversible),
        ("compensatable", Self::Compensatable),
        ("irreversible", Self::Irreversible),
    ];
}

impl Word for Approval {
    const ALL: &'static [(&'static str, Self)] =
        &[("never", Self::Never), ("always", Self::Always)];
}

/// For serde: a choice by its word.
pub(super) fn serialize<T: Word, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(value.word())
}

/// For serde: a choice by its word.
pub(super) fn deserialize<'de, T: Word, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    let word = String::deserialize(from)?;
    T::from_word(&word).ok_or_else(|| D::Error::custom(format!("unknown word \"{word}\"")))
}

/// For serde: a choice that may be absent.
pub(super) mod optional {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    use super::Word;

    pub(crate) fn serialize<T: Word, S: Serializer>(
        value: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match value {
            Some(value) => to.serialize_str(value.word()),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T: Word, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let Some(word) = Option::<String>::deserialize(from)? else {
            return Ok(None);
        };
        match T::from_word(&word) {
            Some(value) => Ok(Some(value)),
            None => Err(D::Error::custom(format!("unknown word \"{word}\""))),
        }
    }
}
