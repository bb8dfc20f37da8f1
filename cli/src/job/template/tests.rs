use serde_json::json;

use super::*;

fn context() -> Context {
    let env = BTreeMap::from([("REGION".to_owned(), "eu".to_owned())]);
    let row = json!({
        "id": "p-1", "cents": 12, "big": u64::MAX, "half": 0.5, "ok": true, "none": null,
        "list": [1, "two"], "map": {"a": 1}, "first name": "Ann",
    });
    let output = json!({"receipt": "r-1"});
    let outputs = [("pay".to_owned(), Output::from(&output))];
    Shared::new("payouts", &env).context(Some(&row), outputs)
}

fn render(source: &str) -> Result<Value, String> {
    let template = Template::compile(source).map_err(|error| error.to_string())?;
    template
        .render(&context())
        .map_err(|error| error.to_string())
}

#[test]
fn one_template_alone_keeps_the_type() {
    for (source, expected) in [
        ("{{ row.id }}", json!("p-1")),
        ("{{row.cents}}", json!(12)),
        ("{{- row.cents -}}", json!(12)),
        ("{{ row.cents * 2 }}", json!(24)),
        ("{{ row.big }}", json!(u64::MAX)),
        ("{{ row.half }}", json!(0.5)),
        ("{{ row.ok }}", json!(true)),
        ("{{ row.none }}", json!(null)),
        ("{{ row.list }}", json!([1, "two"])),
        ("{{ row.map }}", json!({"a": 1})),
        ("{{ row }}", context_row()),
        ("{{ row[\"first name\"] }}", json!("Ann")),
        ("{{ steps.pay.output.receipt }}", json!("r-1")),
        ("{{ steps['pay'].output }}", json!({"receipt": "r-1"})),
        ("{{ env.REGION }}", json!("eu")),
        ("{{ run.id }}", json!("payouts")),
        (
            "{{ {\"a\": row.cents, \"b\": [1]} }}",
            json!({"a": 12, "b": [1]}),
        ),
        ("{{ row.list | length }}", json!(2)),
        ("{{ \"}}\" }}", json!("}}")),
        ("{{ row.missing | default(3) }}", json!(3)),
        ("{{ range(3) }}", json!([0, 1, 2])),
    ] {
        assert_eq!(render(source), Ok(expected), "{source}");
    }
}

fn context_row() -> Value {
    render("{{ row }}").unwrap()
}

#[test]
fn everything_else_is_text() {
    for (source, expected) in [
        ("plain", "plain"),
        ("", ""),
        ("12", "12"),
        ("{{ row.cents }}{{ row.cents }}", "1212"),
        ("{{ row.id }}-{{ row.cents }}", "p-1-12"),
        (" {{ row.cents }}", " 12"),
        (
            "{{ row.ok }}/{{ row.none }}/{{ row.half }}",
            "true/null/0.5",
        ),
        ("list {{ row.list }}", "list [1,\"two\"]"),
        (
            "{% if row.cents > 10 %}much{% else %}little{% endif %}",
            "much",
        ),
        ("<{{ row.id }}>", "<p-1>"),
        ("{# nothing #}", ""),
    ] {
        assert_eq!(render(source), Ok(json!(expected)), "{source}");
    }
}

#[test]
fn what_is_undefined_or_no_json_is_an_error() {
    for (source, expected) in [
        ("{{ row.missing }}", "row.missing is undefined"),
        ("{{ row.missing.deeper }}", "undefined"),
        ("x{{ row.missing }}", "undefined"),
        ("{{ 1e308 * 10 }}", "no JSON number"),
        ("{{ 1 / 0 }}", "unable to calculate"),
        ("{{ row.big * 2 }}", "does not fit 64 bits"),
        ("{{ row.id + 1 }}", "invalid operation"),
        ("{{ debug() }}", "unknown function"),
        ("{{ {1: 2} }}", "no text"),
        ("{% include 'x' %}", "template not found"),
        ("{{ row.list[5] }}", "undefined"),
    ] {
        let error = render(source).unwrap_err();
        assert!(error.contains(expected), "{source}: {error}");
    }
}

#[test]
fn errors_of_syntax_are_found_without_rendering() {
    for source in [
        "{{ row.id",
        "{{ row.id | nofilter( }}",
        "{{ row.id | nofilter }}",
        "{{ row.id is notest }}",
        "{% if %}",
        "{% for %}",
        "{{ }}",
    ] {
        assert!(Template::compile(source).is_err(), "{source}");
    }
}

fn reads(source: &str) -> Variables {
    Template::compile(source).unwrap().variables().clone()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn what_a_template_reads_is_known_before_it_runs() {
    assert_eq!(reads("plain"), Variables::default());
    let found = reads("{{ row.id }} {{ row['first name'] }} {{ steps.pay.output.receipt }}");
    assert_eq!(found.row, names(&["id", "first name"]));
    assert_eq!(found.steps, names(&["pay"]));
    assert!(!found.whole_row && found.unknown.is_empty());
    let found = reads("{{ steps[\"a-b\"].output }} {{ env.HOME }} {{ run.id }}");
    assert_eq!(found.steps, names(&["a-b"]));
    assert_eq!(found.env, names(&["HOME"]));
    assert!(found.run);
    assert!(reads("{{ row }}").whole_row);
    assert!(reads("{{ row[\"id\"] }}{{ row[row.column] }}").whole_row);
    assert!(!reads("{{ row.id }}{{ row['id'] }}").whole_row);
    assert!(
        reads("{% for x in row.list %}{{ x }}{% endfor %}")
            .unknown
            .is_empty()
    );
    assert!(reads("{{ range(3) }}").unknown.is_empty());
    for (source, unknown) in [
        ("{{ rwo.id }}", "rwo.id"),
        ("{{ run.name }}", "run.name"),
        ("{{ steps.pay.result }}", "steps.pay.result"),
        ("{{ steps.pay }}", "steps.pay"),
        ("{{ steps }}", "steps"),
        ("{{ env }}", "env"),
        (
            "{{ steps[row.id].output }}{{ steps['pay'].output }}",
            "steps",
        ),
    ] {
        assert_eq!(reads(source).unknown, names(&[unknown]), "{source}");
    }
}

#[test]
fn a_field_alone_is_recognised() {
    let field = |source: &str| {
        let template = Template::compile(source).unwrap();
        template.field_alone().map(str::to_owned)
    };
    assert_eq!(field("{{ row.cents }}").as_deref(), Some("cents"));
    assert_eq!(field("{{- row.cents -}}").as_deref(), Some("cents"));
    assert_eq!(field("{{ row['a b'] }}").as_deref(), Some("a b"));
    for other in [
        "{{ row }}",
        "{{ row.cents | int }}",
        "{{ row.a.b }}",
        "{{ row.a }}x",
        "x",
    ] {
        assert_eq!(field(other), None, "{other}");
    }
}
