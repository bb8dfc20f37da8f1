//! What a first program needs.

pub use intendant_journal::Journal;
pub use schemars::{self, JsonSchema};
pub use serde::{self, Deserialize, Serialize};
pub use serde_json::json;

pub use crate::engine::{Engine, Run};
pub use crate::tool::call::Call;
pub use crate::tool::contract::{Closure, Contract};
pub use crate::tool::error::ToolError;
pub use crate::tool::json::AttemptContext;
pub use crate::tool::typed::{Answer, Reconciler, Tool};
pub use crate::workflow::{CallError, Scope, Workflow};
