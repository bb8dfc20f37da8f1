//! Two durable operations at once in one scope do not compile: their names would depend on timing.
use intendant::workflow::Workflow;
use serde_json::json;

async fn both(mut wf: Workflow) {
    let arguments = json!({});
    let first = wf.call_json("a", &arguments);
    let second = wf.call_json("b", &arguments);
    let _ = (first.await, second.await);
}

fn main() {}
