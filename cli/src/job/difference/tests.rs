use serde_json::json;

use super::*;
use crate::job::input::Refusal;
use crate::job::testing::JobFolder;

const JOB: &str = r#"
[job]
name = "payouts"
version = 1
[tool.pay]
input = { id = "string", cents = "integer" }
run = ["./pay.sh"]
reconcile = ["./reconcile.sh"]
recovery = "reconcilable"
timeout = "30s"
[[step]]
name = "pay"
tool = "pay"
for_each = "rows.csv"
key = "{{ row.id }}"
args = { id = "{{ row.id }}", cents = "{{ row.cents }}" }
"#;

const ROWS: &str = "id,cents,note\na,1,x\nb,2,y\n";

fn folder() -> JobFolder {
    JobFolder::new(&[("job.toml", JOB), ("rows.csv", ROWS)])
}

fn keys(input: &JobInput) -> Vec<&str> {
    input.rows["pay"]
        .iter()
        .map(|row| row.key.as_str())
        .collect()
}

#[test]
fn changes_are_named_in_the_words_of_the_job_file() {
    let folder = folder();
    let old = folder.load().job;
    for (from, to, expected) in [
        (
            "timeout = \"30s\"",
            "timeout = \"60s\"",
            vec!["tool.pay.timeout changed from 30s to 60s"],
        ),
        (
            "recovery = \"reconcilable\"",
            "recovery = { idempotent = { window = \"24h\" } }",
            vec![
                "tool.pay.recovery changed from reconcilable to {\"idempotent\":{\"window\":\"24h\"}}",
            ],
        ),
        (
            "timeout = \"30s\"",
            "timeout = \"30s\"\nclosure = \"abort_claim\"",
            vec!["tool.pay.closure was added: abort_claim"],
        ),
        (
            "run = [\"./pay.sh\"]",
            "run = [\"./pay.sh\", \"now\"]",
            vec!["tool.pay.run changed from [\"./pay.sh\"] to [\"./pay.sh\",\"now\"]"],
        ),
        (
            "cents = \"{{ row.cents }}\"",
            "cents = 5",
            vec!["step.pay.args.cents changed from {{ row.cents }} to 5"],
        ),
        (
            "version = 1",
            "version = 2",
            vec!["job.version changed from 1 to 2"],
        ),
        (
            "[[step]]\nname = \"pay\"",
            "[[step]]\nname = \"paid\"",
            vec!["step.paid was added", "step.pay was removed"],
        ),
        ("version = 1", "# a remark\nversion = 1", vec![]),
        (
            "input = { id = \"string\", cents = \"integer\" }",
            "input = { cents = \"integer\", id = \"string\" }",
            vec![],
        ),
    ] {
        folder.write("job.toml", &JOB.replace(from, to));
        let new = folder.load().job;
        assert_eq!(differences(&old, &new), expected);
        let digest = |job: &Job| {
            let input = JobInput {
                job: job.clone(),
                rows: BTreeMap::new(),
                env: BTreeMap::new(),
            };
            input.definition_digest().unwrap()
        };
        assert_eq!(digest(&old) == digest(&new), expected.is_empty());
    }
    let second = format!(
        "{JOB}[[step]]\nname = \"look\"\ntool = \"pay\"\nargs = {{ id = \"x\", cents = 1 }}\n"
    );
    folder.write("job.toml", &second);
    let two = folder.load().job;
    let mut swapped = two.clone();
    swapped.steps.reverse();
    assert_eq!(
        differences(&two, &swapped),
        ["the order of the steps changed from pay, look to look, pay"]
    );
}

#[test]
fn new_rows_are_added_and_known_ones_stay_as_they_were() {
    let folder = folder();
    let old = JobInput::first(folder.load()).unwrap();
    assert_eq!(old.go_on(folder.load(), true), Ok(old.clone()));
    // Rows in another order, one gone, two new, and a cell changed that no argument reads.
    folder.write("rows.csv", "id,cents,note\nc,3,z\nb,2,changed\nd,4,w\n");
    let new = old.go_on(folder.load(), true).unwrap();
    assert_eq!(keys(&new), ["a", "b", "c", "d"]);
    assert_eq!(new.rows["pay"][1], old.rows["pay"][1]);
}

#[test]
fn a_known_key_with_other_arguments_is_a_conflict_that_names_the_row() {
    let folder = folder();
    let old = JobInput::first(folder.load()).unwrap();
    folder.write("rows.csv", "id,cents,note\na,1,x\nb,3,y\n");
    let Err(Refusal::Conflicts(conflicts)) = old.go_on(folder.load(), false) else {
        panic!("a conflict was overlooked");
    };
    assert_eq!(
        conflicts[0].to_string(),
        "rows.csv:3: step \"pay\": the row with the known key \"b\" changed: cents was 2 and is 3; take the change back, or give the row a key of its own"
    );
    assert_eq!(conflicts.len(), 1);
    // A raised version does not change what rows were fixed with.
    folder.write("job.toml", &JOB.replace("version = 1", "version = 2"));
    assert!(matches!(
        old.go_on(folder.load(), true),
        Err(Refusal::Conflicts(_))
    ));
}

#[test]
fn an_open_job_that_changed_needs_a_higher_version() {
    let folder = folder();
    let old = JobInput::first(folder.load()).unwrap();
    let changed = JOB.replace("timeout = \"30s\"", "timeout = \"60s\"");
    folder.write("job.toml", &changed);
    let changes = vec!["tool.pay.timeout changed from 30s to 60s".to_owned()];
    let refusal = old.go_on(folder.load(), true).unwrap_err();
    assert_eq!(refusal, Refusal::Changed(changes));
    assert_eq!(
        refusal.to_string(),
        "the job changed while its run is open:\n  tool.pay.timeout changed from 30s to 60s\nraise version in [job] to go on with the change, or take it back"
    );
    // A run that has ended is open to change.
    assert!(old.go_on(folder.load(), false).is_ok());
    folder.write("job.toml", &changed.replace("version = 1", "version = 2"));
    let new = old.go_on(folder.load(), true).unwrap();
    assert_eq!(new.job.version, 2);
    folder.write("job.toml", JOB);
    assert_eq!(
        new.go_on(folder.load(), true),
        Err(Refusal::Lowered { old: 2, new: 1 })
    );
}

#[test]
fn recorded_values_of_the_environment_win() {
    let folder = folder();
    let with_env = JOB.replace(
        "version = 1",
        "version = 1\nenv = [\"INTENDANT_TEST_NOT_SET\"]",
    );
    folder.write("job.toml", &with_env);
    assert!(JobInput::first(folder.load()).is_err());
    let mut loaded = folder.load();
    loaded.unset.clear();
    loaded
        .env
        .insert("INTENDANT_TEST_NOT_SET".to_owned(), "eu".to_owned());
    let old = JobInput::first(loaded).unwrap();
    // Not set now, but known: the job goes on with the recorded value.
    assert_eq!(old.go_on(folder.load(), true), Ok(old.clone()));
    let mut loaded = folder.load();
    loaded.unset.clear();
    loaded
        .env
        .insert("INTENDANT_TEST_NOT_SET".to_owned(), "us".to_owned());
    assert_eq!(old.go_on(loaded, true).unwrap().env, old.env);
    folder.write("job.toml", JOB);
    let bare = JobInput::first(folder.load()).unwrap();
    folder.write("job.toml", &with_env.replace("version = 1", "version = 2"));
    assert!(matches!(
        bare.go_on(folder.load(), true),
        Err(Refusal::Unset(_))
    ));
}

#[test]
fn an_input_survives_the_journal() {
    let folder = folder();
    let numbers = "input = { id = \"string\", cents = \"integer\", rate = \"number\" }";
    let job = JOB
        .replace("input = { id = \"string\", cents = \"integer\" }", numbers)
        .replace("cents = \"{{ row.cents }}\"", "cents = 3.0, rate = 0.10");
    folder.write("job.toml", &job);
    let input = JobInput::first(folder.load()).unwrap();
    let text = intendant_journal::format::canonical::to_text(&input.to_value()).unwrap();
    let value = intendant_journal::format::canonical::parse(text.as_bytes()).unwrap();
    assert_eq!(JobInput::from_value(value).unwrap(), input);
    let error = JobInput::from_value(json!({"job": 1})).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("the recorded job cannot be read by this program")
    );
}
