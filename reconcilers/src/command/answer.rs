//! What a reconciler may print: exactly one JSON object with exactly one of five members.
//!
//! | printed | read as |
//! |---|---|
//! | `{"executed":{"evidence":…,"output":…}}` | executed; `evidence` is anything but null, `output` may be left out (null) |
//! | `{"never_will":{}}`, `{"never_will":true}` | never will |
//! | `{"never_will":{"burned":true,"evidence":…}}` | never will; both members may be left out; `burned` means that no later attempt can run under this key either |
//! | `{"running":{"retry_after":"2s"}}` | running; a whole number and one of `ms`, `s`, `m`, `h` |
//! | `{"not_seen":{"as_of":…}}` | not seen; `as_of` is a text or a number, in the target's words |
//! | `{"unknown":{"why":"…"}}`, `{"unknown":…}` | unknown, with what it says |
//! | anything else | unknown, with what was wrong |
//!
//! A member that the table does not name makes the answer *unknown*: whoever wrote it meant
//! something that would be lost. The JSON is read strictly (no member twice). Nothing is guessed
//! towards `never_will`, the one answer that can lead to another attempt: `null`, `false` and a
//! text there are *unknown*.

use std::time::Duration;

use intendant::tool::reconciler::JsonAnswer;
use intendant_journal::format::canonical;
use serde_json::{Map, Value};

/// Reads what a reconciler printed.
pub(crate) fn read(printed: &[u8]) -> JsonAnswer {
    parse(printed)
        .unwrap_or_else(|why| JsonAnswer::Unknown(format!("the reconciler's answer: {why}")))
}

fn parse(printed: &[u8]) -> Result<JsonAnswer, String> {
    if printed.iter().all(u8::is_ascii_whitespace) {
        return Err("it printed nothing; print one JSON object".into());
    }
    let value = canonical::parse(printed).map_err(|error| format!("is not JSON: {error}"))?;
    let Value::Object(members) = value else {
        return Err(format!("is {}, not an object", kind(&value)));
    };
    let mut members = members.into_iter();
    let (Some((name, body)), None) = (members.next(), members.next()) else {
        return Err(
            "must have exactly one of executed, never_will, running, not_seen, unknown".into(),
        );
    };
    match name.as_str() {
        "executed" => executed(Body::of("executed", body)?),
        "never_will" => match body {
            Value::Bool(true) => Ok(JsonAnswer::NeverWill {
                burned: false,
                evidence: None,
            }),
            body => never_will(Body::of("never_will", body)?),
        },
        "running" => running(Body::of("running", body)?),
        "not_seen" => not_seen(Body::of("not_seen", body)?),
        "unknown" => Ok(JsonAnswer::Unknown(why(&body))),
        other => Err(format!(
            "{other:?} is not one of executed, never_will, running, not_seen, unknown"
        )),
    }
}

fn executed(mut body: Body) -> Result<JsonAnswer, String> {
    let evidence = body
        .take("evidence")
        .filter(|evidence| !evidence.is_null())
        .ok_or("executed needs `evidence`: an id or a hash by which the target knows the effect")?;
    let output = body.take("output").unwrap_or(Value::Null);
    body.end()?;
    Ok(JsonAnswer::Executed { output, evidence })
}

fn never_will(mut body: Body) -> Result<JsonAnswer, String> {
    let burned = match body.take("burned") {
        None => false,
        Some(Value::Bool(burned)) => burned,
        Some(other) => return Err(format!("never_will.burned is {}, not a bool", kind(&other))),
    };
    let evidence = body.take("evidence").filter(|evidence| !evidence.is_null());
    body.end()?;
    Ok(JsonAnswer::NeverWill { burned, evidence })
}

fn running(mut body: Body) -> Result<JsonAnswer, String> {
    let retry_after = match body.take("retry_after") {
        Some(Value::String(text)) => duration(&text).ok_or_else(|| {
            format!("running.retry_after {text:?} is no duration; write it like \"2s\"")
        })?,
        _ => return Err("running needs `retry_after`, a text like \"2s\"".into()),
    };
    body.end()?;
    Ok(JsonAnswer::Running { retry_after })
}

fn not_seen(mut body: Body) -> Result<JsonAnswer, String> {
    let as_of = match body.take("as_of") {
        Some(Value::String(text)) if !text.trim().is_empty() => text,
        Some(Value::Number(number)) => number.to_string(),
        _ => return Err("not_seen needs `as_of`: as of which moment the target was read".into()),
    };
    body.end()?;
    Ok(JsonAnswer::NotSeen { as_of })
}

/// What an honest "unknown" says. Every form of it is accepted: it asks for nothing.
fn why(body: &Value) -> String {
    match body {
        Value::String(text) => text.clone(),
        Value::Object(members) => match members.get("why") {
            Some(Value::String(text)) if members.len() == 1 => text.clone(),
            _ if members.is_empty() => "the reconciler does not know".into(),
            _ => body.to_string(),
        },
        Value::Null | Value::Bool(true) => "the reconciler does not know".into(),
        other => other.to_string(),
    }
}

/// The object under one of the five names, taken apart member by member.
struct Body {
    answer: &'static str,
    members: Map<String, Value>,
}

impl Body {
    fn of(answer: &'static str, value: Value) -> Result<Self, String> {
        match value {
            Value::Object(members) => Ok(Self { answer, members }),
            other => Err(format!("{answer} is {}, not an object", kind(&other))),
        }
    }

    fn take(&mut self, name: &str) -> Option<Value> {
        self.members.remove(name)
    }

    fn end(self) -> Result<(), String> {
        match self.members.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!("{} has no member {name:?}", self.answer)),
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a bool",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn duration(text: &str) -> Option<Duration> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit())?;
    let (count, unit) = text.split_at(unit_at);
    let count: u64 = count.parse().ok()?;
    let milliseconds = match unit.trim() {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    count.checked_mul(milliseconds).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn never_will(burned: bool, evidence: Option<Value>) -> JsonAnswer {
        JsonAnswer::NeverWill { burned, evidence }
    }

    #[test]
    fn each_form_of_the_table_is_read() {
        let cases = [
            (
                r#"{"executed":{"output":{"id":"p-1"},"evidence":{"slot":1}}}"#,
                JsonAnswer::Executed {
                    output: json!({"id": "p-1"}),
                    evidence: json!({"slot": 1}),
                },
            ),
            (
                " {\"executed\" : {\"evidence\": \"e\"}}\n\n",
                JsonAnswer::Executed {
                    output: Value::Null,
                    evidence: json!("e"),
                },
            ),
            (r#"{"never_will":{}}"#, never_will(false, None)),
            (r#"{"never_will":true}"#, never_will(false, None)),
            (r#"{"never_will":{"burned":true}}"#, never_will(true, None)),
            (
                r#"{"never_will":{"burned":false,"evidence":"void"}}"#,
                never_will(false, Some(json!("void"))),
            ),
            (
                r#"{"running":{"retry_after":"2s"}}"#,
                JsonAnswer::Running {
                    retry_after: Duration::from_secs(2),
                },
            ),
            (
                r#"{"running":{"retry_after":"150ms"}}"#,
                JsonAnswer::Running {
                    retry_after: Duration::from_millis(150),
                },
            ),
            (
                r#"{"running":{"retry_after":"3 m"}}"#,
                JsonAnswer::Running {
                    retry_after: Duration::from_secs(180),
                },
            ),
            (
                r#"{"not_seen":{"as_of":"2026-11-02T10:00:00Z"}}"#,
                JsonAnswer::NotSeen {
                    as_of: "2026-11-02T10:00:00Z".into(),
                },
            ),
            (
                r#"{"not_seen":{"as_of":1700000000}}"#,
                JsonAnswer::NotSeen {
                    as_of: "1700000000".into(),
                },
            ),
            (
                r#"{"unknown":{"why":"bank is down"}}"#,
                JsonAnswer::Unknown("bank is down".into()),
            ),
            (
                r#"{"unknown":"bank is down"}"#,
                JsonAnswer::Unknown("bank is down".into()),
            ),
            (
                r#"{"unknown":{}}"#,
                JsonAnswer::Unknown("the reconciler does not know".into()),
            ),
        ];
        for (printed, expected) in cases {
            assert_eq!(read(printed.as_bytes()), expected, "{printed}");
        }
    }

    #[test]
    fn anything_else_is_unknown_and_says_why() {
        let cases: &[(&[u8], &str)] = &[
            (b"", "printed nothing"),
            (b" \n", "printed nothing"),
            (b"never_will", "is not JSON"),
            (b"\xff", "is not JSON"),
            (b"{\"never_will\":{}", "is not JSON"),
            (b"{\"never_will\":{}} {\"never_will\":{}}", "is not JSON"),
            (b"{\"never_will\":{},\"never_will\":{}}", "is not JSON"),
            (
                b"{\"never_will\":{\"burned\":true,\"burned\":false}}",
                "is not JSON",
            ),
            (b"[{\"never_will\":{}}]", "is an array"),
            (b"\"never_will\"", "is a text"),
            (b"{}", "exactly one of"),
            (b"{\"never_will\":{},\"unknown\":{}}", "exactly one of"),
            (b"{\"never_will\":{},\"note\":1}", "exactly one of"),
            (b"{\"NEVER_WILL\":{}}", "is not one of"),
            (b"{\"never_will\":null}", "is null"),
            (b"{\"never_will\":false}", "is a bool"),
            (b"{\"never_will\":\"yes\"}", "is a text"),
            (b"{\"never_will\":[]}", "is an array"),
            (b"{\"never_will\":{\"burned\":1}}", "not a bool"),
            (
                b"{\"never_will\":{\"unless\":\"x\"}}",
                "no member \"unless\"",
            ),
            (b"{\"executed\":{}}", "needs `evidence`"),
            (b"{\"executed\":{\"output\":1}}", "needs `evidence`"),
            (b"{\"executed\":{\"evidence\":null}}", "needs `evidence`"),
            (b"{\"executed\":true}", "is a bool"),
            (
                b"{\"executed\":{\"evidence\":1,\"maybe\":true}}",
                "no member \"maybe\"",
            ),
            (b"{\"running\":{}}", "needs `retry_after`"),
            (b"{\"running\":{\"retry_after\":2}}", "needs `retry_after`"),
            (b"{\"running\":{\"retry_after\":\"2\"}}", "no duration"),
            (b"{\"running\":{\"retry_after\":\"-2s\"}}", "no duration"),
            (b"{\"running\":{\"retry_after\":\"2d\"}}", "no duration"),
            (
                b"{\"running\":{\"retry_after\":\"99999999999999999h\"}}",
                "no duration",
            ),
            (b"{\"not_seen\":{}}", "needs `as_of`"),
            (b"{\"not_seen\":{\"as_of\":\" \"}}", "needs `as_of`"),
            (b"{\"not_seen\":true}", "is a bool"),
        ];
        for (printed, why) in cases {
            let shown = String::from_utf8_lossy(printed);
            match read(printed) {
                JsonAnswer::Unknown(said) => {
                    assert!(said.contains(why), "{shown}: {said}");
                }
                other => panic!("{shown} was read as {other:?}"),
            }
        }
    }
}
