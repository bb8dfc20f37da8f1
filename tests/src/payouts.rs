//! The payouts job of `examples/payouts`, copied into a scene with variations.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::ledger::{self, Ledger, Payout};
use crate::marks::Marks;
use crate::scene::Scene;

/// What is different from the example.
#[derive(Clone, Debug)]
pub struct Variation {
    /// How many of its rows.
    pub rows: usize,
    /// The tool is declared opaque and has no reconciler.
    pub opaque: bool,
    /// Rows at a time.
    pub concurrency: u32,
    /// Seconds the tool waits before it pays, as `sleep` takes them; empty for none.
    pub before: String,
    /// Seconds the tool waits after it has paid.
    pub after: String,
    /// Bytes of padding in each row's arguments.
    pub argument_bytes: usize,
    /// Bytes of padding in each output.
    pub output_bytes: usize,
}

impl Default for Variation {
    fn default() -> Self {
        Self {
            rows: 500,
            opaque: false,
            concurrency: 8,
            before: String::new(),
            after: String::new(),
            argument_bytes: 0,
            output_bytes: 0,
        }
    }
}

/// The job in a scene.
#[derive(Clone, Debug)]
pub struct Payouts {
    folder: PathBuf,
    asked: Vec<Payout>,
}

impl Payouts {
    /// Folders of a scene that its runs change, beside the program's own.
    pub const CHANGES: &'static str = "job";

    /// Copies the example.
    ///
    /// # Panics
    /// If the example is not what this file takes it for.
    #[must_use]
    pub fn new(scene: &Scene, variation: &Variation) -> Self {
        let example = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../examples/payouts");
        let folder = scene.path(Self::CHANGES);
        fs::create_dir_all(folder.join("marks")).unwrap();
        for script in ["pay.sh", "reconcile.sh"] {
            fs::copy(example.join(script), folder.join(script)).unwrap();
        }
        let put = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
        let example = |name: &str| fs::read_to_string(example.join(name)).unwrap();
        put("payouts.csv", &rows(&example("payouts.csv"), variation));
        put("job.toml", &job(&example("job.toml"), variation));
        for (name, text) in [
            ("marked-pay.sh", pay(variation)),
            ("marked-reconcile.sh", ask()),
        ] {
            put(name, &text);
            let executable = fs::Permissions::from_mode(0o755);
            fs::set_permissions(folder.join(name), executable).unwrap();
        }
        let asked = ledger::asked(&folder.join("payouts.csv"));
        assert_eq!(asked.len(), variation.rows, "the example has too few rows");
        Self { folder, asked }
    }

    /// The job file.
    #[must_use]
    pub fn job(&self) -> PathBuf {
        self.folder.join("job.toml")
    }

    /// What shall be paid.
    #[must_use]
    pub fn asked(&self) -> &[Payout] {
        &self.asked
    }

    /// Reads the rows again, after a test has added some.
    ///
    /// # Panics
    /// If they cannot be read.
    pub fn read_rows_again(&mut self) {
        self.asked = ledger::asked(&self.folder.join("payouts.csv"));
    }

    /// What was paid.
    #[must_use]
    pub fn ledger(&self) -> Ledger {
        Ledger::read(&self.folder.join("ledger"))
    }

    /// What the tools began and ended.
    #[must_use]
    pub fn marks(&self) -> Marks {
        Marks::read(&self.folder.join("marks"))
    }

    /// Number of tools that began.
    #[must_use]
    pub fn begun(&self) -> usize {
        Marks::count_begun(&self.folder.join("marks"))
    }
}

fn rows(csv: &str, variation: &Variation) -> String {
    let mut lines = csv.lines();
    let head = lines.next().unwrap();
    if variation.argument_bytes == 0 {
        let rows: Vec<&str> = lines.take(variation.rows).collect();
        return format!("{head}\n{}\n", rows.join("\n"));
    }
    let mut text = format!("{head},padding\n");
    for line in lines.take(variation.rows) {
        writeln!(text, "{line},{}", "x".repeat(variation.argument_bytes)).unwrap();
    }
    text
}

fn job(toml: &str, variation: &Variation) -> String {
    let mut text = toml.to_owned();
    let mut change = |from: &str, to: &str| {
        assert_eq!(text.matches(from).count(), 1, "{from} in job.toml");
        text = text.replace(from, to);
    };
    change(r#"run = ["./pay.sh"]"#, r#"run = ["./marked-pay.sh"]"#);
    change(
        "concurrency = 8",
        &format!("concurrency = {}", variation.concurrency),
    );
    if variation.opaque {
        change(r#"recovery = "reconcilable""#, r#"recovery = "opaque""#);
        change("reconcile = [\"./reconcile.sh\"]\n", "");
        change("closure = \"abort_claim\"\n", "");
    } else {
        change(
            r#"reconcile = ["./reconcile.sh"]"#,
            r#"reconcile = ["./marked-reconcile.sh"]"#,
        );
    }
    if variation.argument_bytes > 0 {
        change(
            r#"cents = "integer" }"#,
            r#"cents = "integer", padding = "string" }"#,
        );
        change(
            r#"cents = "{{ row.cents }}" }"#,
            r#"cents = "{{ row.cents }}", padding = "{{ row.padding }}" }"#,
        );
    }
    text
}

/// The tool with marks around it. An attempt that begins twice leaves a mark of its own.
fn pay(variation: &Variation) -> String {
    let sleep = |seconds: &str| match seconds {
        "" => String::new(),
        _ => format!("sleep {seconds}\n"),
    };
    let pay = match variation.output_bytes {
        0 => "./pay.sh\ncode=$?\n".to_owned(),
        bytes => format!(
            "output=$(./pay.sh)\ncode=$?\n[ \"$code\" != 0 ] || {{\n    printf '%s' \
             \"${{output%??}}\"\n    head -c {bytes} /dev/zero | tr '\\0' x\n    printf \
             '\"}}'\n}}\n"
        ),
    };
    format!(
        "#!/bin/sh\nset -uC\nname=$INTENDANT_IDEMPOTENCY_KEY.$INTENDANT_ATTEMPT\n\
         {{ true > marks/begin.$name; }} 2> /dev/null || true > marks/again.$name\n\
         {}{pay}{}true >| marks/end.$name\nexit \"$code\"\n",
        sleep(&variation.before),
        sleep(&variation.after),
    )
}

fn ask() -> String {
    "#!/bin/sh\nset -u\ntrue > \"marks/ask.$INTENDANT_IDEMPOTENCY_KEY.$INTENDANT_ATTEMPT\"\n\
     exec ./reconcile.sh\n"
        .to_owned()
}
