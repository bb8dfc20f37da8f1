//! Reads the declaration of a tool, `[tool.NAME]`, and refuses what cannot be meant.

use std::path::{Path, PathBuf};
use std::time::Duration;

use intendant::tool::contract::{Approval, Closure, Contract, SideEffect};
use toml::de::DeValue;

use super::document::{Found, Section, integer};
use super::tool::{ExitCodes, JobTool, Recovery, Repeats};
use super::{nearest, schema, script};

const FIELDS: [&str; 14] = [
    "description",
    "input",
    "output",
    "run",
    "reconcile",
    "recovery",
    "closure",
    "timeout",
    "reconcile_timeout",
    "asks",
    "retry",
    "exit_codes",
    "approval",
    "side_effect",
];

/// Reads one `[tool.NAME]`. `None` if anything is wrong with it, which was reported.
pub(super) fn read(section: &Section<'_>, folder: &Path) -> Option<JobTool> {
    section.only(&FIELDS);
    let description = section.string("description").map(|found| found.value);
    let input = if section.has("input") {
        schema::read(section, "input", folder)
    } else {
        // Closed and empty: a tool without a declared input takes no arguments.
        Some(Contract::new("").input)
    };
    let output = section
        .has("output")
        .then(|| schema::read(section, "output", folder));
    let run = if section.has("run") {
        command(section, "run", folder)
    } else {
        section.missing("run", "name the command, such as run = [\"./pay.sh\"]");
        None
    };
    let reconcile = section
        .has("reconcile")
        .then(|| command(section, "reconcile", folder));
    let recovery = recovery(section);
    let closure = section.word::<Closure>("closure");
    if let Some(found) = section.get("closure").filter(|_| reconcile.is_none()) {
        section.report(
            &found.span,
            "a closure is declared, but no reconciler that could give it",
            "add reconcile = [\"./reconcile.sh\"], or remove closure",
        );
    }
    let side_effect = match (section.has("side_effect"), recovery) {
        (true, _) => section.word("side_effect"),
        (false, Some(Recovery::ReadOnly)) => Some(SideEffect::ReadOnly),
        (false, _) => Some(SideEffect::Irreversible),
    };
    contradiction(section, recovery, side_effect);
    let approval = match section.has("approval") {
        true => section.word("approval"),
        false => Some(Approval::Never),
    };
    let time = |name: &str, default: Duration| match section.has(name) {
        true => section.duration(name),
        false => Some(default),
    };
    let defaults = Contract::new("");
    let timeout = time("timeout", defaults.timeout);
    let reconcile_timeout = time("reconcile_timeout", defaults.reconcile_timeout);
    let retry = repeats(
        section,
        "retry",
        Repeats {
            attempts: defaults.retry.attempts_max,
            first: defaults.retry.backoff_first,
            max: defaults.retry.backoff_max,
        },
    );
    let asks = repeats(
        section,
        "asks",
        Repeats {
            attempts: defaults.asks.asks_max,
            first: defaults.asks.backoff_first,
            max: defaults.asks.backoff_max,
        },
    );
    let exit_codes = exit_codes(section);
    Some(JobTool {
        description: description.unwrap_or_default().to_owned(),
        input: input?,
        output: match output {
            Some(declared) => Some(declared?),
            None => None,
        },
        run: run?,
        reconcile: match reconcile {
            Some(declared) => Some(declared?),
            None => None,
        },
        recovery: recovery?,
        closure,
        side_effect: side_effect?,
        timeout: timeout?,
        reconcile_timeout: reconcile_timeout?,
        retry: retry?,
        asks: asks?,
        exit_codes: exit_codes?,
        approval: approval?,
    })
}

/// A command line whose program and script are there.
fn command(section: &Section<'_>, name: &str, folder: &Path) -> Option<Vec<String>> {
    let words = section.strings(name)?;
    if words
        .value
        .first()
        .is_none_or(|first| first.value.is_empty())
    {
        section.report(
            &words.span,
            format!("\"{name}\" names no program"),
            format!("write the program first, such as {name} = [\"./{name}.sh\"]"),
        );
        return None;
    }
    let line: Vec<&str> = words.value.iter().map(|word| word.value).collect();
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Some(fault) = script::fault(&line, folder, &path) {
        let span = &words.value[fault.word].span;
        section.report(span, format!("\"{name}\": {}", fault.message), fault.remedy);
        return None;
    }
    Some(line.into_iter().map(str::to_owned).collect())
}

fn recovery(section: &Section<'_>) -> Option<Recovery> {
    let reconcile = section.has("reconcile");
    let Some(found) = section.get("recovery") else {
        if let Some(found) = section.get("reconcile") {
            section.report(
                &found.span,
                "a reconciler is declared, but \"recovery\" is missing, so it would never be asked",
                "add recovery = \"reconcilable\"",
            );
            return None;
        }
        return Some(Recovery::Opaque);
    };
    match found.value {
        DeValue::String(word) => match word.as_ref() {
            "read_only" => Some(Recovery::ReadOnly),
            "opaque" => Some(Recovery::Opaque),
            "reconcilable" if reconcile => Some(Recovery::Reconcilable),
            "reconcilable" => {
                section.report(
                    &found.span,
                    "recovery is \"reconcilable\", but there is no reconciler",
                    "add reconcile = [\"./reconcile.sh\"], or write recovery = \"opaque\"",
                );
                None
            }
            "idempotent" => {
                without_window(section, &found);
                None
            }
            other => {
                let known = ["read_only", "opaque", "reconcilable", "idempotent"];
                section.report(
                    &found.span,
                    format!("\"recovery\" cannot be \"{other}\""),
                    nearest::remedy(other, known),
                );
                None
            }
        },
        DeValue::Table(_) => {
            let outer = section.section("recovery")?;
            outer.only(&["idempotent"]);
            let Some(inner) = outer.get("idempotent") else {
                outer.missing("idempotent", "write { idempotent = { window = \"24h\" } }");
                return None;
            };
            let DeValue::Table(_) = inner.value else {
                without_window(section, &inner);
                return None;
            };
            let inner = outer.section("idempotent")?;
            inner.only(&["window"]);
            if !inner.has("window") {
                without_window(section, &found);
                return None;
            }
            let window = inner.duration("window")?;
            Some(Recovery::Idempotent { window })
        }
        other => {
            section.wrong_type(
                &found.span,
                "recovery",
                "\"read_only\", \"opaque\", \"reconcilable\" or { idempotent = { window = \"24h\" } }",
                other,
            );
            None
        }
    }
}

fn without_window(section: &Section<'_>, found: &Found<&DeValue<'_>>) {
    section.report(
        &found.span,
        "idempotent needs a window: how long the target remembers a key",
        "write recovery = { idempotent = { window = \"24h\" } }",
    );
}

/// A tool that may run again without asking must have no effect to repeat.
fn contradiction(
    section: &Section<'_>,
    recovery: Option<Recovery>,
    side_effect: Option<SideEffect>,
) {
    let (Some(found), Some(recovery), Some(side_effect)) =
        (section.get("side_effect"), recovery, side_effect)
    else {
        return;
    };
    if (recovery == Recovery::ReadOnly) != (side_effect == SideEffect::ReadOnly) {
        section.report(
            &found.span,
            "\"side_effect\" and \"recovery\" contradict: only one of them says read_only",
            "write read_only in both, or in neither",
        );
    }
}

/// `retry` and `asks`: a number, or a table.
fn repeats(section: &Section<'_>, name: &str, default: Repeats) -> Option<Repeats> {
    let Some(found) = section.get(name) else {
        return Some(default);
    };
    match found.value {
        DeValue::Integer(_) => Some(Repeats {
            attempts: section.count(name, 1)?.value,
            ..default
        }),
        DeValue::Table(_) => {
            let inner = section.section(name)?;
            inner.only(&["attempts", "first", "max"]);
            let attempts = match inner.has("attempts") {
                true => inner.count("attempts", 1).map(|found| found.value),
                false => Some(default.attempts),
            };
            let first = match inner.has("first") {
                true => inner.duration("first"),
                false => Some(default.first),
            };
            let max = match inner.has("max") {
                true => inner.duration("max"),
                // A longer first pause raises the longest with it.
                false => Some(first.map_or(default.max, |first| first.max(default.max))),
            };
            let repeats = Repeats {
                attempts: attempts?,
                first: first?,
                max: max?,
            };
            if repeats.first > repeats.max {
                section.report(
                    &found.span,
                    format!("\"{name}\": the first pause is longer than the longest"),
                    "raise max, or lower first",
                );
                return None;
            }
            Some(repeats)
        }
        other => {
            section.wrong_type(
                &found.span,
                name,
                "a number or { attempts = 3, first = \"1s\", max = \"60s\" }",
                other,
            );
            None
        }
    }
}

fn exit_codes(section: &Section<'_>) -> Option<ExitCodes> {
    if !section.has("exit_codes") {
        return Some(ExitCodes::default());
    }
    let inner = section.section("exit_codes")?;
    inner.only(&["failed", "not_executed"]);
    let failed = codes(&inner, "failed");
    let not_executed = codes(&inner, "not_executed");
    let codes = ExitCodes {
        failed: failed?,
        not_executed: not_executed?,
    };
    let both = codes
        .failed
        .iter()
        .find(|code| codes.not_executed.contains(code));
    if let Some(code) = both {
        inner.report(
            &inner.span,
            format!("exit code {code} is both failed and not_executed"),
            "keep it in one of them",
        );
        return None;
    }
    Some(codes)
}

fn codes(section: &Section<'_>, name: &str) -> Option<Vec<u8>> {
    let Some(found) = section.get(name) else {
        return Some(Vec::new());
    };
    let DeValue::Array(items) = found.value else {
        section.wrong_type(&found.span, name, "an array of exit codes", found.value);
        return None;
    };
    let mut codes = Vec::new();
    for item in items.iter() {
        let code = match item.get_ref() {
            DeValue::Integer(digits) => integer(digits),
            other => {
                section.wrong_type(&item.span(), name, "an array of exit codes", other);
                return None;
            }
        };
        let code = code.and_then(|code| u8::try_from(code).ok());
        match code {
            Some(0) => {
                section.report(
                    &item.span(),
                    format!("\"{name}\" holds 0, which always means success"),
                    "remove it, and let the command exit with another code",
                );
                return None;
            }
            Some(code) if !codes.contains(&code) => codes.push(code),
            Some(_) => {}
            None => {
                section.report(
                    &item.span(),
                    format!("\"{name}\" holds a number that is no exit code"),
                    "write numbers from 1 to 255",
                );
                return None;
            }
        }
    }
    codes.sort_unstable();
    Some(codes)
}
