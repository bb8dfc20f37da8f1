//! Words for people and programs: one JSON object or a table on standard output, all else on
//! standard error.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use serde::Serialize;

/// Columns of a table where standard output is no terminal.
const COLUMNS: u16 = 100;

/// Writes a line to standard output. A reader that has gone (a pager that was left) ends the
/// program, as it does for every other program.
pub(crate) fn out(line: impl AsRef<str>) {
    let mut stdout = std::io::stdout().lock();
    if writeln!(stdout, "{}", line.as_ref())
        .and_then(|()| stdout.flush())
        .is_err()
    {
        std::process::exit(0);
    }
}

/// Writes a line to standard error.
pub(crate) fn note(line: impl AsRef<str>) {
    // There is nobody left to tell that standard error is closed.
    let _ = writeln!(std::io::stderr().lock(), "{}", line.as_ref());
}

/// Text of a tool without what would steer the terminal.
pub(crate) fn plain(text: &str) -> String {
    let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    text.replace(steers, "\u{fffd}")
}

/// Writes one JSON object to standard output.
pub(crate) fn json(value: &impl Serialize) {
    out(serde_json::to_string(value).expect("what is shown is made of text and numbers"));
}

/// A table with these headings. The columns in `whole` are never broken: they hold what people
/// copy.
pub(crate) fn table(headings: &[&str], whole: &[usize], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic);
    if !headings.is_empty() {
        table.set_header(headings.to_vec());
    }
    if !std::io::stdout().is_terminal() || table.width().is_none() {
        table.set_width(COLUMNS);
    }
    for row in rows {
        table.add_row(row);
    }
    for index in whole {
        if let Some(column) = table.column_mut(*index) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let text = table.to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.join("\n")
}

/// A time span as people say it: `3.2 s`, `4 min`, `2 h`, `3 d`.
pub(crate) fn span(span: Duration) -> String {
    let seconds = span.as_secs_f64();
    match seconds {
        s if s < 90.0 => format!("{s:.1} s"),
        s if s < 5_400.0 => format!("{:.0} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.0} h", s / 3_600.0),
        s => format!("{:.0} d", s / 86_400.0),
    }
}

/// How long ago a moment in RFC 3339 was.
pub(crate) fn age(since: &str) -> String {
    let Ok(since) = since.parse::<jiff::Timestamp>() else {
        return since.to_owned();
    };
    let ms = jiff::Timestamp::now().as_millisecond() - since.as_millisecond();
    span(Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_fit_a_hundred_columns_and_keep_ids_whole() {
        let id = "payouts/pay/p-0001#12";
        let long = "word ".repeat(60);
        let text = table(
            &["INTENT", "WHY"],
            &[0],
            vec![vec![id.to_owned(), long.clone()]],
        );
        assert!(text.contains(id));
        assert!(
            text.lines().all(|line| line.chars().count() <= 100),
            "{text}"
        );
    }

    #[test]
    fn a_tool_does_not_steer_the_terminal() {
        assert_eq!(plain("a\tb\n\u{1b}[2Jc"), "a\tb\n\u{fffd}[2Jc");
    }

    #[test]
    fn spans_are_short() {
        let of = |s| span(Duration::from_secs(s));
        assert_eq!(
            [of(3), of(600), of(7_200), of(864_000)],
            ["3.0 s", "10 min", "2 h", "10 d"]
        );
    }
}
