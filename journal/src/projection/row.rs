//! A run's row as bytes: version, pass, end (0 not ended, 1 completed, 2 failed, 3 cancelled),
//! first, last and number of entries, then the workflow's name. Integers are little-endian.

use crate::face::RunRow;
use crate::format::entry::Sequence;

use super::value::Parts;

const ENDS: [&str; 3] = ["completed", "failed", "cancelled"];

pub(super) fn encode(row: &RunRow) -> Vec<u8> {
    let end = match row.end.as_deref() {
        None => 0,
        Some(end) => ENDS
            .iter()
            .zip(1_u8..)
            .find_map(|(known, tag)| (*known == end).then_some(tag))
            .expect("rows are made by `apply`, which knows these ends only"),
    };
    debug_assert_eq!(row.ended, end > 0, "an ended run says how");
    let mut bytes = Vec::with_capacity(33 + row.workflow.len());
    bytes.extend_from_slice(&row.version.to_le_bytes());
    bytes.extend_from_slice(&row.pass.to_le_bytes());
    bytes.push(end);
    bytes.extend_from_slice(&row.first.0.to_le_bytes());
    bytes.extend_from_slice(&row.last.0.to_le_bytes());
    bytes.extend_from_slice(&row.entries.to_le_bytes());
    bytes.extend_from_slice(row.workflow.as_bytes());
    bytes
}

pub(super) fn decode(run: &str, bytes: &[u8]) -> Result<RunRow, String> {
    let mut parts = Parts(bytes);
    let version = parts.u32()?;
    let pass = parts.u32()?;
    let end = match parts.u8()? {
        0 => None,
        tag => Some(
            ENDS.get(usize::from(tag) - 1)
                .ok_or_else(|| format!("a run with the unknown end {tag}"))?,
        ),
    };
    Ok(RunRow {
        run: run.to_owned(),
        version,
        pass,
        ended: end.is_some(),
        end: end.map(|end| (*end).to_owned()),
        first: Sequence(parts.u64()?),
        last: Sequence(parts.u64()?),
        entries: parts.u64()?,
        workflow: std::str::from_utf8(parts.0)
            .map_err(|error| format!("a workflow's name that is no text: {error}"))?
            .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_come_back_as_they_were(
            (version, pass, end) in (any::<u32>(), any::<u32>(), 0_usize..4),
            (first, last, entries) in any::<(u64, u64, u64)>(),
            workflow in any::<String>(),
        ) {
            let end = ENDS.get(end).map(|end| (*end).to_owned());
            let row = RunRow {
                run: "r".to_owned(),
                workflow,
                version,
                pass,
                ended: end.is_some(),
                end,
                first: Sequence(first),
                last: Sequence(last),
                entries,
            };
            prop_assert_eq!(decode("r", &encode(&row)), Ok(row));
        }

        #[test]
        fn arbitrary_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Ok(row) = decode("r", &bytes) {
                prop_assert_eq!(encode(&row), bytes);
            }
        }
    }
}
