//! What changed between two readings of a job, in the words of its file.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde_json::Value;

use super::file::Job;
use super::input::JobInput;
use super::rows::Row;
use super::step::Step;
use super::template::{Template, Variables};

/// Longest value, in characters, that is shown in full.
const SHOWN_MAX: usize = 80;

/// A known key with other arguments.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Conflict {
    /// The file of the rows.
    pub file: String,
    /// The line of the row now.
    pub line: u64,
    /// The step.
    pub step: String,
    /// The key.
    pub key: String,
    /// What differs.
    pub what: String,
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}:{}: step \"{}\": the row with the known key \"{}\" changed: {}; take the change back, or give the row a key of its own",
            self.file, self.line, self.step, self.key, self.what
        )
    }
}

/// What changed from one definition to another, one sentence a change, such as
/// `tool.pay.timeout changed from 30s to 60s`. Empty if nothing did.
#[must_use]
pub fn differences(old: &Job, new: &Job) -> Vec<String> {
    let mut changes = Vec::new();
    let names = |job: &Job| {
        let names: Vec<&str> = job.steps.iter().map(|step| step.name.as_str()).collect();
        names.join(", ")
    };
    let (old_parts, new_parts) = (parts(old), parts(new));
    let mut paths: Vec<&String> = old_parts.keys().chain(new_parts.keys()).collect();
    paths.sort_unstable();
    paths.dedup();
    for path in paths {
        match (old_parts.get(path), new_parts.get(path)) {
            (Some(_), None) => changes.push(format!("{path} was removed")),
            (None, Some(_)) => changes.push(format!("{path} was added")),
            (Some(old), Some(new)) => compare(path, old, new, &mut changes),
            (None, None) => {}
        }
    }
    let same_steps = old.steps.len() == new.steps.len()
        && old
            .steps
            .iter()
            .all(|step| new.steps.iter().any(|other| other.name == step.name));
    if same_steps && names(old) != names(new) {
        changes.push(format!(
            "the order of the steps changed from {} to {}",
            names(old),
            names(new)
        ));
    }
    changes
}

/// The job, its tools and its steps by the names that the job file gives them.
fn parts(job: &Job) -> BTreeMap<String, Value> {
    let value = |part: Result<Value, serde_json::Error>| {
        part.expect("definitions hold text, numbers and JSON only")
    };
    let head = serde_json::json!({
        "name": job.name, "version": job.version, "env": job.env, "folder": job.folder,
    });
    let tools = job
        .tools
        .iter()
        .map(|(name, tool)| (format!("tool.{name}"), value(serde_json::to_value(tool))));
    let steps = job.steps.iter().map(|step| {
        (
            format!("step.{}", step.name),
            value(serde_json::to_value(step)),
        )
    });
    let head = [("job".to_owned(), head)];
    head.into_iter().chain(tools).chain(steps).collect()
}

fn compare(path: &str, old: &Value, new: &Value, changes: &mut Vec<String>) {
    if let (Value::Object(old), Value::Object(new)) = (old, new) {
        let mut names: Vec<&String> = old.keys().chain(new.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let path = format!("{path}.{name}");
            let member =
                |of: &serde_json::Map<String, Value>| of.get(name).cloned().unwrap_or(Value::Null);
            compare(&path, &member(old), &member(new), changes);
        }
    } else if old != new {
        changes.push(match (old, new) {
            (Value::Null, new) => format!("{path} was added: {}", shown(new)),
            (old, Value::Null) => format!("{path} was removed, it was {}", shown(old)),
            (old, new) => format!("{path} changed from {} to {}", shown(old), shown(new)),
        });
    }
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() <= SHOWN_MAX {
        return text;
    }
    let beginning: String = text.chars().take(SHOWN_MAX).collect();
    format!("{beginning}...")
}

/// Known keys whose rows differ in something that the step's arguments read, before or now.
#[must_use]
pub fn row_conflicts(old: &JobInput, new: &JobInput) -> Vec<Conflict> {
    let mut conflicts = Vec::new();
    for step in &new.job.steps {
        let (Some(source), Some(known), Some(rows)) = (
            &step.for_each,
            old.rows.get(&step.name),
            new.rows.get(&step.name),
        ) else {
            continue;
        };
        let mut reads = variables(step);
        if let Some(step) = old.job.steps.iter().find(|known| known.name == step.name) {
            reads.extend(&variables(step));
        }
        let known: HashMap<&str, &Row> = known.iter().map(|row| (row.key.as_str(), row)).collect();
        for row in rows {
            let Some(old) = known.get(row.key.as_str()) else {
                continue;
            };
            if let Some(what) = row_change(&old.value, &row.value, &reads) {
                conflicts.push(Conflict {
                    file: source.path.clone(),
                    line: row.line,
                    step: step.name.clone(),
                    key: row.key.clone(),
                    what,
                });
            }
        }
    }
    conflicts
}

fn row_change(old: &Value, new: &Value, reads: &Variables) -> Option<String> {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return (old != new).then(|| format!("it was {} and is {}", shown(old), shown(new)));
    };
    let names = old.keys().chain(new.keys());
    let name = names
        .filter(|name| reads.whole_row || reads.row.contains(*name))
        .find(|name| old.get(*name) != new.get(*name))?;
    let value = |of: &serde_json::Map<String, Value>| match of.get(name) {
        Some(value) => shown(value),
        None => "absent".to_owned(),
    };
    Some(format!("{name} was {} and is {}", value(old), value(new)))
}

/// What the arguments of a step read.
fn variables(step: &Step) -> Variables {
    let mut reads = Variables::default();
    texts(&step.args, &mut |text| match Template::compile(text) {
        Ok(template) => reads.extend(template.variables()),
        // Of a template that this program cannot read, nothing can be left out.
        Err(_) => reads.whole_row = true,
    });
    reads
}

fn texts(value: &Value, take: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => take(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, take)),
        Value::Object(members) => members.values().for_each(|member| texts(member, take)),
        _ => {}
    }
}

/// Rows whose key is not known, by step.
#[must_use]
pub fn new_rows(old: &JobInput, new: &JobInput) -> BTreeMap<String, Vec<Row>> {
    let mut added = BTreeMap::new();
    for (step, rows) in &new.rows {
        let known: std::collections::HashSet<&str> = old
            .rows
            .get(step)
            .into_iter()
            .flatten()
            .map(|row| row.key.as_str())
            .collect();
        let rows: Vec<Row> = rows
            .iter()
            .filter(|row| !known.contains(row.key.as_str()))
            .cloned()
            .collect();
        if !rows.is_empty() {
            added.insert(step.clone(), rows);
        }
    }
    added
}

#[cfg(test)]
mod tests;
