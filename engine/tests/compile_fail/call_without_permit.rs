//! A tool cannot be called by anyone but the kernel's door: nobody else can make a `Call`.
use intendant::tool::call::Call;
use intendant::tool::json::{AttemptContext, JsonTool};

async fn go_round(tool: &dyn JsonTool, attempt: AttemptContext) {
    let call = Call { attempt };
    tool.call(&call, &serde_json::Value::Null).await;
}

fn main() {}
