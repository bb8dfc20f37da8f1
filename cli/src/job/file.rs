//! A job file as a whole: read, checked against its tools, schemas and rows, and loaded.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use toml::de::DeValue;

use super::declaration;
use super::document::{Document, Section, Span};
use super::draft::{Draft, Surroundings};
use super::problem::Problem;
use super::rows::Row;
use super::step::{self, Step};
use super::template::Shared;
use super::tool::JobTool;

/// A job: what its file says, complete and consistent in itself.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// Its name; the run id unless another is given.
    pub name: String,
    /// Raised by hand when the file changes while its run is open.
    pub version: u32,
    /// Environment names that templates may read.
    pub env: Vec<String>,
    /// The folder of the job file, absolute: relative paths and the tools' working directory.
    pub folder: PathBuf,
    /// Declared tools by name.
    pub tools: BTreeMap<String, JobTool>,
    /// Steps in the order they run.
    pub steps: Vec<Step>,
}

/// A job with what it reads from outside at first sight.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The job.
    pub job: Job,
    /// Rows by step, for each step with a `for_each`.
    pub rows: BTreeMap<String, Vec<Row>>,
    /// Values of those allowed environment names that are set.
    pub env: BTreeMap<String, String>,
    /// Allowed names that are not set, by name. A mistake unless the journal knows their values.
    pub unset: BTreeMap<String, Problem>,
}

/// Reads and checks a job file with everything it names.
///
/// # Errors
/// Every mistake found, in the order of files and lines; never empty.
pub fn load(path: &Path) -> Result<Loaded, Vec<Problem>> {
    let whole = |message: String, remedy: &str| {
        vec![Problem {
            file: path.to_owned(),
            line: 0,
            column: 0,
            message,
            remedy: remedy.to_owned(),
        }]
    };
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) => {
            let message = format!("the job file cannot be read: {error}");
            return Err(whole(message, "name a job file that can be read"));
        }
    };
    let Ok(text) = String::from_utf8(text) else {
        let message = "the job file is not UTF-8".to_owned();
        return Err(whole(message, "save it as UTF-8"));
    };
    let shown = path.parent().unwrap_or(Path::new("")).to_owned();
    let parent = if shown.as_os_str().is_empty() {
        Path::new(".")
    } else {
        &shown
    };
    let folder = match parent.canonicalize() {
        Ok(folder) => folder,
        Err(error) => {
            let message = format!("the job file's folder cannot be read: {error}");
            return Err(whole(message, "make the folder readable"));
        }
    };
    if folder.to_str().is_none() {
        let message = format!("the name of the folder {} is not UTF-8", folder.display());
        return Err(whole(message, "rename it: the journal keeps it as text"));
    }
    let (document, root) = Document::parse(path, &text);
    let root = Section::new(&document, "job file", root.get_ref(), 0..0);
    let reading = Reading {
        document: &document,
        shown: &shown,
        folder: &folder,
    };
    let (loaded, mut problems) = reading.job(&root);
    problems.extend(document.into_problems());
    problems.sort();
    match loaded {
        Some(loaded) if problems.is_empty() => Ok(loaded),
        _ => {
            assert!(
                !problems.is_empty(),
                "a job that is not sound has a problem"
            );
            Err(problems)
        }
    }
}

struct Reading<'a> {
    document: &'a Document<'a>,
    /// The job file's folder as the user named it, for messages.
    shown: &'a Path,
    folder: &'a Path,
}

/// What `[job]` says.
#[derive(Default)]
struct Head {
    name: String,
    version: u32,
    /// Allowed environment names and where they stand.
    env: Vec<(String, Span)>,
}

impl<'a> Reading<'a> {
    fn job(&self, root: &Section<'a>) -> (Option<Loaded>, Vec<Problem>) {
        root.only(&["job", "tool", "step"]);
        let head = self.head(root);
        let tools = self.tools(root);
        let drafts = self.drafts(root);
        let mut env = BTreeMap::new();
        let mut unset = BTreeMap::new();
        for (name, span) in &head.env {
            if let Ok(value) = std::env::var(name) {
                env.insert(name.clone(), value);
            } else {
                unset.insert(name.clone(), self.unset(name, span));
            }
        }
        let env_names: Vec<String> = head.env.into_iter().map(|(name, _)| name).collect();
        let shared = Shared::new(&head.name, &env);
        let mut sheets = BTreeMap::new();
        let mut problems = Vec::new();
        let around = Surroundings {
            document: self.document,
            shown: self.shown,
            folder: self.folder,
            tools: &tools,
            env_names: &env_names,
            env: &env,
            shared: &shared,
            drafts: &drafts,
        };
        for (index, draft) in drafts.iter().enumerate() {
            if let Some(rows) = draft.check(index, &around, &mut problems) {
                sheets.insert(draft.step.name.clone(), rows);
            }
        }
        let mut sound = BTreeMap::new();
        for (name, tool) in tools {
            match tool {
                Some(tool) => sound.insert(name, tool),
                None => return (None, problems),
            };
        }
        let job = Job {
            name: head.name,
            version: head.version,
            env: env_names,
            folder: self.folder.to_owned(),
            tools: sound,
            steps: drafts.into_iter().map(|draft| draft.step).collect(),
        };
        let loaded = Loaded {
            job,
            rows: sheets,
            env,
            unset,
        };
        (Some(loaded), problems)
    }

    fn unset(&self, name: &str, span: &Span) -> Problem {
        self.document.problem(
            span,
            format!("the environment variable {name} is not set, or not UTF-8"),
            "set it, or remove it from env in [job]",
        )
    }

    /// What `[job]` says. What is missing or wrong in it was reported and is left empty.
    fn head(&self, root: &Section<'a>) -> Head {
        let mut head = Head::default();
        if !root.has("job") {
            root.missing(
                "[job]",
                "begin the file with [job], name = \"...\", version = 1",
            );
            return head;
        }
        let Some(mut job) = root.section("job") else {
            return head;
        };
        job.what = "job".to_owned();
        job.only(&["name", "version", "env"]);
        if !job.has("name") {
            job.missing("name", "name the job, such as name = \"payouts\"");
        }
        if let Some(name) = job.string("name") {
            plain_name(&job, "name", name.value, &name.span);
            head.name = name.value.to_owned();
        }
        head.version = job.count("version", 1).map_or(1, |found| found.value);
        for found in job
            .strings("env")
            .map(|found| found.value)
            .unwrap_or_default()
        {
            let name = found.value;
            if name.is_empty() || name.contains(['=', '\0']) {
                let message = format!("\"env\": \"{name}\" is no environment name");
                job.report(&found.span, message, "write a name such as REGION");
            } else if !head.env.iter().any(|(known, _)| known == name) {
                head.env.push((name.to_owned(), found.span));
            }
        }
        head
    }

    /// All declared names; `None` for a tool that is not sound.
    fn tools(&self, root: &Section<'a>) -> BTreeMap<String, Option<JobTool>> {
        let mut tools = BTreeMap::new();
        let Some(section) = root.has("tool").then(|| root.section("tool")).flatten() else {
            return tools;
        };
        for (name, span, value) in section.fields() {
            let DeValue::Table(table) = value.get_ref() else {
                let expected = "a table: write [tool.NAME]";
                section.wrong_type(&value.span(), name, expected, value.get_ref());
                tools.insert(name.to_owned(), None);
                continue;
            };
            let what = format!("tool \"{name}\"");
            let section = Section::new(self.document, what, table, span.clone());
            plain_name(&section, "name", name, &span);
            tools.insert(name.to_owned(), declaration::read(&section, self.folder));
        }
        tools
    }

    fn drafts(&self, root: &Section<'a>) -> Vec<Draft<'a>> {
        let mut drafts: Vec<Draft<'a>> = Vec::new();
        let Some(found) = root.get("step") else {
            root.missing(
                "[[step]]",
                "add a step: [[step]], name = \"pay\", tool = \"pay\"",
            );
            return drafts;
        };
        let DeValue::Array(items) = found.value else {
            let expected = "an array of tables: write [[step]]";
            root.wrong_type(&found.span, "step", expected, found.value);
            return drafts;
        };
        for (index, item) in items.iter().enumerate() {
            let DeValue::Table(table) = item.get_ref() else {
                root.wrong_type(&item.span(), "step", "a table", item.get_ref());
                continue;
            };
            let what = match table.get("name").map(|name| name.get_ref()) {
                Some(DeValue::String(name)) => format!("step \"{name}\""),
                _ => format!("step {}", index + 1),
            };
            let section = Section::new(self.document, what, table, item.span());
            let Some((step, places)) = step::read(&section, index) else {
                continue;
            };
            if section.has("name") {
                plain_name(&section, "name", &step.name, &section.span);
            }
            if drafts.iter().any(|draft| draft.step.name == step.name) {
                let message = "two steps have this name";
                section.report(&section.span, message, "rename one of them");
                continue;
            }
            drafts.push(Draft {
                section,
                step,
                places,
            });
        }
        drafts
    }
}

/// Job, tool and step names are parts of ids, paths and templates.
fn plain_name(section: &Section<'_>, field: &str, name: &str, span: &Span) {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if name.is_empty() || name.len() > 100 || !name.chars().all(plain) {
        section.report(
            span,
            format!("\"{field}\" cannot be \"{name}\""),
            "use 1 to 100 letters, digits, \"_\", \"-\" and \".\"",
        );
    }
}

#[cfg(test)]
mod tests;
