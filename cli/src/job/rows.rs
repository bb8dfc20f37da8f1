//! The rows that a `for_each` walks: CSV and JSONL files, read strictly.
//!
//! Invariants: no key is empty or there twice within one source; rows keep the order of the file
//! and the line on which they begin.

use std::collections::HashMap;
use std::path::Path;

use intendant_journal::format::canonical;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::problem::Problem;
use super::template::{Shared, Template};
use super::word::{self, Word};

/// More mistakes than this in one file are counted, not shown.
pub(super) const PROBLEMS_MAX: usize = 20;

/// Longest key, in bytes.
pub const KEY_BYTES_MAX: usize = 512;

/// One row of a source.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Row {
    /// Names the item; unique within the source.
    pub key: String,
    /// The line on which it begins, from 1.
    pub line: u64,
    /// What it holds. Cells of a CSV file are text: they are read where they become arguments.
    pub value: Value,
}

/// How a source is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// A header row, then a row for each item.
    Csv,
    /// A JSON value on each line.
    Jsonl,
}

impl Word for Format {
    const ALL: &'static [(&'static str, Self)] = &[("csv", Self::Csv), ("jsonl", Self::Jsonl)];
}

/// Where the items of a step come from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The file, as the job file names it.
    pub path: String,
    /// How it is written.
    #[serde(with = "word")]
    pub format: Format,
    /// Template of an item's key; without one, items are named by their number.
    pub key: Option<String>,
}

impl Source {
    /// True if values are cells, whose type the schema tells.
    pub(super) fn cells(&self) -> bool {
        self.format == Format::Csv
    }
}

/// What was read of a source.
#[derive(Debug)]
pub(super) struct Sheet {
    /// Names of the columns, for CSV.
    pub(super) columns: Option<Vec<String>>,
    /// Sound rows in file order.
    pub(super) rows: Vec<Row>,
}

/// Collects the mistakes of one file.
pub(super) struct Faults<'a> {
    file: &'a Path,
    problems: Vec<Problem>,
    more: usize,
}

impl<'a> Faults<'a> {
    pub(super) fn new(file: &'a Path) -> Self {
        Self {
            file,
            problems: Vec::new(),
            more: 0,
        }
    }

    pub(super) fn report(
        &mut self,
        line: u64,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        if self.problems.len() >= PROBLEMS_MAX {
            self.more += 1;
            return;
        }
        self.problems.push(Problem {
            file: self.file.to_owned(),
            line,
            column: 0,
            message: message.into(),
            remedy: remedy.into(),
        });
    }

    pub(super) fn into_problems(mut self) -> Vec<Problem> {
        if self.more > 0 {
            self.problems.push(Problem {
                file: self.file.to_owned(),
                line: self.problems.last().map_or(0, |problem| problem.line),
                column: 0,
                message: format!("{} more mistakes of this file are not shown", self.more),
                remedy: "correct those above first".to_owned(),
            });
        }
        self.problems
    }
}

/// Reads a source. What is wrong in it goes to `faults`.
///
/// # Errors
/// The system's, if the file cannot be read.
pub(super) fn read(
    file: &Path,
    format: Format,
    key: Option<&Template>,
    faults: &mut Faults<'_>,
) -> std::io::Result<Sheet> {
    let text = std::fs::read(file)?;
    let (columns, values) = match format {
        Format::Csv => csv_values(&text, faults),
        Format::Jsonl => (None, jsonl_values(&text, faults)),
    };
    Ok(Sheet {
        rows: with_keys(values, key, columns.as_deref(), faults),
        columns,
    })
}

fn with_keys(
    values: Vec<(u64, Value)>,
    key: Option<&Template>,
    columns: Option<&[String]>,
    faults: &mut Faults<'_>,
) -> Vec<Row> {
    // A column that is not there is told once, where the template is.
    if let (Some(key), Some(columns)) = (key, columns)
        && key
            .variables()
            .row
            .iter()
            .any(|name| !columns.contains(name))
    {
        return Vec::new();
    }
    let shared = Shared::default();
    let mut lines: HashMap<String, u64> = HashMap::new();
    let mut rows = Vec::new();
    for (index, (line, value)) in values.into_iter().enumerate() {
        let name = match key {
            None => Ok((index + 1).to_string()),
            Some(key) => match key.render(&shared.context(Some(&value), [])) {
                Ok(Value::String(text)) => Ok(text),
                Ok(Value::Number(number)) if !number.is_f64() => Ok(number.to_string()),
                Ok(other) => Err(format!("the key is {other}, not text or an integer")),
                Err(error) => Err(format!("the key cannot be made: {error}")),
            },
        };
        let name = match name {
            Ok(name) => name,
            Err(why) => {
                faults.report(line, why, "correct the row, or the step's key");
                continue;
            }
        };
        if name.is_empty() {
            faults.report(line, "the key is empty", "give the row a key of its own");
        } else if name.len() > KEY_BYTES_MAX {
            faults.report(
                line,
                format!("the key is longer than {KEY_BYTES_MAX} bytes"),
                "choose a shorter key",
            );
        } else if let Some(first) = lines.get(&name) {
            faults.report(
                line,
                format!("the key \"{name}\" is on line {first} already"),
                format!("remove one of the lines {first} and {line}, or choose another key"),
            );
        } else {
            lines.insert(name.clone(), line);
            rows.push(Row {
                key: name,
                line,
                value,
            });
        }
    }
    rows
}

type Values = Vec<(u64, Value)>;

fn csv_values(text: &[u8], faults: &mut Faults<'_>) -> (Option<Vec<String>>, Values) {
    let mut lines = Lines::new(text);
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text);
    let columns = match reader.byte_headers().map(texts) {
        Ok(Some(columns)) if !columns.is_empty() => columns,
        Ok(Some(_)) => {
            faults.report(
                1,
                "the file is empty",
                "write the names of the columns in the first line",
            );
            return (None, Vec::new());
        }
        Ok(None) => {
            faults.report(1, "the header is not UTF-8", "save the file as UTF-8");
            return (None, Vec::new());
        }
        Err(error) => {
            faults.report(1, format!("not CSV: {error}"), "correct the file");
            return (None, Vec::new());
        }
    };
    for (index, column) in columns.iter().enumerate() {
        if column.is_empty() {
            faults.report(
                1,
                format!("column {} has no name", index + 1),
                "name it, or remove it",
            );
        } else if columns[..index].contains(column) {
            faults.report(
                1,
                format!("two columns are named \"{column}\""),
                "rename one of them",
            );
        }
    }
    let mut values = Vec::new();
    let mut record = csv::ByteRecord::new();
    loop {
        let line = match reader.read_byte_record(&mut record) {
            Ok(false) => break,
            Ok(true) => lines.at(record.position().map_or(0, csv::Position::byte)),
            Err(error) => {
                let line = lines.at(error.position().map_or(0, csv::Position::byte));
                faults.report(line, format!("not CSV: {error}"), "correct the row");
                break;
            }
        };
        let Some(cells) = texts(&record) else {
            faults.report(line, "the row is not UTF-8", "save the file as UTF-8");
            continue;
        };
        if cells.len() != columns.len() {
            faults.report(
                line,
                format!(
                    "the row has {} cells, the header has {}",
                    cells.len(),
                    columns.len()
                ),
                "write one cell for each column; quote cells that hold commas or line breaks",
            );
            continue;
        }
        let members = columns
            .iter()
            .cloned()
            .zip(cells.into_iter().map(Value::from));
        values.push((line, Value::Object(members.collect::<Map<_, _>>())));
    }
    (Some(columns), values)
}

fn texts(record: &csv::ByteRecord) -> Option<Vec<String>> {
    record
        .iter()
        .map(|cell| std::str::from_utf8(cell).ok().map(str::to_owned))
        .collect()
}

/// Lines of growing offsets. The reader's own count stands on the empty lines before a record.
struct Lines<'a> {
    text: &'a [u8],
    offset: usize,
    line: u64,
}

impl<'a> Lines<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            offset: 0,
            line: 1,
        }
    }

    /// The line of the first byte at or after `offset` that ends no line.
    fn at(&mut self, offset: u64) -> u64 {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        while let Some(byte) = self.text.get(self.offset) {
            if self.offset >= offset && !matches!(byte, b'\n' | b'\r') {
                break;
            }
            self.line += u64::from(*byte == b'\n');
            self.offset += 1;
        }
        self.line
    }
}

fn jsonl_values(text: &[u8], faults: &mut Faults<'_>) -> Values {
    let mut values = Vec::new();
    for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let number = index as u64 + 1;
        match canonical::parse(line) {
            Ok(value) => values.push((number, value)),
            Err(error) => {
                faults.report(
                    number,
                    error.to_string(),
                    "write one JSON value on each line",
                );
            }
        }
    }
    values
}

#[cfg(test)]
mod tests;
