//! The arguments of a step: a tree of templates, compiled once and rendered for each item.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::schema::CellType;
use super::template::{Context, Template, TemplateError, Variables};

/// Compiled arguments.
#[derive(Clone, Debug)]
pub struct Arguments {
    root: Node,
    variables: Variables,
}

#[derive(Clone, Debug)]
enum Node {
    Literal(Value),
    Template {
        template: Template,
        /// Set where a CSV cell alone feeds the argument.
        cell: Option<CellType>,
    },
    List(Vec<Node>),
    Table(BTreeMap<String, Node>),
}

/// Why the arguments of an item cannot be made.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("argument \"{argument}\": {why}")]
pub struct ArgumentError {
    /// The argument, such as `to.account`.
    pub argument: String,
    /// Why.
    pub why: String,
}

impl Arguments {
    /// Compiles the arguments as the job file writes them. `input` is the tool's input schema;
    /// `cells` says that rows come from a CSV file, whose cells are read by that schema.
    ///
    /// # Errors
    /// The argument whose template cannot be read.
    pub fn compile(args: &Value, input: &Value, cells: bool) -> Result<Self, ArgumentError> {
        let mut variables = Variables::default();
        let mut path = Vec::new();
        let root = compile(args, input, cells, &mut path, &mut variables)?;
        Ok(Self { root, variables })
    }

    /// What they read.
    #[must_use]
    pub fn variables(&self) -> &Variables {
        &self.variables
    }

    /// Renders them for one item.
    ///
    /// # Errors
    /// The argument that cannot be made, and why.
    pub fn render(&self, context: &Context) -> Result<Value, ArgumentError> {
        let rendered = render(&self.root, context, &mut Vec::new())?;
        Ok(rendered.unwrap_or(Value::Null))
    }
}

fn error(path: &[String], why: impl ToString) -> ArgumentError {
    ArgumentError {
        argument: path.join("."),
        why: why.to_string(),
    }
}

fn compile(
    args: &Value,
    input: &Value,
    cells: bool,
    path: &mut Vec<String>,
    variables: &mut Variables,
) -> Result<Node, ArgumentError> {
    match args {
        Value::String(source) => {
            let template = Template::compile(source)
                .map_err(|TemplateError(why)| error(path, format!("bad template: {why}")))?;
            variables.extend(template.variables());
            let cell =
                (cells && template.field_alone().is_some()).then(|| CellType::at(input, path));
            Ok(Node::Template { template, cell })
        }
        Value::Array(items) => {
            let mut nodes = Vec::new();
            for (index, item) in items.iter().enumerate() {
                path.push(index.to_string());
                nodes.push(compile(item, input, cells, path, variables)?);
                path.pop();
            }
            Ok(Node::List(nodes))
        }
        Value::Object(members) => {
            let mut nodes = BTreeMap::new();
            for (name, member) in members {
                path.push(name.clone());
                let node = compile(member, input, cells, path, variables)?;
                nodes.insert(name.clone(), node);
                path.pop();
            }
            Ok(Node::Table(nodes))
        }
        other => Ok(Node::Literal(other.clone())),
    }
}

/// `None` for an optional argument whose cell is empty: it is left out.
fn render(
    node: &Node,
    context: &Context,
    path: &mut Vec<String>,
) -> Result<Option<Value>, ArgumentError> {
    match node {
        Node::Literal(value) => Ok(Some(value.clone())),
        Node::Template { template, cell } => {
            let value = template.render(context).map_err(|why| error(path, why))?;
            let (Some(cell), Value::String(text)) = (cell, &value) else {
                return Ok(Some(value));
            };
            cell.read(text).map_err(|expected| {
                let column = template.field_alone().unwrap_or_default();
                error(
                    path,
                    format!("column \"{column}\" holds \"{text}\", which is no {expected}"),
                )
            })
        }
        Node::List(nodes) => {
            let mut items = Vec::new();
            for (index, node) in nodes.iter().enumerate() {
                path.push(index.to_string());
                // In a list a place cannot be left out.
                items.push(render(node, context, path)?.unwrap_or(Value::Null));
                path.pop();
            }
            Ok(Some(Value::Array(items)))
        }
        Node::Table(nodes) => {
            let mut members = Map::new();
            for (name, node) in nodes {
                path.push(name.clone());
                if let Some(member) = render(node, context, path)? {
                    members.insert(name.clone(), member);
                }
                path.pop();
            }
            Ok(Some(Value::Object(members)))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::job::template::Shared;

    fn render(args: Value, row: Value, cells: bool) -> Result<Value, String> {
        let input = json!({
            "type": "object",
            "properties": {
                "id": { "type": "string" },
                "cents": { "type": "integer" },
                "note": { "type": "string" },
                "deep": { "type": "object", "properties": { "n": { "type": "number" } } },
            },
            "required": ["id", "cents"],
            "additionalProperties": false,
        });
        let arguments = Arguments::compile(&args, &input, cells).map_err(|e| e.to_string())?;
        let context = Shared::new("r", &BTreeMap::new()).context(Some(&row), []);
        arguments.render(&context).map_err(|e| e.to_string())
    }

    #[test]
    fn cells_alone_are_read_by_the_schema_and_literals_keep_their_type() {
        let args = json!({
            "id": "{{ row.id }}",
            "cents": "{{ row.cents }}",
            "note": "{{ row.id }}/{{ row.cents }}",
            "deep": { "n": "{{ row.cents }}", "list": [1, true, "{{ row.id }}"] },
        });
        let row = json!({ "id": "007", "cents": "12" });
        assert_eq!(
            render(args, row, true),
            Ok(json!({
                "id": "007", "cents": 12, "note": "007/12",
                "deep": { "n": 12, "list": [1, true, "007"] },
            }))
        );
    }

    #[test]
    fn json_rows_keep_their_own_types() {
        let args = json!({ "cents": "{{ row.cents }}" });
        let row = json!({ "cents": "12" });
        assert_eq!(render(args, row, false), Ok(json!({ "cents": "12" })));
    }

    #[test]
    fn an_empty_cell_leaves_an_optional_argument_out() {
        let args = json!({ "id": "{{ row.id }}", "note": "{{ row.note }}" });
        let row = json!({ "id": "", "note": "" });
        assert_eq!(render(args, row, true), Ok(json!({ "id": "" })));
    }

    #[test]
    fn errors_name_the_argument() {
        for (args, expected) in [
            (
                json!({ "cents": "{{ row.cents }}" }),
                "argument \"cents\": column \"cents\" holds \"1x\", which is no integer",
            ),
            (
                json!({ "deep": { "n": "{{ row.gone }}" } }),
                "argument \"deep.n\": row.gone is undefined",
            ),
        ] {
            let row = json!({ "cents": "1x" });
            assert_eq!(render(args, row, true), Err(expected.to_owned()));
        }
        let error = render(json!({ "id": "{{ row" }), json!({}), true).unwrap_err();
        assert!(
            error.starts_with("argument \"id\": bad template: "),
            "{error}"
        );
    }
}
