#![cfg_attr(rustfmt, rustfmt_skip)] #![doc = "The first program that README shows, as it stands below."]
use intendant::prelude::*;
#[derive(Serialize, Deserialize, JsonSchema)]
struct Refund { order: String }
struct IssueRefund;
impl Tool for IssueRefund {
    const NAME: &'static str = "issue_refund";
    type Input = Refund;
    type Output = String;
    fn contract(&self) -> Contract { Contract::new(Self::NAME).reconcilable(None) }
    async fn call(&self, cx: &Call, refund: Refund) -> Result<String, ToolError> {
        std::fs::write(format!("refund-{}", cx.key), &refund.order).map_err(ToolError::unknown)?;
        if std::env::var_os("CRASH").is_some() { std::process::abort() } // done, and not recorded
        Ok(refund.order)
    }
}

struct AskBank;
impl Reconciler<IssueRefund> for AskBank {
    async fn ask(&self, cx: &AttemptContext, _: Refund) -> Answer<IssueRefund> {
        match std::fs::read_to_string(format!("refund-{}", cx.key)) {
            Ok(output) => Answer::Executed { output, evidence: json!("its file is there") },
            Err(why) => Answer::Unknown(why.to_string()),
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let work = |mut wf: Workflow, refund: Refund| async move { wf.call::<IssueRefund>(refund).await };
    let engine = Engine::builder(Journal::open_or_create("journal")?).tool(IssueRefund)
        .reconciler::<IssueRefund>(AskBank).workflow("refunds", 1, work).start().await?;
    let run = engine.run("refunds", "order-7", Refund { order: "7".into() }).await?;
    println!("refunded {}", run.result::<String>().await?);
    Ok(())
}
