//! JSON values as templates see them, and back.

use minijinja::value::ValueKind;
use serde_json::{Map, Number, Value};

pub(super) fn from_json(value: &Value) -> minijinja::Value {
    match value {
        Value::Null => minijinja::Value::from(()),
        Value::Bool(value) => minijinja::Value::from(*value),
        Value::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(number), _, _) => minijinja::Value::from(number),
            (None, Some(number), _) => minijinja::Value::from(number),
            (None, None, number) => minijinja::Value::from(number.unwrap_or(f64::NAN)),
        },
        Value::String(text) => minijinja::Value::from(text.as_str()),
        Value::Array(items) => {
            minijinja::Value::from(items.iter().map(from_json).collect::<Vec<_>>())
        }
        Value::Object(members) => minijinja::Value::from_pairs(
            members
                .iter()
                .map(|(name, value)| (name.clone(), from_json(value))),
        ),
    }
}

pub(super) fn to_json(value: &minijinja::Value) -> Result<Value, String> {
    match value.kind() {
        ValueKind::None => Ok(Value::Null),
        ValueKind::Bool => Ok(Value::Bool(value.is_true())),
        ValueKind::String => Ok(Value::from(value.as_str().unwrap_or_default())),
        ValueKind::Number if value.is_integer() => value
            .as_i64()
            .map(Value::from)
            .or_else(|| u64::try_from(value.clone()).ok().map(Value::from))
            .ok_or_else(|| format!("{value} does not fit 64 bits")),
        ValueKind::Number => f64::try_from(value.clone())
            .ok()
            .and_then(Number::from_f64)
            .map(Value::Number)
            .ok_or_else(|| format!("{value} is no JSON number")),
        ValueKind::Seq | ValueKind::Iterable => value
            .try_iter()
            .map_err(|error| error.to_string())?
            .map(|item| to_json(&item))
            .collect(),
        ValueKind::Map => {
            let mut members = Map::new();
            for name in value.try_iter().map_err(|error| error.to_string())? {
                let text = name
                    .as_str()
                    .ok_or_else(|| format!("the key {name} of an object is no text"))?;
                let member = value.get_item(&name).map_err(|error| error.to_string())?;
                members.insert(text.to_owned(), to_json(&member)?);
            }
            Ok(Value::Object(members))
        }
        ValueKind::Undefined => Err("undefined value".to_owned()),
        kind => Err(format!("a value of kind {kind} is no JSON")),
    }
}
