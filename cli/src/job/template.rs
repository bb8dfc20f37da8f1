//! Templates in arguments and keys.
//!
//! Invariants:
//! - Strict: an undefined variable is an error, never an empty text.
//! - Pure: the result depends on the context alone. Nothing reads a clock, a file, the process's
//!   environment or a random number.
//! - JSON in, JSON out. An argument that is exactly one `{{ expression }}` keeps the type of its
//!   value; every other template gives text.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use minijinja::{AutoEscape, Environment, ErrorKind, Expression, UndefinedBehavior};
use serde_json::Value;

use self::json::{from_json, to_json};

mod json;

/// One environment for all templates: no template is registered in it and nothing changes it, so
/// that compiled expressions can live as long as the process.
static ENVIRONMENT: LazyLock<Environment<'static>> =
    LazyLock::new(|| environment(UndefinedBehavior::Strict));

/// The same without the strictness, to find unknown filters, tests and functions, which only
/// evaluation finds.
static PROBE: LazyLock<Environment<'static>> =
    LazyLock::new(|| environment(UndefinedBehavior::Chainable));

fn environment(undefined: UndefinedBehavior) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(undefined);
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_formatter(|out, _, value| {
        let written = match value.as_str() {
            Some(text) => out.write_str(text),
            None => out.write_str(&to_json(value).map_err(invalid)?.to_string()),
        };
        written.map_err(|_| invalid("the text cannot be written".to_owned()))
    });
    // It would show what only people debugging the engine of the templates can use.
    environment.remove_global("debug");
    environment
}

/// What is unknown in a template for every context.
fn unknown(source: &str) -> Result<(), TemplateError> {
    match PROBE.render_str(source, minijinja::Value::from_pairs([("", "")])) {
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::UnknownFilter
                    | ErrorKind::UnknownTest
                    | ErrorKind::UnknownFunction
                    | ErrorKind::TemplateNotFound
            ) =>
        {
            Err(error.into())
        }
        _ => Ok(()),
    }
}

fn invalid(why: String) -> minijinja::Error {
    minijinja::Error::new(ErrorKind::InvalidOperation, why)
}

/// Why a template cannot be read or rendered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct TemplateError(pub String);

impl From<minijinja::Error> for TemplateError {
    fn from(error: minijinja::Error) -> Self {
        match error.detail() {
            Some(detail) => Self(format!("{}: {detail}", error.kind())),
            None => Self(error.kind().to_string()),
        }
    }
}

/// A compiled template.
#[derive(Clone)]
pub struct Template {
    source: String,
    form: Form,
    variables: Variables,
}

#[derive(Clone)]
enum Form {
    /// No template at all.
    Plain,
    /// Exactly one expression.
    Alone(Arc<Expression<'static, 'static>>),
    /// Text with expressions in it.
    Text,
}

impl std::fmt::Debug for Template {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Template").field(&self.source).finish()
    }
}

/// What a template reads.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Variables {
    /// Fields of the row.
    pub row: BTreeSet<String>,
    /// It reads the row as a whole, or fields that cannot be told from the text.
    pub whole_row: bool,
    /// Steps whose output it reads.
    pub steps: BTreeSet<String>,
    /// Environment names.
    pub env: BTreeSet<String>,
    /// It reads the run's id.
    pub run: bool,
    /// Names that no template can read, such as `rwo` or `run.name`.
    pub unknown: BTreeSet<String>,
}

impl Variables {
    /// True if the row is read at all.
    #[must_use]
    pub fn reads_row(&self) -> bool {
        self.whole_row || !self.row.is_empty()
    }

    /// Adds what another template reads.
    pub fn extend(&mut self, other: &Self) {
        self.row.extend(other.row.iter().cloned());
        self.whole_row |= other.whole_row;
        self.steps.extend(other.steps.iter().cloned());
        self.env.extend(other.env.iter().cloned());
        self.run |= other.run;
        self.unknown.extend(other.unknown.iter().cloned());
    }
}

impl Template {
    /// Compiles a template.
    ///
    /// # Errors
    /// What is wrong with its syntax, or the filter, test or function that does not exist.
    pub fn compile(source: &str) -> Result<Self, TemplateError> {
        let (form, undeclared) = if !["{{", "{%", "{#"].iter().any(|mark| source.contains(mark)) {
            (Form::Plain, Vec::new())
        } else if let Some(expression) = alone(source) {
            let names = expression.undeclared_variables(true);
            (
                Form::Alone(Arc::new(expression)),
                names.into_iter().collect(),
            )
        } else {
            let template = ENVIRONMENT.template_from_named_str("template", source)?;
            let names = template.undeclared_variables(true).into_iter().collect();
            (Form::Text, names)
        };
        if !matches!(form, Form::Plain) {
            unknown(source)?;
        }
        Ok(Self {
            source: source.to_owned(),
            form,
            variables: sort(source, undeclared),
        })
    }

    /// What it reads.
    #[must_use]
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// The field of the row that it is, if it is that field alone.
    #[must_use]
    pub fn field_alone(&self) -> Option<&str> {
        let Form::Alone(_) = self.form else {
            return None;
        };
        let inner = inner(&self.source)?.trim();
        let field = match inner.strip_prefix("row.") {
            Some(name) => name,
            None => quoted(inner.strip_prefix("row[")?.strip_suffix(']')?)?,
        };
        (self.variables.row.len() == 1 && self.variables.row.contains(field)).then_some(field)
    }

    /// Renders it.
    ///
    /// # Errors
    /// An undefined variable, a failed operation, or a value that is no JSON.
    pub fn render(&self, context: &Context) -> Result<Value, TemplateError> {
        match &self.form {
            Form::Plain => Ok(Value::from(self.source.as_str())),
            Form::Alone(expression) => {
                let value = expression.eval(context.root.clone())?;
                if value.is_undefined() {
                    let name = inner(&self.source).unwrap_or(&self.source).trim();
                    return Err(TemplateError(format!("{name} is undefined")));
                }
                to_json(&value).map_err(TemplateError)
            }
            Form::Text => Ok(Value::from(
                ENVIRONMENT.render_str(&self.source, context.root.clone())?,
            )),
        }
    }
}

/// What lies between the braces of a text that begins and ends with them, marks that trim white
/// space removed.
fn inner(source: &str) -> Option<&str> {
    let inner = source.strip_prefix("{{")?.strip_suffix("}}")?;
    let inner = inner.strip_prefix(['-', '+']).unwrap_or(inner);
    Some(inner.strip_suffix(['-', '+']).unwrap_or(inner))
}

/// The expression of a template that is exactly one. In `{{ a }}-{{ b }}` the text between the
/// outer braces is no expression.
fn alone(source: &str) -> Option<Expression<'static, 'static>> {
    let environment: &'static Environment<'static> = &ENVIRONMENT;
    environment
        .compile_expression_owned(inner(source)?.to_owned())
        .ok()
}

/// Sorts names such as `row.id` and `steps.pay.output` by what they read.
fn sort(source: &str, undeclared: Vec<String>) -> Variables {
    let mut variables = Variables::default();
    for name in undeclared {
        let mut parts = name.split('.');
        let (first, second, third) = (parts.next(), parts.next(), parts.next());
        match (first, second, third) {
            (Some("row"), Some(field), _) => {
                variables.row.insert(field.to_owned());
            }
            (Some("row"), None, _) => match subscripts(source, "row") {
                Some(fields) => variables.row.extend(fields),
                None => variables.whole_row = true,
            },
            (Some("steps"), Some(step), Some("output")) => {
                variables.steps.insert(step.to_owned());
            }
            (Some("steps"), None, _) => match subscripts(source, "steps") {
                Some(steps) => variables.steps.extend(steps),
                None => {
                    variables.unknown.insert(name);
                }
            },
            (Some("env"), Some(variable), None) => {
                variables.env.insert(variable.to_owned());
            }
            (Some("env"), None, _) => match subscripts(source, "env") {
                Some(names) => variables.env.extend(names),
                None => {
                    variables.unknown.insert(name);
                }
            },
            (Some("run"), Some("id"), None) => variables.run = true,
            (Some(function), None, _)
                if ENVIRONMENT.globals().any(|(known, _)| known == function) => {}
            _ => {
                variables.unknown.insert(name);
            }
        }
    }
    variables
}

/// The names in `row["a name"]` and the like; `None` if the variable is used in any other way than
/// with a name in quotes or behind a point.
fn subscripts(source: &str, variable: &str) -> Option<Vec<String>> {
    let in_name = |c: char| c.is_alphanumeric() || c == '_';
    let mut names = Vec::new();
    for (at, _) in source.match_indices(variable) {
        let before = source[..at].chars().next_back();
        let rest = &source[at + variable.len()..];
        if before.is_some_and(|c| in_name(c) || c == '.') || rest.starts_with(in_name) {
            continue;
        }
        if rest.starts_with('.') {
            continue;
        }
        let inside = rest.strip_prefix('[')?;
        let name = quoted(inside[..inside.find(']')?].trim())?;
        names.push(name.to_owned());
    }
    Some(names)
}

fn quoted(text: &str) -> Option<&str> {
    let mark = text.chars().next().filter(|c| ['"', '\''].contains(c))?;
    let text = text.strip_prefix(mark)?.strip_suffix(mark)?;
    (!text.contains([mark, '\\'])).then_some(text)
}

/// What a template may read. Cheap to copy.
#[derive(Clone)]
pub struct Context {
    root: minijinja::Value,
}

/// What all items of a step have in common.
#[derive(Clone, Debug, Default)]
pub struct Shared {
    members: BTreeMap<String, minijinja::Value>,
}

impl Shared {
    /// The run's id and the values of the allowed environment names.
    #[must_use]
    pub fn new(run: &str, env: &BTreeMap<String, String>) -> Self {
        let mut members = BTreeMap::new();
        let id = [("id", minijinja::Value::from(run))];
        members.insert("run".to_owned(), minijinja::Value::from_pairs(id));
        members.insert("env".to_owned(), minijinja::Value::from_pairs(env.clone()));
        Self { members }
    }

    /// The context of one item: its row, if it has one, and the outputs it may read by step.
    #[must_use]
    pub fn context(
        &self,
        row: Option<&Value>,
        outputs: impl IntoIterator<Item = (String, Output)>,
    ) -> Context {
        let mut members = self.members.clone();
        if let Some(row) = row {
            members.insert("row".to_owned(), from_json(row));
        }
        let steps = outputs.into_iter().map(|(step, output)| {
            let members = [("output", output.0)];
            (step, minijinja::Value::from_pairs(members))
        });
        members.insert("steps".to_owned(), minijinja::Value::from_pairs(steps));
        Context {
            root: minijinja::Value::from_pairs(members),
        }
    }
}

/// An output in the form that templates read; cheap to copy.
#[derive(Clone)]
pub struct Output(minijinja::Value);

impl Output {
    /// An array of outputs.
    pub fn list(items: impl IntoIterator<Item = Self>) -> Self {
        let items: Vec<minijinja::Value> = items.into_iter().map(|item| item.0).collect();
        Self(minijinja::Value::from(items))
    }
}

impl From<&Value> for Output {
    fn from(value: &Value) -> Self {
        Self(from_json(value))
    }
}

#[cfg(test)]
mod tests;
