//! Golden files: the bytes of every structure on disk. A difference means that journals already
//! written would be read wrongly: the format version must be raised, or the change taken back.
//!
//! New files are written by running this test once with `INTENDANT_BLESS=1`.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;

use intendant_journal::format::batch::Draft;
use intendant_journal::format::entry::*;
use intendant_journal::format::frame::{self, Frame, Home, Kind};
use intendant_journal::format::segment::{SegmentHead, SegmentHeader};
use intendant_journal::format::{chain, codec};

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let lines: Vec<&str> = digits
        .as_bytes()
        .chunks(64)
        .map(|line| std::str::from_utf8(line).unwrap())
        .collect();
    lines.join("\n") + "\n"
}

fn golden(name: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(format!("{name}.hex"));
    let found = hex(bytes);
    if std::env::var_os("INTENDANT_BLESS").is_some() && !path.exists() {
        std::fs::write(&path, &found).unwrap();
    }
    let expected = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{name}: {error}; the bytes are\n{found}"));
    assert_eq!(found, expected, "{name}: the bytes on disk changed");
}

fn moment() -> Moment {
    Moment {
        wall_ms: 1_764_000_000_123,
        boot_ms: 987_654,
    }
}

fn journal() -> JournalId {
    JournalId(*b"golden journal 1")
}

fn attempt() -> AttemptRef {
    AttemptRef {
        action: ActionRef {
            path: ScopePath("pay/p-0042".into()),
            generation: 1,
        },
        attempt: 2,
    }
}

fn note() -> OperatorNote {
    OperatorNote {
        who: "uid:1000 (alice)".into(),
        reason: "seen in the ledger".into(),
        request: "r-1".into(),
    }
}

fn blob() -> BlobRef {
    BlobRef {
        sha256: Digest([0xab; 32]),
        bytes: 70_000,
    }
}

fn json(text: &str) -> Payload {
    Payload::Json(text.into())
}

fn action(verdict: Verdict, intent: Option<Intent>) -> Body {
    Body::Action(ActionEntry {
        attempt: attempt(),
        proposal: Some(Proposal {
            tool: "pay".into(),
            tool_version: 3,
            arguments: json(r#"{"cents":1250}"#),
            digest: Digest([7; 32]),
        }),
        decision: Decision {
            verdict,
            reasons: vec!["within budget".into()],
            policy_version: "default-1".into(),
        },
        intent,
    })
}

fn intent(class: RecoveryClass, closure: Option<Closure>) -> Option<Intent> {
    Some(Intent {
        key: Key([0x5a; 16]),
        class,
        timeout_ms: 60_000,
        closure,
        attempts_max: 8,
        backoff_first_ms: 1_000,
        backoff_max_ms: 60_000,
    })
}

fn outcome(outcome: Outcome, log: Option<Payload>) -> OutcomeEntry {
    OutcomeEntry {
        attempt: attempt(),
        outcome,
        log,
    }
}

fn answered(answer: Answer) -> Body {
    Body::Answered(AnsweredEntry {
        attempt: attempt(),
        answer,
    })
}

fn resolved(resolution: Resolution) -> Body {
    Body::Resolved(ResolvedEntry {
        attempt: attempt(),
        resolution,
        note: note(),
    })
}

fn verified(verification: Verification) -> Body {
    Body::Verified(VerifiedEntry {
        attempt: attempt(),
        verification,
        why: "read back".into(),
    })
}

fn ended(end: End) -> Body {
    Body::PassEnded(PassEnded { pass: 1, end })
}

/// One name for each variant of [`Body`]. A new variant does not compile here until it is named.
fn variant(body: &Body) -> &'static str {
    match body {
        Body::Opened(_) => "opened",
        Body::PassStarted(_) => "pass_started",
        Body::Action(_) => "action",
        Body::Outcome(_) => "outcome",
        Body::Asking(_) => "asking",
        Body::Answered(_) => "answered",
        Body::Approval(_) => "approval",
        Body::Parked(_) => "parked",
        Body::Resolved(_) => "resolved",
        Body::LateReply(_) => "late_reply",
        Body::Verified(_) => "verified",
        Body::TimerSet(_) => "timer_set",
        Body::TimerFired(_) => "timer_fired",
        Body::SignalAwaited(_) => "signal_awaited",
        Body::SignalReceived(_) => "signal_received",
        Body::Noted(_) => "noted",
        Body::CancelRequested(_) => "cancel_requested",
        Body::RetryRequested(_) => "retry_requested",
        Body::PassEnded(_) => "pass_ended",
        Body::Incident(_) => "incident",
        Body::IncidentAcknowledged(_) => "incident_acknowledged",
    }
}
const VARIANTS: usize = 21;

/// Bodies by golden name: every variant of `Body`, and of the enums inside it.
fn bodies() -> Vec<(&'static str, Body)> {
    let why = || "connection reset".to_owned();
    vec![
        (
            "opened",
            Body::Opened(Opened {
                pid: 4711,
                boot_id: "11111111-2222-3333-4444-555555555555".into(),
                program: "intendant 0.1.0".into(),
            }),
        ),
        (
            "pass_started",
            Body::PassStarted(PassStarted {
                workflow: "payouts".into(),
                version: 1,
                pass: 1,
                input: json(r#"{"rows":2}"#),
                input_digest: Digest([1; 32]),
            }),
        ),
        (
            "pass_started_blob",
            Body::PassStarted(PassStarted {
                workflow: "payouts".into(),
                version: 2,
                pass: 3,
                input: Payload::JsonBlob(blob()),
                input_digest: Digest([2; 32]),
            }),
        ),
        (
            "action_allowed",
            action(
                Verdict::Allow,
                intent(RecoveryClass::Reconcilable, Some(Closure::AbortClaim)),
            ),
        ),
        (
            "action_idempotent",
            action(
                Verdict::Allow,
                intent(
                    RecoveryClass::Idempotent {
                        window_ms: 86_400_000,
                    },
                    Some(Closure::Fence),
                ),
            ),
        ),
        (
            "action_read_only",
            action(
                Verdict::Allow,
                intent(RecoveryClass::ReadOnly, Some(Closure::Deadline)),
            ),
        ),
        (
            "action_opaque",
            action(Verdict::Allow, intent(RecoveryClass::Opaque, None)),
        ),
        ("action_denied", action(Verdict::Deny, None)),
        ("action_approval", action(Verdict::RequireApproval, None)),
        (
            "action_repair",
            action(Verdict::Repair("at most 100 EUR".into()), None),
        ),
        (
            "outcome_succeeded",
            Body::Outcome(outcome(Outcome::Succeeded(json(r#"{"id":"tx-1"}"#)), None)),
        ),
        (
            "outcome_unusable",
            Body::Outcome(outcome(
                Outcome::Unusable {
                    raw: Payload::Bytes(vec![0, 255, 10]),
                    why: why(),
                },
                Some(Payload::BytesBlob(blob())),
            )),
        ),
        (
            "outcome_not_executed",
            Body::Outcome(outcome(
                Outcome::NotExecuted {
                    why: why(),
                    retry_at: Some(moment()),
                },
                Some(Payload::Lost(blob())),
            )),
        ),
        (
            "outcome_failed",
            Body::Outcome(outcome(Outcome::Failed { why: why() }, None)),
        ),
        (
            "outcome_unknown",
            Body::Outcome(outcome(Outcome::Unknown { why: why() }, None)),
        ),
        (
            "outcome_interrupted",
            Body::Outcome(outcome(Outcome::Interrupted { why: why() }, None)),
        ),
        ("asking", Body::Asking(attempt())),
        (
            "answered_executed",
            answered(Answer::Executed {
                output: json("7"),
                evidence: json(r#""receipt""#),
            }),
        ),
        (
            "answered_never_will",
            answered(Answer::NeverWill {
                closure: Closure::AbortClaim,
                burned: true,
                evidence: Some(json("null")),
            }),
        ),
        (
            "answered_running",
            answered(Answer::Running {
                retry_after_ms: 2_000,
            }),
        ),
        (
            "answered_not_seen",
            answered(Answer::NotSeen {
                as_of: "2026-11-30T08:00:00Z".into(),
            }),
        ),
        ("answered_unknown", answered(Answer::Unknown { why: why() })),
        (
            "approval",
            Body::Approval(ApprovalEntry {
                attempt: attempt(),
                approved: true,
                note: note(),
            }),
        ),
        (
            "parked",
            Body::Parked(ParkedEntry {
                attempt: attempt(),
                why: why(),
            }),
        ),
        (
            "resolved_executed",
            resolved(Resolution::Executed(json("7"))),
        ),
        ("resolved_never_ran", resolved(Resolution::NeverRan)),
        ("resolved_gave_up", resolved(Resolution::GaveUp)),
        (
            "late_reply",
            Body::LateReply(outcome(Outcome::Succeeded(json("8")), None)),
        ),
        ("verified_passed", verified(Verification::Passed)),
        ("verified_failed", verified(Verification::Failed)),
        (
            "verified_inconclusive",
            verified(Verification::Inconclusive),
        ),
        (
            "timer_set",
            Body::TimerSet(TimerSet {
                path: ScopePath("wait/0".into()),
                due_wall_ms: 1_764_000_060_000,
            }),
        ),
        ("timer_fired", Body::TimerFired(ScopePath("wait/0".into()))),
        (
            "signal_awaited",
            Body::SignalAwaited(SignalAwaited {
                path: ScopePath("go/0".into()),
                name: "go".into(),
            }),
        ),
        (
            "signal_received",
            Body::SignalReceived(SignalReceived {
                name: "go".into(),
                payload: json("true"),
                note: note(),
            }),
        ),
        (
            "noted",
            Body::Noted(NotedEntry {
                path: ScopePath("now/0".into()),
                what: "now".into(),
                value: "1764000000123".into(),
            }),
        ),
        ("cancel_requested", Body::CancelRequested(note())),
        (
            "retry_requested",
            Body::RetryRequested(RetryRequested {
                actions: vec![attempt().action],
                note: note(),
            }),
        ),
        ("pass_ended_completed", ended(End::Completed(json("7")))),
        ("pass_ended_failed", ended(End::Failed(why()))),
        ("pass_ended_cancelled", ended(End::Cancelled(why()))),
        (
            "incident",
            Body::Incident(IncidentEntry {
                attempt: Some(attempt()),
                what: "the target says otherwise".into(),
            }),
        ),
        (
            "incident_acknowledged",
            Body::IncidentAcknowledged(IncidentAcknowledged {
                sequence: Sequence(300),
                note: note(),
            }),
        ),
    ]
}

#[test]
fn entries_keep_their_bytes() {
    let mut seen = BTreeSet::new();
    for (name, body) in bodies() {
        assert!(name.starts_with(variant(&body)), "{name}");
        seen.insert(variant(&body));
        let of_journal = matches!(body, Body::Opened(_));
        let entry = Entry {
            at: moment(),
            run: (!of_journal).then(|| "payouts".to_owned()),
            body,
        };
        let mut bytes = Vec::new();
        codec::encode(&entry, &mut bytes).unwrap();
        golden(&format!("entry_{name}"), &bytes);
        assert_eq!(codec::decode(&bytes).unwrap(), entry, "{name}");
    }
    assert_eq!(seen.len(), VARIANTS, "a variant has no golden file");
}

#[test]
fn a_frame_keeps_its_bytes() {
    let mut bytes = Vec::new();
    let frame = Frame {
        kind: Kind::Entry,
        sequence: Sequence(258),
        epoch: Epoch(3),
        payload: b"thirteen byte",
    };
    frame::put(&mut bytes, &Home::new(journal(), 5), frame);
    golden("frame", &bytes);
}

#[test]
fn a_batch_keeps_its_bytes() {
    let mut draft = Draft::new(Epoch(3));
    for payload in [&b"one"[..], b"the second entry"] {
        draft
            .add(|out| {
                out.extend_from_slice(payload);
                Ok::<(), ()>(())
            })
            .unwrap();
    }
    let mut bytes = Vec::new();
    draft.place(
        &mut bytes,
        &Home::new(journal(), 5),
        Sequence(259),
        Sequence(258),
    );
    golden("batch", &bytes);
}

#[test]
fn a_segment_keeps_its_bytes() {
    let header = SegmentHeader {
        journal: journal(),
        number: 5,
        bytes: 64 * 1024 * 1024,
    };
    golden("segment_header", &header.page()[..64]);
    let mut bytes = Vec::new();
    SegmentHead {
        first: Sequence(259),
        epoch: Epoch(3),
        chain: Digest([0xcd; 32]),
    }
    .put(&mut bytes, &Home::new(journal(), 5));
    golden("segment_head", &bytes);
}

#[test]
fn the_chain_keeps_its_values() {
    let genesis = chain::genesis(journal());
    golden("chain_genesis", &genesis.0);
    let next = chain::next(genesis, b"payload", Sequence(1), Epoch(1));
    golden("chain_next", &next.0);
}
