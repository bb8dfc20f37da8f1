//! Job files whose one tool talks to the stub.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use crate::scene::Scene;
use crate::stub::Stub;

/// A job that calls the stub once for each row.
#[derive(Clone, Debug)]
pub struct StubJob {
    /// The recovery class, as the job file writes it.
    pub recovery: &'static str,
    /// The closure, if one is declared.
    pub closure: Option<&'static str>,
    /// Whether there is a reconciler.
    pub reconcile: bool,
    /// Further lines of the tool's declaration.
    pub tool: &'static str,
    /// Environment names whose values the rows' arguments carry.
    pub env: &'static [&'static str],
    /// Number of rows.
    pub rows: u32,
    /// Rows at a time.
    pub concurrency: u32,
}

impl Default for StubJob {
    fn default() -> Self {
        Self {
            recovery: r#""reconcilable""#,
            closure: Some("abort_claim"),
            reconcile: true,
            tool: "",
            env: &[],
            rows: 1,
            concurrency: 4,
        }
    }
}

impl StubJob {
    /// The id of the job's run.
    pub const RUN: &'static str = "orders";

    /// An opaque tool.
    #[must_use]
    pub fn opaque() -> Self {
        Self {
            recovery: r#""opaque""#,
            closure: None,
            reconcile: false,
            ..Self::default()
        }
    }

    /// A tool whose target remembers keys for an hour.
    #[must_use]
    pub fn idempotent() -> Self {
        Self {
            recovery: r#"{ idempotent = { window = "1h" } }"#,
            closure: None,
            reconcile: false,
            ..Self::default()
        }
    }

    /// Writes the job into the scene; `client` is the program `stub-client`.
    ///
    /// # Panics
    /// If that fails.
    #[must_use]
    pub fn write(&self, scene: &Scene, client: &str, stub: &Stub) -> PathBuf {
        let folder = scene.path("job");
        fs::create_dir_all(&folder).unwrap();
        let command = |op: &str| format!("[{client:?}, {op:?}, \"{}\"]", stub.address());
        let mut text = format!(
            "[job]\nname = {:?}\nversion = 1\nenv = {:?}\n",
            Self::RUN,
            self.env
        );
        let mut input = r#"id = "string""#.to_owned();
        let mut args = r#"id = "{{ row.id }}""#.to_owned();
        for name in self.env {
            let field = name.to_lowercase();
            write!(input, r#", {field} = "string""#).unwrap();
            write!(args, r#", {field} = "{{{{ env.{name} }}}}""#).unwrap();
        }
        write!(
            text,
            "\n[tool.order]\ndescription = \"Order one thing\"\ninput = {{ {input} }}\noutput = \
             {{ id = \"string\" }}\nrun = {}\nrecovery = {}\nexit_codes = {{ failed = [10], \
             not_executed = [75] }}\n",
            command("call"),
            self.recovery
        )
        .unwrap();
        if self.reconcile {
            writeln!(text, "reconcile = {}", command("ask")).unwrap();
        }
        if let Some(closure) = self.closure {
            writeln!(text, "closure = {closure:?}").unwrap();
        }
        write!(
            text,
            "{}\n\n[[step]]\nname = \"order\"\ntool = \"order\"\nfor_each = \"orders.csv\"\nkey = \
             \"{{{{ row.id }}}}\"\nargs = {{ {args} }}\nconcurrency = {}\n",
            self.tool, self.concurrency
        )
        .unwrap();
        let job = folder.join("job.toml");
        fs::write(&job, text).unwrap();
        let ids: Vec<String> = (1..=self.rows).map(|row| format!("o-{row}\n")).collect();
        fs::write(folder.join("orders.csv"), format!("id\n{}", ids.concat())).unwrap();
        job
    }
}
