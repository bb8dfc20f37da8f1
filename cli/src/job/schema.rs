//! Input and output schemas: the short form, JSON Schema files, and what a schema says of the type
//! of one argument.

use std::path::Path;

use intendant_journal::format::canonical;
use serde_json::{Map, Value, json};
use toml::de::DeValue;

use super::document::{Section, Span};
use super::nearest;

/// Types of the short form. `any` leaves the type open.
const TYPES: [&str; 7] = [
    "string", "integer", "number", "boolean", "object", "array", "any",
];

/// Reads the schema in field `name`: a table in the short form or the path of a JSON Schema file.
/// Mistakes are reported to the section.
pub(super) fn read(section: &Section<'_>, name: &str, folder: &Path) -> Option<Value> {
    let found = section.get(name)?;
    match found.value {
        DeValue::Table(_) => short_form(&section.section(name)?),
        DeValue::String(path) => from_file(section, name, &folder.join(path.as_ref()), &found.span),
        other => {
            section.wrong_type(
                &found.span,
                name,
                "a table such as { id = \"string\" } or the path of a JSON Schema file",
                other,
            );
            None
        }
    }
}

/// `{ id = "string", note = "string?" }` as a closed JSON Schema.
fn short_form(section: &Section<'_>) -> Option<Value> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    let mut sound = true;
    for (field, _, _) in section.fields() {
        let Some(word) = section.string(field) else {
            sound = false;
            continue;
        };
        let (base, optional) = match word.value.strip_suffix('?') {
            Some(base) => (base, true),
            None => (word.value, false),
        };
        if !TYPES.contains(&base) {
            section.report(
                &word.span,
                format!("\"{field}\" has the unknown type \"{}\"", word.value),
                format!(
                    "{} (\"?\" at the end makes it optional; for more, name a JSON Schema file)",
                    nearest::remedy(base, TYPES)
                ),
            );
            sound = false;
            continue;
        }
        let property = match base {
            "any" => json!({}),
            base => json!({ "type": base }),
        };
        properties.insert(field.to_owned(), property);
        if !optional {
            required.push(field);
        }
    }
    // The order of the fields in the job file means nothing.
    required.sort_unstable();
    sound.then(|| {
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    })
}

fn from_file(section: &Section<'_>, name: &str, path: &Path, span: &Span) -> Option<Value> {
    let shown = path.display();
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(error) => {
            section.report(
                span,
                format!("\"{name}\": the schema file {shown} cannot be read: {error}"),
                "name a JSON Schema file that exists, relative to the job file's folder",
            );
            return None;
        }
    };
    let schema = match canonical::parse(&text) {
        Ok(schema) => schema,
        Err(error) => {
            section.report(
                span,
                format!("\"{name}\": the schema file {shown} is not sound JSON: {error}"),
                "correct the file",
            );
            return None;
        }
    };
    if let Err(why) = compile(&schema) {
        section.report(
            span,
            format!("\"{name}\": {shown} is not a JSON Schema: {why}"),
            "correct the file",
        );
        return None;
    }
    if name == "input" && schema.get("type") != Some(&json!("object")) {
        section.report(
            span,
            format!("\"{name}\": the schema {shown} does not say that arguments are an object"),
            "add \"type\": \"object\" at its top",
        );
        return None;
    }
    if may_be_object(&schema) && !closed(&schema) {
        section.report(
            span,
            format!("\"{name}\": the schema {shown} is open: it accepts fields it does not name"),
            "add \"additionalProperties\": false at its top",
        );
        return None;
    }
    Some(schema)
}

fn may_be_object(schema: &Value) -> bool {
    match schema.get("type") {
        None => true,
        Some(Value::String(kind)) => kind == "object",
        Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "object"),
        Some(_) => true,
    }
}

fn closed(schema: &Value) -> bool {
    ["additionalProperties", "unevaluatedProperties"]
        .iter()
        .any(|word| schema.get(word) == Some(&Value::Bool(false)))
}

/// A checker for values of this schema.
///
/// # Errors
/// What makes it no valid JSON Schema. References to other files or hosts are refused.
pub fn compile(schema: &Value) -> Result<jsonschema::Validator, String> {
    jsonschema::meta::validate(schema).map_err(|error| error.to_string())?;
    jsonschema::validator_for(schema).map_err(|error| error.to_string())
}

/// What an argument's schema makes of the text in a CSV cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CellType {
    /// Types to try, in this order; empty if the schema leaves the type open.
    kinds: Vec<String>,
    /// An empty cell means that the argument is absent.
    pub(super) optional: bool,
}

impl CellType {
    /// For the argument at `path`, where the schema says something of it.
    #[must_use]
    pub fn at(schema: &Value, path: &[String]) -> Self {
        let mut here = resolve(schema, schema);
        let mut optional = false;
        for name in path {
            let required = here.get("required").and_then(Value::as_array);
            let member = here.get("properties").and_then(|all| all.get(name));
            optional = member.is_some()
                && !required.is_some_and(|all| all.iter().any(|field| field == name));
            here = match member {
                Some(member) => resolve(schema, member),
                None => &Value::Null,
            };
        }
        let kinds = match here.get("type") {
            Some(Value::String(kind)) => vec![kind.clone()],
            Some(Value::Array(kinds)) => {
                // Text fits `string` always, so the narrower types come first.
                let mut kinds: Vec<String> = kinds
                    .iter()
                    .filter_map(|kind| kind.as_str().map(str::to_owned))
                    .collect();
                kinds.sort_by_key(|kind| kind == "string");
                kinds
            }
            _ => Vec::new(),
        };
        Self { kinds, optional }
    }

    /// Reads a cell. An empty cell of an optional argument means that it is absent.
    ///
    /// # Errors
    /// Which type was expected.
    pub fn read(&self, cell: &str) -> Result<Option<Value>, String> {
        if cell.is_empty() && self.optional {
            return Ok(None);
        }
        if self.kinds.is_empty() {
            return Ok(Some(Value::from(cell)));
        }
        let found = self.kinds.iter().find_map(|kind| cell_as(kind, cell));
        found.map(Some).ok_or_else(|| self.kinds.join(" or "))
    }
}

fn cell_as(kind: &str, cell: &str) -> Option<Value> {
    match kind {
        "string" => Some(Value::from(cell)),
        "null" => cell.is_empty().then_some(Value::Null),
        "boolean" => cell.parse::<bool>().ok().map(Value::from),
        "integer" => {
            // A plus sign or leading zeros would be lost: such a text is a name, not a number.
            let signed = cell.parse::<i64>().ok();
            let signed = signed.filter(|number| number.to_string() == cell);
            let unsigned = cell.parse::<u64>().ok();
            let unsigned = unsigned.filter(|number| number.to_string() == cell);
            signed
                .map(Value::from)
                .or_else(|| unsigned.map(Value::from))
        }
        _ => {
            let value = canonical::parse(cell.as_bytes()).ok()?;
            let fits = match kind {
                "number" => value.is_number(),
                "object" => value.is_object(),
                "array" => value.is_array(),
                _ => false,
            };
            fits.then_some(value)
        }
    }
}

/// Follows a reference inside the schema. A few steps are enough for any schema that is not a loop.
fn resolve<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let mut here = schema;
    for _ in 0..16 {
        let Some(pointer) = here.get("$ref").and_then(Value::as_str) else {
            return here;
        };
        let target = pointer.strip_prefix('#').and_then(|at| root.pointer(at));
        let Some(target) = target else {
            return here;
        };
        here = target;
    }
    here
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(kind: Value, text: &str) -> Result<Option<Value>, String> {
        let schema = json!({
            "type": "object",
            "properties": { "a": kind },
            "required": ["a"],
            "additionalProperties": false,
        });
        CellType::at(&schema, &["a".to_owned()]).read(text)
    }

    #[test]
    fn cells_are_read_by_the_type_of_their_argument() {
        for (kind, text, expected) in [
            ("integer", "12", json!(12)),
            ("integer", "-3", json!(-3)),
            ("integer", "18446744073709551615", json!(u64::MAX)),
            ("string", "12", json!("12")),
            ("string", "007", json!("007")),
            ("string", "", json!("")),
            ("number", "1.5", json!(1.5)),
            ("boolean", "true", json!(true)),
            ("array", "[1,2]", json!([1, 2])),
            ("object", "{\"x\":1}", json!({"x": 1})),
        ] {
            assert_eq!(cell(json!({"type": kind}), text), Ok(Some(expected)));
        }
        assert_eq!(cell(json!({}), "12"), Ok(Some(json!("12"))));
        assert_eq!(
            cell(json!({"type": ["string", "integer"]}), "12"),
            Ok(Some(json!(12)))
        );
        assert_eq!(
            cell(json!({"type": ["integer", "null"]}), ""),
            Ok(Some(Value::Null))
        );
    }

    #[test]
    fn bad_cells_name_the_expected_type() {
        for (kind, text) in [
            ("integer", "12.5"),
            ("integer", "007"),
            ("integer", "+1"),
            ("integer", ""),
            ("integer", " 1"),
            ("number", "one"),
            ("number", "NaN"),
            ("boolean", "yes"),
            ("array", "1,2"),
        ] {
            assert_eq!(
                cell(json!({"type": kind}), text),
                Err(kind.to_owned()),
                "{text}"
            );
        }
        let either = json!({"type": ["integer", "boolean"]});
        assert_eq!(cell(either, "x"), Err("integer or boolean".to_owned()));
    }

    #[test]
    fn types_are_found_in_nested_arguments_and_behind_references() {
        let schema = json!({
            "type": "object",
            "properties": {
                "to": {
                    "type": "object",
                    "properties": { "n": { "$ref": "#/$defs/count" }, "m": { "type": "integer" } },
                    "required": ["n"],
                },
            },
            "$defs": { "count": { "type": "integer" } },
        });
        let at = |name: &str| CellType::at(&schema, &["to".to_owned(), name.to_owned()]);
        assert_eq!(at("n").read("3"), Ok(Some(json!(3))));
        assert!(at("n").read("").is_err());
        assert_eq!(at("m").read(""), Ok(None));
        assert_eq!(at("unknown").read("3"), Ok(Some(json!("3"))));
    }
}
