use serde_json::json;

use super::*;
use crate::job::testing::JobFolder;
use crate::job::tool::Recovery;

const GOOD: &str = r#"
[job]
name = "payouts"
version = 1

[tool.pay]
description = "Pay one row"
input = { id = "string", account = "string", cents = "integer" }
output = { receipt = "string" }
run = ["./pay.sh"]
reconcile = ["./reconcile.sh"]
recovery = "reconcilable"
closure = "abort_claim"
timeout = "30s"

[[step]]
name = "pay"
tool = "pay"
for_each = "payouts.csv"
key = "{{ row.id }}"
concurrency = 4
args = { id = "{{ row.id }}", account = "{{ row.account }}", cents = "{{ row.cents }}" }
on_error = "stop"
"#;

const ROWS: &str = "id,account,cents\np-1,a,100\np-2,b,200\n";

fn folder(job: &str, rows: &str) -> JobFolder {
    JobFolder::new(&[("job.toml", job), ("payouts.csv", rows)])
}

/// What `load` says, with the folder's name taken off.
fn problems(job: &str, rows: &str) -> Vec<String> {
    let folder = folder(job, rows);
    let prefix = format!("{}/", folder.path().display());
    match load(&folder.path().join("job.toml")) {
        Ok(loaded) => loaded
            .unset
            .values()
            .map(|p| p.to_string().replace(&prefix, ""))
            .collect(),
        Err(problems) => problems
            .iter()
            .map(|p| p.to_string().replace(&prefix, ""))
            .collect(),
    }
}

/// The job above with one line replaced.
fn but(old: &str, new: &str) -> String {
    assert!(GOOD.contains(old), "{old}");
    GOOD.replacen(old, new, 1)
}

#[test]
fn a_sound_job_is_read_as_written() {
    let folder = folder(GOOD, ROWS);
    let loaded = load(&folder.path().join("job.toml")).unwrap();
    let job = &loaded.job;
    assert_eq!((job.name.as_str(), job.version), ("payouts", 1));
    assert_eq!(job.folder, folder.path().canonicalize().unwrap());
    let tool = &job.tools["pay"];
    assert_eq!(tool.recovery, Recovery::Reconcilable);
    assert_eq!(tool.asks.attempts, 8);
    let contract = tool.contract("pay", job.version);
    assert_eq!(contract.timeout, std::time::Duration::from_secs(30));
    assert_eq!(
        contract.reconcile_timeout,
        std::time::Duration::from_secs(30)
    );
    assert_eq!(contract.name, "pay");
    assert_eq!(
        tool.input,
        json!({
            "type": "object",
            "properties": {
                "id": {"type": "string"}, "account": {"type": "string"},
                "cents": {"type": "integer"},
            },
            "required": ["account", "cents", "id"],
            "additionalProperties": false,
        })
    );
    assert_eq!(job.steps[0].concurrency, 4);
    let rows = &loaded.rows["pay"];
    assert_eq!(rows.len(), 2);
    assert_eq!((rows[1].key.as_str(), rows[1].line), ("p-2", 3));
    let program = format!("{}/./pay.sh", job.folder.display());
    assert_eq!(tool.run_command(&job.folder), [program]);
}

#[test]
fn every_mistake_is_told_at_once_with_its_line_and_a_remedy() {
    let job = r#"
[job]
name = "pay outs"
versoin = 1

[tool.pay]
input = { id = "strng" }
run = ["./gone.sh"]
reconcille = ["./reconcile.sh"]
recovery = "reconcilable"
closure = "abort_claim"
timeout = "30 s"

[tool.copy]
input = { id = "string" }
run = ["pay.sh"]
recovery = { idempotent = {} }
exit_codes = { failed = [0] }

[tool.look]
input = { id = "string" }
run = ["./pay.sh"]
recovery = "read_only"

[[step]]
name = "pay"
tool = "pya"
for_each = "gone.csv"
args = { id = "{{ row.id" }

[[step]]
name = "look"
tool = "look"
for_each = "payouts.csv"
key = "{{ row.di }}"
args = { id = "{{ steps.py.output }}", ib = "{{ rwo.id }}" }
on_error = "halt"

[[step]]
name = "again"
tool = "look"
args = { id = "{{ row.id }}", deep = 1979-05-27 }

[[step]]
name = "twice"
tool = "look"
concurrency = 0
args = { }

[[stpe]]
"#;
    let expected = [
        "job.toml:3: job: \"name\" cannot be \"pay outs\"; use 1 to 100 letters, digits, \"_\", \"-\" and \".\"",
        "job.toml:4: job: unknown field \"versoin\"; did you mean \"version\"?",
        "job.toml:7: tool \"pay\": input: \"id\" has the unknown type \"strng\"; did you mean \"string\"? (\"?\" at the end makes it optional; for more, name a JSON Schema file)",
        "job.toml:8: tool \"pay\": \"run\": the script ./gone.sh does not exist; create ./gone.sh",
        "job.toml:9: tool \"pay\": unknown field \"reconcille\"; did you mean \"reconcile\"?",
        "job.toml:10: tool \"pay\": recovery is \"reconcilable\", but there is no reconciler; add reconcile = [\"./reconcile.sh\"], or write recovery = \"opaque\"",
        "job.toml:11: tool \"pay\": a closure is declared, but no reconciler that could give it; add reconcile = [\"./reconcile.sh\"], or remove closure",
        "job.toml:12: tool \"pay\": bad duration \"30 s\" in \"timeout\"; write a whole number and one of ms, s, m, h, d, such as \"30s\"",
        "job.toml:16: tool \"copy\": \"run\": pay.sh is in the job file's folder, which is not searched for programs; write \"./pay.sh\"",
        "job.toml:17: tool \"copy\": idempotent needs a window: how long the target remembers a key; write recovery = { idempotent = { window = \"24h\" } }",
        "job.toml:18: tool \"copy\": exit_codes: \"failed\" holds 0, which always means success; remove it, and let the command exit with another code",
        "job.toml:27: step \"pay\": unknown tool \"pya\"; did you mean \"pay\"?",
        "job.toml:28: step \"pay\": the rows gone.csv cannot be read: No such file or directory (os error 2); name a file that can be read, relative to the job file's folder",
        "job.toml:29: step \"pay\": argument \"id\": bad template: syntax error: unexpected end of input, expected end of variable block; write {{ row.NAME }}, {{ steps.NAME.output }}, {{ run.id }} or {{ env.NAME }}",
        "job.toml:35: step \"look\": payouts.csv has no column \"di\"; did you mean \"id\"?",
        "job.toml:36: step \"look\": argument \"id\": unknown step \"py\"; did you mean \"pay\"?",
        "job.toml:36: step \"look\": argument \"ib\": unknown variable \"rwo.id\"; did you mean \"row\"?",
        "job.toml:36: step \"look\": tool \"look\" has no argument \"ib\"; did you mean \"id\"?",
        "job.toml:37: step \"look\": \"on_error\" cannot be \"halt\"; known: stop, continue",
        "job.toml:42: step \"again\": argument \"id\": there is no row, the step has no \"for_each\"; add for_each = \"rows.csv\", or use another variable",
        "job.toml:42: step \"again\": argument \"deep\" is a date or time, which JSON does not have; write it as a string",
        "job.toml:42: step \"again\": tool \"look\" has no argument \"deep\"; known: id",
        "job.toml:47: step \"twice\": \"concurrency\" is out of range; write an integer from 1 to 4294967295",
        "job.toml:48: step \"twice\": tool \"look\" needs the argument \"id\"; add id = ... to args",
        "job.toml:50: job file: unknown field \"stpe\"; did you mean \"step\"?",
    ];
    let found = problems(job, ROWS);
    assert_eq!(found, expected);
}

/// One change to the sound job and the one problem that it makes.
#[test]
fn each_mistake_of_a_tool() {
    for (old, new, expected) in [
        (
            "recovery = \"reconcilable\"\n",
            "",
            "job.toml:11: tool \"pay\": a reconciler is declared, but \"recovery\" is missing, so it would never be asked; add recovery = \"reconcilable\"",
        ),
        (
            "recovery = \"reconcilable\"",
            "recovery = \"idempotent\"",
            "job.toml:12: tool \"pay\": idempotent needs a window: how long the target remembers a key; write recovery = { idempotent = { window = \"24h\" } }",
        ),
        (
            "recovery = \"reconcilable\"",
            "recovery = \"reconcileable\"",
            "job.toml:12: tool \"pay\": \"recovery\" cannot be \"reconcileable\"; did you mean \"reconcilable\"?",
        ),
        (
            "closure = \"abort_claim\"",
            "closure = \"abort\"",
            "job.toml:13: tool \"pay\": \"closure\" cannot be \"abort\"; known: abort_claim, fence, deadline",
        ),
        (
            "run = [\"./pay.sh\"]",
            "run = \"./pay.sh\"",
            "job.toml:10: tool \"pay\": \"run\" is a string, not an array of strings; write an array of strings",
        ),
        (
            "run = [\"./pay.sh\"]\n",
            "",
            "job.toml:6: tool \"pay\": \"run\" is missing; name the command, such as run = [\"./pay.sh\"]",
        ),
        (
            "run = [\"./pay.sh\"]",
            "run = []",
            "job.toml:10: tool \"pay\": \"run\" names no program; write the program first, such as run = [\"./run.sh\"]",
        ),
        (
            "timeout = \"30s\"",
            "timeout = \"0s\"",
            "job.toml:14: tool \"pay\": \"timeout\" is zero; write a duration above zero",
        ),
        (
            "timeout = \"30s\"",
            "retry = { attempts = 0 }",
            "job.toml:14: tool \"pay\": retry: \"attempts\" is out of range; write an integer from 1 to 4294967295",
        ),
        (
            "timeout = \"30s\"",
            "asks = { attempts = 2, first = \"10s\", max = \"1s\" }",
            "job.toml:14: tool \"pay\": \"asks\": the first pause is longer than the longest; raise max, or lower first",
        ),
        (
            "timeout = \"30s\"",
            "exit_codes = { failed = [10], not_executed = [10, 300] }",
            "job.toml:14: tool \"pay\": exit_codes: \"not_executed\" holds a number that is no exit code; write numbers from 1 to 255",
        ),
        (
            "timeout = \"30s\"",
            "exit_codes = { failed = [10], not_executed = [10] }",
            "job.toml:14: tool \"pay\": exit_codes: exit code 10 is both failed and not_executed; keep it in one of them",
        ),
        (
            "timeout = \"30s\"",
            "approval = \"sometimes\"",
            "job.toml:14: tool \"pay\": \"approval\" cannot be \"sometimes\"; known: never, always",
        ),
        (
            "timeout = \"30s\"",
            "side_effect = \"read_only\"",
            "job.toml:14: tool \"pay\": \"side_effect\" and \"recovery\" contradict: only one of them says read_only; write read_only in both, or in neither",
        ),
    ] {
        assert_eq!(problems(&but(old, new), ROWS), [expected]);
    }
}

#[test]
fn each_mistake_of_a_step() {
    for (old, new, expected) in [
        (
            "key = \"{{ row.id }}\"\n",
            "",
            "job.toml:19: step \"pay\": \"for_each\" needs a key: tool \"pay\" is not read_only; add key = \"{{ row.id }}\", naming what makes a row unique",
        ),
        (
            "key = \"{{ row.id }}\"",
            "key = \"{{ run.id }}\"",
            "job.toml:20: step \"pay\": \"key\" must be made of the row and of nothing else; write it like key = \"{{ row.id }}\"",
        ),
        (
            "for_each = \"payouts.csv\"",
            "for_each = \"payouts.txt\"",
            "job.toml:19: step \"pay\": the name \"payouts.txt\" does not tell how the rows are written; write for_each = { path = \"payouts.txt\", format = \"csv\" } (or \"jsonl\")",
        ),
        (
            "cents = \"{{ row.cents }}\" }",
            "cents = \"{{ row.cent }}\" }",
            "job.toml:22: step \"pay\": payouts.csv has no column \"cent\"; did you mean \"cents\"?",
        ),
        (
            "cents = \"{{ row.cents }}\" }",
            "cent = \"{{ row.cents }}\" }",
            "job.toml:22: step \"pay\": tool \"pay\" needs the argument \"cents\"; add cents = ... to args",
        ),
        (
            "cents = \"{{ row.cents }}\" }",
            "cents = \"{{ steps.pay.output }}\" }",
            "job.toml:22: step \"pay\": argument \"cents\": step \"pay\" does not run before this one; use the output of an earlier step",
        ),
        (
            "cents = \"{{ row.cents }}\" }",
            "cents = \"{{ steps.pey.output }}\" }",
            "job.toml:22: step \"pay\": argument \"cents\": unknown step \"pey\"; there are none",
        ),
        (
            "cents = \"{{ row.cents }}\" }",
            "cents = \"{{ env.HOME }}\" }",
            "job.toml:22: step \"pay\": argument \"cents\": the environment name \"HOME\" is not allowed; add env = [\"HOME\"] to [job]",
        ),
        (
            "cents = \"{{ row.cents }}\" }",
            "cents = \"{{ row.cents | intt }}\" }",
            "job.toml:22: step \"pay\": argument \"cents\": bad template: unknown filter: filter intt is unknown",
        ),
        (
            "name = \"pay\"\n",
            "",
            "job.toml:16: step 1: \"name\" is missing; name the step, such as name = \"pay\"",
        ),
    ] {
        let found = problems(&but(old, new), ROWS);
        assert!(
            found.iter().any(|line| line.starts_with(expected)),
            "{expected}\n{found:#?}"
        );
    }
    let twice = format!("{GOOD}[[step]]\nname = \"pay\"\ntool = \"pay\"\n");
    assert!(problems(&twice, ROWS).contains(
        &"job.toml:24: step \"pay\": two steps have this name; rename one of them".to_owned()
    ));
    let keyed = but("for_each = \"payouts.csv\"\n", "");
    assert!(problems(&keyed, ROWS).contains(
        &"job.toml:19: step \"pay\": \"key\" without \"for_each\": there are no rows to name; add for_each = \"rows.csv\", or remove key".to_owned()
    ));
}

#[test]
fn bad_cells_name_file_and_line() {
    assert_eq!(
        problems(GOOD, "id,account,cents\np-1,a,100\np-2,b,x\np-3,c,\n"),
        [
            "payouts.csv:3: argument \"cents\": column \"cents\" holds \"x\", which is no integer; correct the row, or args of step \"pay\"",
            "payouts.csv:4: argument \"cents\": column \"cents\" holds \"\", which is no integer; correct the row, or args of step \"pay\"",
        ]
    );
    let jsonl = but("payouts.csv", "rows.jsonl");
    let folder = folder(&jsonl, "");
    let rows =
        "{\"id\":\"a\",\"account\":\"x\",\"cents\":1}\n{\"id\":\"b\",\"account\":2,\"cents\":1}\n";
    std::fs::write(folder.path().join("rows.jsonl"), rows).unwrap();
    let found = load(&folder.path().join("job.toml")).unwrap_err();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].line, 2);
    assert_eq!(
        found[0].message,
        "argument \"account\": 2 is not of type \"string\""
    );
}

#[test]
fn two_rows_with_one_key_are_a_problem_of_the_job() {
    assert_eq!(
        problems(GOOD, "id,account,cents\np-1,a,100\np-1,b,200\n"),
        [
            "payouts.csv:3: the key \"p-1\" is on line 2 already; remove one of the lines 2 and 3, or choose another key"
        ]
    );
}

#[test]
fn schema_files_are_checked() {
    let job = but(
        "input = { id = \"string\", account = \"string\", cents = \"integer\" }",
        "input = \"input.json\"",
    );
    let with = |schema: &str| {
        let folder = folder(&job, ROWS);
        std::fs::write(folder.path().join("input.json"), schema).unwrap();
        let found = load(&folder.path().join("job.toml"))
            .err()
            .unwrap_or_default();
        found
            .iter()
            .map(|problem| problem.message.clone())
            .collect::<Vec<_>>()
    };
    let properties = "\"properties\": {\"id\": {\"type\": \"string\"}, \"account\": {}, \"cents\": {\"type\": \"integer\"}}";
    let good = format!("{{\"type\": \"object\", {properties}, \"additionalProperties\": false}}");
    assert_eq!(with(&good), Vec::<String>::new());
    for (schema, expected) in [
        (format!("{{\"type\": \"object\", {properties}}}"), "is open"),
        (
            format!("{{{properties}, \"additionalProperties\": false}}"),
            "does not say that arguments are an object",
        ),
        ("{\"type\": \"objekt\"}".to_owned(), "is not a JSON Schema"),
        ("{\"type\": 1, \"type\": 2}".to_owned(), "is not sound JSON"),
        (
            "{\"type\": \"object\", \"additionalProperties\": false, \"$ref\": \"other.json\"}"
                .to_owned(),
            "is not a JSON Schema",
        ),
    ] {
        let found = with(&schema);
        assert!(
            found.len() == 1 && found[0].contains(expected),
            "{schema}: {found:?}"
        );
    }
    assert_eq!(problems(&job, ROWS).len(), 1);
}

#[test]
fn an_allowed_environment_name_that_is_not_set_is_told_apart() {
    let job = but(
        "version = 1",
        "version = 1\nenv = [\"PATH\", \"INTENDANT_TEST_NOT_SET\"]",
    )
    .replace("{{ row.account }}", "{{ env.INTENDANT_TEST_NOT_SET }}");
    let folder = folder(&job, ROWS);
    let loaded = load(&folder.path().join("job.toml")).unwrap();
    assert!(loaded.env.contains_key("PATH"));
    let problem = &loaded.unset["INTENDANT_TEST_NOT_SET"];
    assert_eq!(problem.line, 5);
    assert_eq!(
        problem.message,
        "the environment variable INTENDANT_TEST_NOT_SET is not set, or not UTF-8"
    );
}

#[test]
fn what_is_no_toml_or_no_file_is_told() {
    let job = format!("{GOOD}[tool.pay]\nrun = [\"x\"\n");
    let found = problems(&job, ROWS);
    assert!(
        found
            .iter()
            .any(|line| line.starts_with("job.toml:24: not TOML: duplicate key")),
        "{found:?}"
    );
    let found = load(Path::new("/nonexistent/job.toml")).unwrap_err();
    assert!(
        found[0]
            .to_string()
            .starts_with("/nonexistent/job.toml: the job file cannot be read")
    );
    assert_eq!(problems("", ROWS).len(), 2);
    use std::os::unix::ffi::OsStrExt;
    let folder = folder(GOOD, ROWS);
    let odd = folder.path().join(std::ffi::OsStr::from_bytes(b"\xff"));
    std::fs::create_dir(&odd).unwrap();
    std::fs::copy(folder.job(), odd.join("job.toml")).unwrap();
    let found = load(&odd.join("job.toml")).unwrap_err();
    assert!(found[0].message.ends_with("is not UTF-8"));
}

#[test]
fn a_tool_without_input_takes_no_arguments() {
    let job = "[job]\nname = \"a\"\n[tool.t]\nrun = [\"sh\", \"-c\", \"true\"]\n[[step]]\nname = \"s\"\ntool = \"t\"\n";
    assert_eq!(problems(job, ROWS), Vec::<String>::new());
    let job = format!("{job}args = {{ id = \"x\" }}\n");
    assert_eq!(
        problems(&job, ROWS),
        [
            "job.toml:8: step \"s\": tool \"t\" has no argument \"id\"; declare it in input of tool \"t\", such as input = { id = \"string\" }"
        ]
    );
}
