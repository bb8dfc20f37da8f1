//! The table of declared tools. A tool that is not in it does not exist.

use std::collections::HashMap;
use std::sync::Arc;

use jsonschema::Validator;
use serde_json::Value;

use crate::tool::contract::Contract;
use crate::tool::json::{JsonReconciler, JsonTool};

/// Why a tool cannot be registered.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("tool {tool:?}: {why}")]
pub struct BadTool {
    /// The tool.
    pub tool: String,
    /// What is wrong, and what to do.
    pub why: String,
}

/// A registered tool. The implementation stays inside the kernel.
pub(crate) struct Registered {
    pub(crate) contract: Contract,
    pub(super) tool: Arc<dyn JsonTool>,
    pub(crate) reconciler: Option<Arc<dyn JsonReconciler>>,
    input: Validator,
    output: Option<Validator>,
}

/// All registered tools by name.
#[derive(Default)]
pub(crate) struct Tools {
    by_name: HashMap<String, Arc<Registered>>,
}

impl Tools {
    /// Adds a tool.
    pub(crate) fn register(
        &mut self,
        tool: Arc<dyn JsonTool>,
        reconciler: Option<Arc<dyn JsonReconciler>>,
    ) -> Result<(), BadTool> {
        let contract = tool.contract().clone();
        let bad = |why: String| BadTool {
            tool: contract.name.clone(),
            why,
        };
        if contract.name.is_empty() {
            return Err(bad("a tool needs a name".into()));
        }
        if contract.retry.attempts_max == 0 || contract.asks.asks_max == 0 {
            return Err(bad("attempts and asks are at least 1".into()));
        }
        if contract.timeout.is_zero() || contract.reconcile_timeout.is_zero() {
            return Err(bad("a timeout must be longer than zero".into()));
        }
        use intendant_journal::format::entry::RecoveryClass;
        if contract.recovery == RecoveryClass::Reconcilable && reconciler.is_none() {
            return Err(bad(
                "it is declared reconcilable, but no reconciler is registered".into(),
            ));
        }
        if !is_closed(&contract.input) {
            let why = "its input schema is not closed; add \"additionalProperties\": false";
            return Err(bad(why.into()));
        }
        let compile = |what: &str, schema: &Value| {
            jsonschema::validator_for(schema)
                .map_err(|error| bad(format!("its {what} schema is not valid: {error}")))
        };
        let input = compile("input", &contract.input)?;
        let output = contract
            .output
            .as_ref()
            .map(|schema| compile("output", schema))
            .transpose()?;
        let name = contract.name.clone();
        if self.by_name.contains_key(&name) {
            return Err(bad("it is registered twice".into()));
        }
        let registered = Registered {
            contract,
            tool,
            reconciler,
            input,
            output,
        };
        self.by_name.insert(name, Arc::new(registered));
        Ok(())
    }

    /// Adds or replaces the reconciler of a tool that is registered already.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Registered>> {
        self.by_name.get(name)
    }

    /// The names of all tools, sorted.
    pub(crate) fn names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.by_name.keys().map(String::as_str).collect();
        names.sort_unstable();
        names
    }
}

impl Registered {
    /// Whether arguments fit the closed input schema.
    pub(crate) fn check_input(&self, arguments: &Value) -> Result<(), String> {
        check(&self.input, arguments)
    }

    /// Whether an output fits the declared schema.
    pub(crate) fn check_output(&self, output: &Value) -> Result<(), String> {
        self.output
            .as_ref()
            .map_or(Ok(()), |schema| check(schema, output))
    }
}

fn check(schema: &Validator, value: &Value) -> Result<(), String> {
    if schema.is_valid(value) {
        return Ok(());
    }
    let problems: Vec<String> = schema
        .iter_errors(value)
        .map(|error| match error.instance_path().to_string() {
            place if place.is_empty() => error.to_string(),
            place => format!("{place}: {error}"),
        })
        .collect();
    Err(problems.join("; "))
}

/// True if an object schema names all fields it allows.
fn is_closed(schema: &Value) -> bool {
    schema.get("additionalProperties") == Some(&Value::Bool(false))
        || schema.get("unevaluatedProperties") == Some(&Value::Bool(false))
}

impl Registered {
    /// Resolves once nothing that the attempt started on this machine can still act.
    pub(crate) async fn sender_gone(&self, attempt: &crate::tool::json::AttemptContext) {
        self.tool.sender_gone(attempt).await;
        if let Some(reconciler) = &self.reconciler {
            reconciler.sender_gone(attempt).await;
        }
    }
}
