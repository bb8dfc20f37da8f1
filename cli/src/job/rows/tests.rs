use serde_json::json;

use super::*;

fn sheet(text: &str, format: Format, key: Option<&str>) -> (Sheet, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows");
    std::fs::write(&file, text).unwrap();
    let key = key.map(|key| Template::compile(key).unwrap());
    let mut faults = Faults::new(Path::new("rows"));
    let sheet = read(&file, format, key.as_ref(), &mut faults).unwrap();
    let problems = faults.into_problems();
    (sheet, problems.iter().map(ToString::to_string).collect())
}

fn row(key: &str, line: u64, value: Value) -> Row {
    Row {
        key: key.to_owned(),
        line,
        value,
    }
}

#[test]
fn csv_rows_keep_their_order_their_text_and_their_line() {
    let text = "\u{feff}id,note\r\np-1,one\r\n\r\np-2,\"two\r\nlines, \"\"quoted\"\"\"\r\np-3,\r\n";
    let (sheet, problems) = sheet(text, Format::Csv, Some("{{ row.id }}"));
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(
        sheet.rows,
        [
            row("p-1", 2, json!({"id": "p-1", "note": "one"})),
            row(
                "p-2",
                4,
                json!({"id": "p-2", "note": "two\r\nlines, \"quoted\""})
            ),
            row("p-3", 6, json!({"id": "p-3", "note": ""})),
        ]
    );
}

#[test]
fn jsonl_rows_are_read_strictly() {
    let text = "{\"id\": 7, \"n\": 1.5}\n\n{\"id\": \"x\"}\r\n{\"id\":1,\"id\":2}\n{\n";
    let (sheet, problems) = sheet(text, Format::Jsonl, Some("{{ row.id }}"));
    assert_eq!(
        sheet.rows,
        [
            row("7", 1, json!({"id": 7, "n": 1.5})),
            row("x", 3, json!({"id": "x"})),
        ]
    );
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].starts_with("rows:4: the key \"id\" at byte 8 is there twice"));
    assert!(problems[1].starts_with("rows:5: not JSON"));
}

#[test]
fn two_rows_with_one_key_name_both_lines() {
    let (_, problems) = sheet("id\na\nb\na\n", Format::Csv, Some("{{ row.id }}"));
    assert_eq!(
        problems,
        [
            "rows:4: the key \"a\" is on line 2 already; remove one of the lines 2 and 4, or choose another key"
        ]
    );
}

#[test]
fn every_bad_row_is_told() {
    let text = "id,n\n,1\nx\n1,2,3\nok,1\n";
    let (sheet, problems) = sheet(text, Format::Csv, Some("{{ row.id }}"));
    assert_eq!(
        problems,
        [
            "rows:3: the row has 1 cells, the header has 2; write one cell for each column; quote cells that hold commas or line breaks",
            "rows:4: the row has 3 cells, the header has 2; write one cell for each column; quote cells that hold commas or line breaks",
            "rows:2: the key is empty; give the row a key of its own",
        ]
    );
    assert_eq!(sheet.rows, [row("ok", 5, json!({"id": "ok", "n": "1"}))]);
    let (_, problems) = self::sheet("a,a,\n1,2,3\n", Format::Csv, None);
    assert_eq!(
        problems,
        [
            "rows:1: two columns are named \"a\"; rename one of them",
            "rows:1: column 3 has no name; name it, or remove it",
        ]
    );
    let (_, problems) = self::sheet("", Format::Csv, None);
    assert_eq!(
        problems,
        ["rows:1: the file is empty; write the names of the columns in the first line"]
    );
    let (_, problems) = self::sheet("{\"id\": true}\n{}\n", Format::Jsonl, Some("{{ row.id }}"));
    assert_eq!(
        problems,
        [
            "rows:1: the key is true, not text or an integer; correct the row, or the step's key",
            "rows:2: the key cannot be made: row.id is undefined; correct the row, or the step's key",
        ]
    );
}

#[test]
fn many_mistakes_are_counted_and_not_all_shown() {
    let text = format!("id\n{}", "x\n".repeat(100));
    let (_, problems) = sheet(&text, Format::Csv, Some("{{ row.id }}"));
    assert_eq!(problems.len(), PROBLEMS_MAX + 1);
    assert!(problems[PROBLEMS_MAX].contains("79 more mistakes"));
}

#[test]
fn without_a_key_rows_are_named_by_their_number() {
    let (sheet, _) = sheet("id\na\na\n", Format::Csv, None);
    let keys: Vec<&str> = sheet.rows.iter().map(|row| row.key.as_str()).collect();
    assert_eq!(keys, ["1", "2"]);
}
