//! A step of a job: which tool is called with which arguments, once or for each row of a source.

use std::collections::BTreeMap;

use intendant_journal::format::canonical;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use toml::Spanned;
use toml::de::DeValue;

use super::document::{Section, Span, integer, kind};
use super::nearest;
use super::rows::{Format, Source};
use super::word::{self, Word};

const FIELDS: [&str; 7] = [
    "name",
    "tool",
    "args",
    "for_each",
    "key",
    "concurrency",
    "on_error",
];

/// Items of a `for_each` that may be under way at once, unless the step says otherwise.
pub const CONCURRENCY: u32 = 8;

/// A step. Steps run in the order of the job file.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Its name, unique in the job; the first part of its items' paths.
    pub name: String,
    /// The tool it calls.
    pub tool: String,
    /// Arguments as written: texts are templates.
    pub args: Value,
    /// Where its items come from; without it, the tool is called once.
    pub for_each: Option<Source>,
    /// Items that may be under way at once.
    pub concurrency: u32,
    /// What happens to further items once one has failed.
    #[serde(with = "word")]
    pub on_error: OnError,
}

/// What happens to further items once one has failed, was denied, given up or has an output that
/// cannot be used. An item in doubt is none of these.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnError {
    /// No new items begin, neither of this step nor of later ones; running ones finish.
    Stop,
    /// All items are done nevertheless.
    Continue,
}

impl Word for OnError {
    const ALL: &'static [(&'static str, Self)] =
        &[("stop", Self::Stop), ("continue", Self::Continue)];
}

/// Where the parts of a step are in the text, for later checks.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    /// Its tool's name.
    pub(super) tool: Span,
    /// Its `for_each`.
    pub(super) for_each: Span,
    /// Its key.
    pub(super) key: Span,
    /// All of its arguments.
    pub(super) args: Span,
    /// Every value among its arguments by path, such as `to.account`.
    pub(super) values: BTreeMap<String, Span>,
}

/// Reads the `[[step]]` at `index`. What is wrong was reported, and something harmless stands in
/// its place, so that the rest can still be checked; `None` if too little is left for that.
pub(super) fn read(section: &Section<'_>, index: usize) -> Option<(Step, Places)> {
    section.only(&FIELDS);
    let mut places = Places::default();
    if !section.has("name") {
        section.missing("name", "name the step, such as name = \"pay\"");
    }
    let name = match section.string("name") {
        Some(found) => found.value.to_owned(),
        None => format!("step {}", index + 1),
    };
    if !section.has("tool") {
        section.missing("tool", "name a declared tool, such as tool = \"pay\"");
    }
    let tool = section.string("tool").map(|found| {
        places.tool = found.span;
        found.value.to_owned()
    });
    places.args = section.span.clone();
    let mut args = Value::Object(Map::new());
    if let Some(found) = section.get("args") {
        places.args = found.span.clone();
        if let DeValue::Table(_) = found.value {
            args = json(
                section,
                found.value,
                &found.span,
                &mut Vec::new(),
                &mut places,
            );
        } else {
            let expected = "a table such as { id = \"{{ row.id }}\" }";
            section.wrong_type(&found.span, "args", expected, found.value);
        }
    }
    let for_each = source(section, &mut places);
    let concurrency = section.count("concurrency", 1);
    let on_error = section.word("on_error");
    let step = Step {
        name,
        tool: tool.unwrap_or_default(),
        args,
        for_each: for_each?,
        concurrency: concurrency.map_or(CONCURRENCY, |found| found.value),
        on_error: on_error.unwrap_or(OnError::Stop),
    };
    Some((step, places))
}

/// The outer `None` means a mistake, the inner one a step without `for_each`.
#[expect(
    clippy::option_option,
    reason = "a mistake and an absence are different"
)]
fn source(section: &Section<'_>, places: &mut Places) -> Option<Option<Source>> {
    let key = section.string("key").map(|found| {
        places.key = found.span;
        found.value.to_owned()
    });
    let Some(found) = section.get("for_each") else {
        if let Some(found) = section.get("key") {
            section.report(
                &found.span,
                "\"key\" without \"for_each\": there are no rows to name",
                "add for_each = \"rows.csv\", or remove key",
            );
            return None;
        }
        return Some(None);
    };
    places.for_each = found.span.clone();
    let (path, format) = match found.value {
        DeValue::String(path) => (path.to_string(), None),
        DeValue::Table(_) => {
            let inner = section.section("for_each")?;
            inner.only(&["path", "format"]);
            if !inner.has("path") {
                inner.missing("path", "name the file of the rows");
            }
            let path = inner.string("path")?.value.to_owned();
            let format = match inner.has("format") {
                true => Some(inner.word::<Format>("format")?),
                false => None,
            };
            (path, format)
        }
        other => {
            let expected = "the name of a CSV or JSONL file";
            section.wrong_type(&found.span, "for_each", expected, other);
            return None;
        }
    };
    let ending = path
        .rsplit_once('.')
        .map(|(_, ending)| ending.to_lowercase());
    let format = match (format, ending.as_deref()) {
        (Some(format), _) => format,
        (None, Some("csv")) => Format::Csv,
        (None, Some("jsonl" | "ndjson")) => Format::Jsonl,
        (None, _) => {
            section.report(
                &found.span,
                format!("the name \"{path}\" does not tell how the rows are written"),
                format!(
                    "write for_each = {{ path = \"{path}\", format = \"csv\" }} (or \"jsonl\")"
                ),
            );
            return None;
        }
    };
    if section.has("key") && key.is_none() {
        return None;
    }
    Some(Some(Source { path, format, key }))
}

/// A TOML value as JSON, with the place of every value in it. What JSON does not have is reported
/// and null in its place.
fn json(
    section: &Section<'_>,
    value: &DeValue<'_>,
    span: &Span,
    path: &mut Vec<String>,
    places: &mut Places,
) -> Value {
    let name = path.join(".");
    places.values.insert(name.clone(), span.clone());
    let refuse = |what: &str, remedy: &str| {
        section.report(span, format!("argument \"{name}\" {what}"), remedy);
        Value::Null
    };
    match value {
        DeValue::String(text) => Value::from(text.as_ref()),
        DeValue::Boolean(truth) => Value::from(*truth),
        DeValue::Integer(digits) => match integer(digits) {
            Some(number) => Value::from(number),
            None => refuse("does not fit 64 bits", "write it as a string"),
        },
        DeValue::Float(digits) => {
            let number = digits.as_str().parse().ok().and_then(Number::from_f64);
            match number.and_then(|number| as_recorded(number.into())) {
                Some(number) => number,
                None => refuse("is no JSON number", "write a finite number"),
            }
        }
        DeValue::Datetime(_) => refuse(
            &format!("is {}, which JSON does not have", kind(value)),
            "write it as a string",
        ),
        DeValue::Array(items) => {
            let mut list = Vec::new();
            for (index, item) in items.iter().enumerate() {
                list.push(member(section, &index.to_string(), item, path, places));
            }
            Value::Array(list)
        }
        DeValue::Table(table) => {
            let mut members = Map::new();
            for (name, item) in table.iter() {
                let name = name.get_ref().to_string();
                let value = member(section, &name, item, path, places);
                members.insert(name, value);
            }
            Value::Object(members)
        }
    }
}

/// The value as the journal gives it back: 3.0 becomes 3.
fn as_recorded(value: Value) -> Option<Value> {
    let text = canonical::to_text(&value).ok()?;
    canonical::parse(text.as_bytes()).ok()
}

fn member(
    section: &Section<'_>,
    name: &str,
    item: &Spanned<DeValue<'_>>,
    path: &mut Vec<String>,
    places: &mut Places,
) -> Value {
    path.push(name.to_owned());
    let value = json(section, item.get_ref(), &item.span(), path, places);
    path.pop();
    value
}

/// Notes arguments that the tool's input schema does not name, and those it requires that are
/// missing.
pub(super) fn fits(section: &Section<'_>, step: &Step, places: &Places, input: &Value) {
    let empty = Map::new();
    let properties = input.get("properties").and_then(Value::as_object);
    let properties = properties.unwrap_or(&empty);
    let given = step.args.as_object().unwrap_or(&empty);
    let closed = input.get("additionalProperties") == Some(&Value::Bool(false))
        && input.get("patternProperties").is_none();
    for name in given.keys().filter(|_| closed) {
        if !properties.contains_key(name) {
            let remedy = if properties.is_empty() {
                format!(
                    "declare it in input of tool \"{}\", such as input = {{ {name} = \"string\" }}",
                    step.tool
                )
            } else {
                nearest::remedy(name, properties.keys().map(String::as_str))
            };
            let span = places.values.get(name).unwrap_or(&places.args);
            let message = format!("tool \"{}\" has no argument \"{name}\"", step.tool);
            section.report(span, message, remedy);
        }
    }
    let required = input.get("required").and_then(Value::as_array);
    for name in required.into_iter().flatten().filter_map(Value::as_str) {
        if !given.contains_key(name) {
            section.report(
                &places.args,
                format!("tool \"{}\" needs the argument \"{name}\"", step.tool),
                format!("add {name} = ... to args"),
            );
        }
    }
}
