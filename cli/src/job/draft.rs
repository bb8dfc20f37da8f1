//! A step as it was read, checked against what it names: its tool, the tool's input schema, the
//! variables of its templates, and its rows.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::arguments::Arguments;
use super::document::{Document, Section, Span};
use super::nearest;
use super::problem::Problem;
use super::rows::{self, Faults, Row, Source};
use super::schema;
use super::step::{self, Places, Step};
use super::template::{Shared, Template, Variables};
use super::tool::{JobTool, Recovery};

/// A step that was read, with the places of its parts.
pub(super) struct Draft<'a> {
    pub(super) section: Section<'a>,
    pub(super) step: Step,
    pub(super) places: Places,
}

/// What steps are checked against.
pub(super) struct Surroundings<'a> {
    pub(super) document: &'a Document<'a>,
    /// The job file's folder as the user named it, for messages.
    pub(super) shown: &'a Path,
    /// The same, absolute.
    pub(super) folder: &'a Path,
    /// Declared tools; `None` for one that is not sound.
    pub(super) tools: &'a BTreeMap<String, Option<JobTool>>,
    /// Environment names that templates may read.
    pub(super) env_names: &'a [String],
    /// Values of those that are set.
    pub(super) env: &'a BTreeMap<String, String>,
    /// What all templates may read.
    pub(super) shared: &'a Shared,
    /// All steps, in order.
    pub(super) drafts: &'a [Draft<'a>],
}

impl Draft<'_> {
    /// Checks the step, which is the one at `index`. Gives its rows if it has a source; mistakes
    /// in them go to `problems`.
    pub(super) fn check(
        &self,
        index: usize,
        around: &Surroundings<'_>,
        problems: &mut Vec<Problem>,
    ) -> Option<Vec<Row>> {
        let before = around.document.count();
        let tool = self.tool(around);
        let variables = self.variables(&around.drafts[..index], around);
        let key = self.key();
        let rows = self.step.for_each.as_ref().map(|source| {
            let file = around.shown.join(&source.path);
            let mut faults = Faults::new(&file);
            let path = around.folder.join(&source.path);
            match rows::read(&path, source.format, key.as_ref(), &mut faults) {
                Ok(sheet) => {
                    if let Some(columns) = &sheet.columns {
                        self.columns(columns, &variables, key.as_ref(), &source.path);
                    }
                    problems.extend(faults.into_problems());
                    sheet.rows
                }
                Err(error) => {
                    self.section.report(
                        &self.places.for_each,
                        format!("the rows {} cannot be read: {error}", source.path),
                        "name a file that can be read, relative to the job file's folder",
                    );
                    Vec::new()
                }
            }
        });
        if let Some(tool) = tool {
            step::fits(&self.section, &self.step, &self.places, &tool.input);
            // A mistake in the step itself would be told again for each of its rows.
            if before == around.document.count() {
                self.accepted(tool, rows.as_deref(), around, problems);
            }
        }
        rows
    }

    /// The tool, if it is declared and sound.
    fn tool<'t>(&self, around: &Surroundings<'t>) -> Option<&'t JobTool> {
        let name = &self.step.tool;
        if name.is_empty() {
            return None;
        }
        let Some(tool) = around.tools.get(name) else {
            let known = around.tools.keys().map(String::as_str);
            let message = format!("unknown tool \"{name}\"");
            self.section
                .report(&self.places.tool, message, nearest::remedy(name, known));
            return None;
        };
        let tool = tool.as_ref()?;
        if let Some(source) = &self.step.for_each
            && source.key.is_none()
            && tool.recovery != Recovery::ReadOnly
        {
            self.section.report(
                &self.places.for_each,
                format!("\"for_each\" needs a key: tool \"{name}\" is not read_only"),
                "add key = \"{{ row.id }}\", naming what makes a row unique",
            );
        }
        Some(tool)
    }

    /// Compiles every text among the arguments, notes what is wrong with it, and gives what each
    /// reads, with its place.
    fn variables(
        &self,
        earlier: &[Draft<'_>],
        around: &Surroundings<'_>,
    ) -> Vec<(Span, Variables)> {
        let mut all = Vec::new();
        let mut texts = Vec::new();
        collect(&self.step.args, &mut Vec::new(), &mut texts);
        for (path, text) in texts {
            let places = &self.places;
            let span = places.values.get(&path).unwrap_or(&places.args).clone();
            let what = format!("argument \"{path}\"");
            let Some(template) = self.template(&what, text, &span) else {
                continue;
            };
            let reads = template.variables();
            self.readable(&what, &span, reads, earlier, around);
            all.push((span, reads.clone()));
        }
        all
    }

    fn template(&self, what: &str, text: &str, span: &Span) -> Option<Template> {
        match Template::compile(text) {
            Ok(template) => Some(template),
            Err(why) => {
                self.section.report(
                    span,
                    format!("{what}: bad template: {why}"),
                    "write {{ row.NAME }}, {{ steps.NAME.output }}, {{ run.id }} or {{ env.NAME }}",
                );
                None
            }
        }
    }

    fn key(&self) -> Option<Template> {
        let source = self.step.for_each.as_ref()?;
        let span = &self.places.key;
        let template = self.template("\"key\"", source.key.as_ref()?, span)?;
        let reads = template.variables();
        let others = !reads.steps.is_empty() || !reads.env.is_empty() || reads.run;
        if others || !reads.unknown.is_empty() || !reads.reads_row() {
            self.section.report(
                span,
                "\"key\" must be made of the row and of nothing else",
                "write it like key = \"{{ row.id }}\"",
            );
            return None;
        }
        Some(template)
    }

    /// Notes what a template may not read.
    fn readable(
        &self,
        what: &str,
        span: &Span,
        reads: &Variables,
        earlier: &[Draft<'_>],
        around: &Surroundings<'_>,
    ) {
        let report = |message: &str, remedy: String| {
            self.section
                .report(span, format!("{what}: {message}"), remedy);
        };
        for name in &reads.unknown {
            let remedy = match name.split('.').next().unwrap_or_default() {
                "steps" => "write steps.NAME.output".to_owned(),
                "run" => "write run.id".to_owned(),
                "env" => "write env.NAME, and allow NAME with env = [...] in [job]".to_owned(),
                first => nearest::remedy(first, ["row", "steps", "run", "env"]),
            };
            report(&format!("unknown variable \"{name}\""), remedy);
        }
        if reads.reads_row() && self.step.for_each.is_none() {
            report(
                "there is no row, the step has no \"for_each\"",
                "add for_each = \"rows.csv\", or use another variable".to_owned(),
            );
        }
        for name in reads
            .env
            .iter()
            .filter(|name| !around.env_names.contains(name))
        {
            report(
                &format!("the environment name \"{name}\" is not allowed"),
                format!("add env = [\"{name}\"] to [job]"),
            );
        }
        for name in &reads.steps {
            let named = |draft: &&Draft<'_>| draft.step.name == *name;
            if let Some(other) = earlier.iter().find(named) {
                if let (Some(ours), Some(theirs)) = (&self.step.for_each, &other.step.for_each)
                    && ours.path == theirs.path
                    && ours.key != theirs.key
                {
                    report(
                        &format!("step \"{name}\" walks the same rows under another key"),
                        "give both steps the same key, so that outputs can be told apart"
                            .to_owned(),
                    );
                }
            } else if around.drafts.iter().any(|draft| named(&draft)) {
                report(
                    &format!("step \"{name}\" does not run before this one"),
                    "use the output of an earlier step".to_owned(),
                );
            } else {
                let known = earlier.iter().map(|draft| draft.step.name.as_str());
                report(
                    &format!("unknown step \"{name}\""),
                    nearest::remedy(name, known),
                );
            }
        }
    }

    /// Notes columns that templates read and the file does not have.
    fn columns(
        &self,
        columns: &[String],
        variables: &[(Span, Variables)],
        key: Option<&Template>,
        file: &str,
    ) {
        let key = key.map(|key| (self.places.key.clone(), key.variables().clone()));
        for (span, reads) in variables.iter().cloned().chain(key) {
            for column in reads.row.iter().filter(|name| !columns.contains(name)) {
                self.section.report(
                    &span,
                    format!("{file} has no column \"{column}\""),
                    nearest::remedy(column, columns.iter().map(String::as_str)),
                );
            }
        }
    }

    /// Notes items whose arguments the tool's input schema does not accept, as far as they can be
    /// known before anything has run.
    fn accepted(
        &self,
        tool: &JobTool,
        rows: Option<&[Row]>,
        around: &Surroundings<'_>,
        problems: &mut Vec<Problem>,
    ) {
        let cells = self.step.for_each.as_ref().is_some_and(Source::cells);
        let arguments = Arguments::compile(&self.step.args, &tool.input, cells);
        let (Ok(arguments), Ok(validator)) = (arguments, schema::compile(&tool.input)) else {
            // Both were checked, and a mistake in them was reported, where they were read.
            return;
        };
        let reads = arguments.variables();
        let unset = |name: &String| !around.env.contains_key(name);
        if !reads.steps.is_empty() || reads.env.iter().any(unset) {
            return;
        }
        let check = |row: Option<&Value>| {
            let value = arguments
                .render(&around.shared.context(row, []))
                .map_err(|error| error.to_string())?;
            validator.validate(&value).map_err(|error| misfit(&error))
        };
        let Some(source) = &self.step.for_each else {
            if let Err(why) = check(None) {
                let remedy = "correct the arguments, or the tool's input schema";
                self.section.report(&self.places.args, why, remedy);
            }
            return;
        };
        let file = around.shown.join(&source.path);
        let mut faults = Faults::new(&file);
        for row in rows.unwrap_or_default() {
            if let Err(why) = check(Some(&row.value)) {
                let remedy = format!("correct the row, or args of step \"{}\"", self.step.name);
                faults.report(row.line, why, remedy);
            }
        }
        problems.extend(faults.into_problems());
    }
}

/// An argument that a schema does not accept, in words.
fn misfit(error: &jsonschema::ValidationError<'_>) -> String {
    let argument = error.instance_path().to_string();
    match argument.trim_start_matches('/').replace('/', ".") {
        argument if argument.is_empty() => format!("the arguments do not fit: {error}"),
        argument => format!("argument \"{argument}\": {error}"),
    }
}

/// Every text with its path.
fn collect<'v>(value: &'v Value, path: &mut Vec<String>, texts: &mut Vec<(String, &'v str)>) {
    match value {
        Value::String(text) => texts.push((path.join("."), text)),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                path.push(index.to_string());
                collect(item, path, texts);
                path.pop();
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                path.push(name.clone());
                collect(member, path, texts);
                path.pop();
            }
        }
        _ => {}
    }
}
