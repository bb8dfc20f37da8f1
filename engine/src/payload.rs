//! Payloads: inline up to the journal's limit, larger ones in blobs, and by hash where a blob
//! cannot be written.

use intendant_journal::error::AppendError;
use intendant_journal::face::IntentLog;
use intendant_journal::format::entry::{BlobRef, Body, Digest, Payload, Resolution};
use sha2::Digest as _;

/// Keeps canonical JSON text.
pub(crate) fn keep_text(log: &dyn IntentLog, text: &str) -> Result<Payload, AppendError> {
    if text.len() <= log.inline_max_bytes() {
        return Ok(Payload::Json(text.to_owned()));
    }
    log.put_blob(text.as_bytes()).map(Payload::JsonBlob)
}

/// Longest log of an attempt that is kept inline. The journal keeps room for an outcome of the
/// inline limit and a page around it; a log must not take that away.
const LOG_INLINE_MAX_BYTES: usize = 1024;

/// Keeps what an attempt wrote for people, or at least what identifies it.
pub(crate) fn keep_log(log: &dyn IntentLog, bytes: &[u8]) -> Payload {
    keep(log, bytes, LOG_INLINE_MAX_BYTES)
}

/// Keeps bytes, or at least what identifies them.
pub(crate) fn keep_bytes(log: &dyn IntentLog, bytes: &[u8]) -> Payload {
    keep(log, bytes, log.inline_max_bytes())
}

fn keep(log: &dyn IntentLog, bytes: &[u8], inline_max_bytes: usize) -> Payload {
    if bytes.len() <= inline_max_bytes {
        return Payload::Bytes(bytes.to_vec());
    }
    log.put_blob(bytes)
        .map_or_else(|_| lost(bytes), Payload::BytesBlob)
}

/// What identifies bytes that cannot be kept.
pub(crate) fn lost(bytes: &[u8]) -> Payload {
    Payload::Lost(BlobRef {
        sha256: Digest(sha2::Sha256::digest(bytes).into()),
        bytes: bytes.len() as u64,
    })
}

/// Moves the payload of an operator's fact to a blob where it is too long to stand inline.
pub(crate) fn keep_large(log: &dyn IntentLog, mut fact: Body) -> Result<Body, AppendError> {
    let payload = match &mut fact {
        Body::SignalReceived(signal) => &mut signal.payload,
        Body::Resolved(entry) => match &mut entry.resolution {
            Resolution::Executed(output) => output,
            _ => return Ok(fact),
        },
        _ => return Ok(fact),
    };
    if let Payload::Json(text) = payload {
        *payload = keep_text(log, text)?;
    }
    Ok(fact)
}

/// Longest text of a tool or reconciler that is kept inside a fact, in bytes.
const WHY_BYTES_MAX: usize = 2_000;

/// Bounds what a tool or reconciler says in words.
pub(crate) fn bounded(mut why: String) -> String {
    if why.len() > WHY_BYTES_MAX {
        let end = (0..=WHY_BYTES_MAX)
            .rev()
            .find(|at| why.is_char_boundary(*at))
            .unwrap_or(0);
        why.truncate(end);
        why.push('…');
    }
    why
}

/// The JSON text of a payload.
pub(crate) fn text(log: &dyn IntentLog, payload: &Payload) -> Result<String, String> {
    let bytes = match payload {
        Payload::Json(text) => return Ok(text.clone()),
        Payload::JsonBlob(blob) => log.get_blob(blob).map_err(|error| error.to_string())?,
        Payload::Bytes(_) | Payload::BytesBlob(_) | Payload::Lost(_) => {
            return Err("a payload that is no JSON stands where JSON is needed".to_owned());
        }
    };
    String::from_utf8(bytes).map_err(|_| "a blob that should be JSON is not text".to_owned())
}

/// A payload for people: its JSON value, its text, or what identifies it.
pub fn show(log: Option<&dyn IntentLog>, payload: &Payload) -> serde_json::Value {
    let blob = |kind: &str, blob: &BlobRef| serde_json::json!({ kind: {"sha256": blob.sha256.to_string(), "bytes": blob.bytes} });
    match payload {
        Payload::Json(text) => serde_json::from_str(text).unwrap_or(serde_json::Value::Null),
        Payload::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned().into(),
        Payload::JsonBlob(of) => log
            .and_then(|log| text(log, payload).ok())
            .and_then(|text| serde_json::from_str(&text).ok())
            .unwrap_or_else(|| blob("blob", of)),
        Payload::BytesBlob(of) => blob("blob", of),
        Payload::Lost(of) => blob("lost", of),
    }
}
