//! The typed form of tools and reconcilers, for Rust developers. Schemas come from the types.

use std::future::Future;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::call::Call;
use super::contract::{Contract, RecoveryClass};
use super::error::ToolError;
use super::json::{AttemptContext, BoxFuture, JsonReconciler, JsonTool, RawOutput, Reply};
use super::reconciler::JsonAnswer;

/// A tool written in Rust.
pub trait Tool: Send + Sync + 'static {
    /// Its name, by which it is declared and recorded.
    const NAME: &'static str;
    /// Its arguments. The schema is closed whether or not the type says so.
    type Input: Serialize + DeserializeOwned + JsonSchema + Send + Sync + 'static;
    /// Its output.
    type Output: Serialize + DeserializeOwned + JsonSchema + Send + 'static;

    /// Its declaration. The default is opaque and irreversible; schemas are filled in from the
    /// types.
    fn contract(&self) -> Contract {
        Contract::new(Self::NAME)
    }

    /// Performs one attempt. [`Call`] has the idempotency key to send along.
    ///
    /// # Errors
    /// [`ToolError`] says what is known of the effect; a panic or a timeout is *unknown*.
    fn call(
        &self,
        cx: &Call,
        input: Self::Input,
    ) -> impl Future<Output = Result<Self::Output, ToolError>> + Send;
}

/// Asks the target of `T` whether an attempt's effect happened.
pub trait Reconciler<T: Tool>: Send + Sync + 'static {
    /// Asks once.
    fn ask(&self, cx: &AttemptContext, input: T::Input) -> impl Future<Output = Answer<T>> + Send;
}

/// The five answers of a typed reconciler (see [`JsonAnswer`]).
pub enum Answer<T: Tool> {
    /// It happened.
    Executed {
        /// The output.
        output: T::Output,
        /// The target's own proof (an id, a hash).
        evidence: Value,
    },
    /// It has not happened and never will. Counts as unknown unless the contract declares the
    /// closure that guarantees it.
    NeverWill,
    /// As `NeverWill`, and the key is burned: no later attempt can run under it either.
    Voided,
    /// The target is working on it.
    Running {
        /// When to ask again.
        retry_after: Duration,
    },
    /// It cannot be seen. Never leave to run again.
    NotSeen {
        /// As of which moment, in the target's words.
        as_of: String,
    },
    /// No answer.
    Unknown(
        /// Why.
        String,
    ),
}

/// A typed tool in its JSON form.
pub(crate) struct TypedTool<T> {
    contract: Contract,
    tool: T,
}

impl<T: Tool> TypedTool<T> {
    /// Fills the schemas in from the types.
    pub(crate) fn new(tool: T) -> Arc<Self> {
        let mut contract = tool.contract();
        contract.name = T::NAME.to_owned();
        contract.input = closed(schemars::schema_for!(T::Input).to_value());
        contract.output = Some(schemars::schema_for!(T::Output).to_value());
        if contract.recovery == RecoveryClass::ReadOnly {
            contract.side_effect = super::contract::SideEffect::ReadOnly;
        }
        Arc::new(Self { contract, tool })
    }
}

/// Closes an object schema. The unit type's schema becomes that of an empty object's absence.
fn closed(mut schema: Value) -> Value {
    if let Some(object) = schema.as_object_mut() {
        object.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    schema
}

impl<T: Tool> JsonTool for TypedTool<T> {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    fn call<'a>(&'a self, cx: &'a Call, arguments: &'a Value) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let input = match T::Input::deserialize(arguments) {
                Ok(input) => input,
                // The closed schema let it through and the type does not: nothing was begun.
                Err(why) => {
                    return Reply::of(Err(ToolError::Failed(format!(
                        "arguments do not fit: {why}"
                    ))));
                }
            };
            let result = self.tool.call(cx, input).await;
            Reply::of(result.map(|output| match serde_json::to_value(output) {
                Ok(value) => RawOutput::Value(value),
                Err(why) => {
                    RawOutput::Text(format!("output cannot be shown as JSON: {why}").into_bytes())
                }
            }))
        })
    }
}

/// A typed reconciler in its JSON form.
pub(crate) struct TypedReconciler<T, R> {
    reconciler: R,
    of: PhantomData<fn() -> T>,
}

impl<T: Tool, R: Reconciler<T>> TypedReconciler<T, R> {
    /// Wraps it.
    pub(crate) fn new(reconciler: R) -> Arc<Self> {
        Arc::new(Self {
            reconciler,
            of: PhantomData,
        })
    }
}

impl<T: Tool, R: Reconciler<T>> JsonReconciler for TypedReconciler<T, R> {
    fn ask<'a>(
        &'a self,
        cx: &'a AttemptContext,
        arguments: &'a Value,
    ) -> BoxFuture<'a, JsonAnswer> {
        Box::pin(async move {
            let input = match T::Input::deserialize(arguments) {
                Ok(input) => input,
                Err(why) => {
                    return JsonAnswer::Unknown(format!("recorded arguments do not fit: {why}"));
                }
            };
            match self.reconciler.ask(cx, input).await {
                Answer::Executed { output, evidence } => match serde_json::to_value(output) {
                    Ok(output) => JsonAnswer::Executed { output, evidence },
                    Err(why) => {
                        JsonAnswer::Unknown(format!("executed, but its output is no JSON: {why}"))
                    }
                },
                Answer::NeverWill => JsonAnswer::NeverWill {
                    burned: false,
                    evidence: None,
                },
                Answer::Voided => JsonAnswer::NeverWill {
                    burned: true,
                    evidence: None,
                },
                Answer::Running { retry_after } => JsonAnswer::Running { retry_after },
                Answer::NotSeen { as_of } => JsonAnswer::NotSeen { as_of },
                Answer::Unknown(why) => JsonAnswer::Unknown(why),
            }
        })
    }
}
