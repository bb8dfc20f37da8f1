//! Reads a TOML text field by field and collects every mistake with its place.
//!
//! Invariant: a getter that gives `None` for a field that is there has reported why.

use std::cell::RefCell;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::problem::{Problem, place};
use super::word::Word;
use super::{duration, nearest};

/// Bytes of the text that a problem is about.
pub(super) type Span = Range<usize>;

/// A TOML text and the mistakes found in it so far.
pub(super) struct Document<'a> {
    file: &'a Path,
    text: &'a str,
    problems: RefCell<Vec<Problem>>,
}

impl<'a> Document<'a> {
    /// Parses; mistakes of syntax are collected too, and what can be read in spite of them is.
    pub(super) fn parse(file: &'a Path, text: &'a str) -> (Self, Spanned<DeTable<'a>>) {
        let (root, errors) = DeTable::parse_recoverable(text);
        let document = Self {
            file,
            text,
            problems: RefCell::default(),
        };
        for error in errors {
            let remedy = if error.message().contains("duplicate key") {
                "give each tool its own name, and write each field once"
            } else {
                "correct the TOML syntax here"
            };
            let span = error.span().unwrap_or_default();
            document.report(&span, format!("not TOML: {}", error.message()), remedy);
        }
        (document, root)
    }

    /// Notes a mistake.
    pub(super) fn report(
        &self,
        span: &Span,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let problem = self.problem(span, message, remedy);
        self.problems.borrow_mut().push(problem);
    }

    /// A mistake that is not noted.
    pub(super) fn problem(
        &self,
        span: &Span,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Problem {
        let (line, column) = place(self.text, span.start);
        Problem {
            file: self.file.to_owned(),
            line,
            column,
            message: message.into(),
            remedy: remedy.into(),
        }
    }

    /// Number of mistakes noted so far.
    pub(super) fn count(&self) -> usize {
        self.problems.borrow().len()
    }

    /// All mistakes, in the order of the text.
    pub(super) fn into_problems(self) -> Vec<Problem> {
        let mut problems = self.problems.into_inner();
        problems.sort();
        problems.dedup();
        problems
    }
}

/// One table of a document.
pub(super) struct Section<'a> {
    document: &'a Document<'a>,
    /// How problems name it, such as `tool "pay"`.
    pub(super) what: String,
    table: &'a DeTable<'a>,
    /// Where it begins.
    pub(super) span: Span,
}

/// A field that is there.
#[derive(Clone)]
pub(super) struct Found<T> {
    /// Its value.
    pub(super) value: T,
    /// Where the value is.
    pub(super) span: Span,
}

impl<'a> Section<'a> {
    pub(super) fn new(
        document: &'a Document<'a>,
        what: impl Into<String>,
        table: &'a DeTable<'a>,
        span: Span,
    ) -> Self {
        Self {
            document,
            what: what.into(),
            table,
            span,
        }
    }

    /// Notes a mistake in this section.
    pub(super) fn report(
        &self,
        span: &Span,
        message: impl std::fmt::Display,
        remedy: impl Into<String>,
    ) {
        self.document
            .report(span, format!("{}: {message}", self.what), remedy);
    }

    /// Notes every field that is not in `names`.
    pub(super) fn only(&self, names: &[&str]) {
        for key in self.table.keys() {
            let name = key.get_ref().as_ref();
            if !names.contains(&name) {
                let remedy = nearest::remedy(name, names.iter().copied());
                self.report(&key.span(), format!("unknown field \"{name}\""), remedy);
            }
        }
    }

    /// All fields in the order of the text: name, where the name is, value.
    pub(super) fn fields(&self) -> Vec<(&'a str, Span, &'a Spanned<DeValue<'a>>)> {
        let mut fields: Vec<_> = self
            .table
            .iter()
            .map(|(key, value)| (key.get_ref().as_ref(), key.span(), value))
            .collect();
        fields.sort_by_key(|(_, span, _)| span.start);
        fields
    }

    /// A field of any type.
    pub(super) fn get(&self, name: &str) -> Option<Found<&'a DeValue<'a>>> {
        self.table.get(name).map(|value| Found {
            value: value.get_ref(),
            span: value.span(),
        })
    }

    /// True if the field is there, in whatever state.
    pub(super) fn has(&self, name: &str) -> bool {
        self.table.contains_key(name)
    }

    /// Notes that a field is missing.
    pub(super) fn missing(&self, name: &str, remedy: impl Into<String>) {
        self.report(&self.span, format!("\"{name}\" is missing"), remedy);
    }

    /// Notes that a value has the wrong type.
    pub(super) fn wrong_type(&self, span: &Span, name: &str, expected: &str, found: &DeValue<'_>) {
        self.report(
            span,
            format!("\"{name}\" is {}, not {expected}", kind(found)),
            format!("write {expected}"),
        );
    }

    /// A field of type string.
    pub(super) fn string(&self, name: &str) -> Option<Found<&'a str>> {
        let found = self.get(name)?;
        match found.value {
            DeValue::String(text) => Some(Found {
                value: text.as_ref(),
                span: found.span,
            }),
            other => {
                self.wrong_type(&found.span, name, "a string", other);
                None
            }
        }
    }

    /// A field of type integer that fits `u32` and is at least `least`.
    pub(super) fn count(&self, name: &str, least: u32) -> Option<Found<u32>> {
        let found = self.get(name)?;
        let number = match found.value {
            DeValue::Integer(digits) => integer(digits).and_then(|n| u32::try_from(n).ok()),
            other => {
                self.wrong_type(&found.span, name, "an integer", other);
                return None;
            }
        };
        match number {
            Some(value) if value >= least => Some(Found {
                value,
                span: found.span,
            }),
            _ => {
                self.report(
                    &found.span,
                    format!("\"{name}\" is out of range"),
                    format!("write an integer from {least} to {}", u32::MAX),
                );
                None
            }
        }
    }

    /// A field that holds a duration above zero.
    pub(super) fn duration(&self, name: &str) -> Option<Duration> {
        let found = self.string(name)?;
        match duration::parse(found.value) {
            Some(Duration::ZERO) => {
                self.report(
                    &found.span,
                    format!("\"{name}\" is zero"),
                    "write a duration above zero",
                );
                None
            }
            Some(duration) => Some(duration),
            None => {
                self.report(
                    &found.span,
                    format!("bad duration \"{}\" in \"{name}\"", found.value),
                    "write a whole number and one of ms, s, m, h, d, such as \"30s\"",
                );
                None
            }
        }
    }

    /// A field that holds one of a type's words.
    pub(super) fn word<T: Word>(&self, name: &str) -> Option<T> {
        let found = self.string(name)?;
        let value = T::from_word(found.value);
        if value.is_none() {
            let words = T::ALL.iter().map(|(word, _)| *word);
            self.report(
                &found.span,
                format!("\"{name}\" cannot be \"{}\"", found.value),
                nearest::remedy(found.value, words),
            );
        }
        value
    }

    /// A field that holds strings.
    pub(super) fn strings(&self, name: &str) -> Option<Found<Vec<Found<&'a str>>>> {
        let found = self.get(name)?;
        let DeValue::Array(items) = found.value else {
            self.wrong_type(&found.span, name, "an array of strings", found.value);
            return None;
        };
        let mut texts = Vec::new();
        for item in items.iter() {
            match item.get_ref() {
                DeValue::String(text) => texts.push(Found {
                    value: text.as_ref(),
                    span: item.span(),
                }),
                other => {
                    self.wrong_type(&item.span(), name, "an array of strings", other);
                    return None;
                }
            }
        }
        Some(Found {
            value: texts,
            span: found.span,
        })
    }

    /// A field that holds a table.
    pub(super) fn section(&self, name: &str) -> Option<Section<'a>> {
        let found = self.get(name)?;
        match found.value {
            DeValue::Table(table) => Some(Section::new(
                self.document,
                format!("{}: {name}", self.what),
                table,
                found.span,
            )),
            other => {
                self.wrong_type(&found.span, name, "a table", other);
                None
            }
        }
    }
}

/// A TOML value's type with its article.
pub(super) fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// The number that a TOML integer means, if it fits 64 bits.
pub(super) fn integer(digits: &toml::de::DeInteger<'_>) -> Option<i64> {
    i64::from_str_radix(digits.as_str(), digits.radix()).ok()
}
