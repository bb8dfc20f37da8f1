use serde_json::json;

use super::*;
use crate::job::testing::JobFolder;

const JOB: &str = r#"
[job]
name = "payouts"
[tool.any]
input = { a = "any", b = "any?" }
run = ["./pay.sh"]
[[step]]
name = "open"
tool = "any"
args = { a = "{{ run.id }}" }
[[step]]
name = "pay"
tool = "any"
for_each = "rows.csv"
key = "{{ row.id }}"
args = { a = "{{ row.id }}", b = "{{ steps.open.output.token }}" }
[[step]]
name = "note"
tool = "any"
for_each = "rows.csv"
key = "{{ row.id }}"
args = { a = "{{ steps.pay.output.receipt }}" }
on_error = "continue"
[[step]]
name = "other"
tool = "any"
for_each = "other.jsonl"
key = "{{ row.id }}"
args = { a = "{{ steps.pay.output }}", b = "{{ row.n }}" }
[[step]]
name = "close"
tool = "any"
args = { a = "{{ steps.pay.output | length }}", b = "{{ steps['note'].output }}" }
"#;

fn plan() -> Plan {
    let rows = "id\na/1\nb 2\n";
    let other = "{\"id\":\"x\",\"n\":1}\n";
    let folder = JobFolder::new(&[
        ("job.toml", JOB),
        ("rows.csv", rows),
        ("other.jsonl", other),
    ]);
    let input = JobInput::first(folder.load()).unwrap();
    // What the journal gives back makes the same plan.
    let input = JobInput::from_value(input.to_value()).unwrap();
    Plan::new(&input, "payouts-2").unwrap()
}

/// Notes an output for some items of a step.
fn note(plan: &Plan, outputs: &mut Outputs, step: usize, values: &[Option<Value>]) {
    let planned = &plan.steps()[step];
    assert_eq!(planned.items.len(), values.len());
    for (item, value) in planned.items.iter().zip(values) {
        if let Some(value) = value {
            outputs.note(planned, item, value);
        }
    }
}

fn arguments(plan: &Plan, outputs: &Outputs, step: usize) -> Vec<Result<Value, Unready>> {
    let beginning = plan.begin(step, outputs);
    let items = &plan.steps()[step].items;
    items.iter().map(|item| beginning.arguments(item)).collect()
}

#[test]
fn items_come_in_file_order_and_are_named_by_step_and_key() {
    let plan = plan();
    let paths: Vec<Vec<&str>> = plan
        .steps()
        .iter()
        .map(|step| step.items.iter().map(|item| item.path.as_str()).collect())
        .collect();
    assert_eq!(
        paths,
        [
            vec!["open"],
            vec!["pay/a%2F1", "pay/b%202"],
            vec!["note/a%2F1", "note/b%202"],
            vec!["other/x"],
            vec!["close"],
        ]
    );
    assert_eq!(plan.steps()[1].items[1].line, Some(3));
}

#[test]
fn outputs_are_read_by_the_same_key_or_as_an_array_in_file_order() {
    let plan = plan();
    let mut outputs = Outputs::default();
    assert_eq!(
        arguments(&plan, &outputs, 0),
        [Ok(json!({"a": "payouts-2"}))]
    );
    note(&plan, &mut outputs, 0, &[Some(json!({"token": 7}))]);
    assert_eq!(
        arguments(&plan, &outputs, 1),
        [
            Ok(json!({"a": "a/1", "b": 7})),
            Ok(json!({"a": "b 2", "b": 7}))
        ]
    );
    let receipts = [
        Some(json!({"receipt": "r1"})),
        Some(json!({"receipt": "r2"})),
    ];
    note(&plan, &mut outputs, 1, &receipts);
    assert_eq!(
        arguments(&plan, &outputs, 2),
        [Ok(json!({"a": "r1"})), Ok(json!({"a": "r2"}))]
    );
    assert_eq!(
        arguments(&plan, &outputs, 3),
        [Ok(
            json!({"a": [{"receipt": "r1"}, {"receipt": "r2"}], "b": 1})
        )]
    );
    note(&plan, &mut outputs, 2, &[Some(json!(1)), Some(json!(2))]);
    assert_eq!(
        arguments(&plan, &outputs, 4),
        [Ok(json!({"a": 2, "b": [1, 2]}))]
    );
}

#[test]
fn what_builds_on_an_output_that_is_missing_is_left_out() {
    let plan = plan();
    let mut outputs = Outputs::default();
    let missing = |step: &str| {
        Err(Unready::NoOutput {
            step: step.to_owned(),
        })
    };
    assert_eq!(
        arguments(&plan, &outputs, 1),
        [missing("open"), missing("open")]
    );
    note(
        &plan,
        &mut outputs,
        1,
        &[None, Some(json!({"receipt": "r2"}))],
    );
    assert_eq!(
        arguments(&plan, &outputs, 2),
        [missing("pay"), Ok(json!({"a": "r2"}))]
    );
    // An array holds the outputs there are.
    assert_eq!(
        arguments(&plan, &outputs, 3),
        [Ok(json!({"a": [{"receipt": "r2"}], "b": 1}))]
    );
    note(&plan, &mut outputs, 1, &[Some(json!({})), None]);
    let found = arguments(&plan, &outputs, 2);
    assert!(
        matches!(&found[0], Err(Unready::Argument(error)) if error.argument == "a"),
        "{found:?}"
    );
}

#[test]
fn errors_stop_new_items_and_later_steps_unless_the_step_says_otherwise() {
    let plan = plan();
    for how in [
        Ended::Failed,
        Ended::Denied,
        Ended::GivenUp,
        Ended::OutputUnusable,
    ] {
        let mut stop = Course::new(&plan.steps()[1]);
        assert!(stop.may_begin() && !stop.next_step());
        stop.ended(how);
        assert!(!stop.may_begin() && !stop.next_step());
        stop.ended(Ended::Done);
        assert!(!stop.next_step());
        assert_eq!(stop.errors(), 1);

        let mut go_on = Course::new(&plan.steps()[2]);
        go_on.ended(how);
        assert!(go_on.may_begin() && !go_on.next_step());
        go_on.ended(Ended::LeftOut);
        assert!(go_on.next_step());
    }
    let mut parked = Course::new(&plan.steps()[1]);
    parked.ended(Ended::Done);
    // The other item is in doubt: it has not ended, and it stops nothing but the next step.
    assert!(parked.may_begin() && !parked.next_step());
}

#[test]
fn keys_survive_their_path() {
    for name in [
        "p-1",
        "a/b",
        "a#1",
        "~",
        "100%",
        "%2F",
        "é ü",
        "\t\n\u{7f}",
        "日本\u{3000}",
        "",
    ] {
        let path = path("pay", name);
        assert_eq!(key(&path).as_deref(), Some(name), "{path}");
        let encoded = path.strip_prefix("pay/").unwrap();
        assert!(!encoded.contains(['/', '#', '~', ' ', '\n']), "{path}");
    }
    assert_eq!(path("pay", "é/%"), "pay/é%2F%25");
    assert_eq!(key("pay"), None);
    assert_eq!(key("pay/%2"), None);
    assert_eq!(key("pay/%FF"), None);
}
