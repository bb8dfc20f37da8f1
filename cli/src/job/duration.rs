//! Durations as job files write them: `500ms`, `60s`, `2m`, `24h`, `7d`.

use std::time::Duration;

/// Name, milliseconds, and from how many of it on a duration is written in it: people write `60s`
/// and `24h`, not `1m` and `1d`.
const UNITS: [(&str, u64, u64); 5] = [
    ("d", 86_400_000, 2),
    ("h", 3_600_000, 2),
    ("m", 60_000, 2),
    ("s", 1_000, 1),
    ("ms", 1, 1),
];

/// Reads one number with one unit. `None` for anything else, for fractions and for what no clock
/// can count (more than a hundred years).
#[must_use]
pub fn parse(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(split);
    let (_, milliseconds, _) = UNITS.iter().find(|(name, ..)| *name == unit)?;
    let total = number.parse::<u64>().ok()?.checked_mul(*milliseconds)?;
    (total <= 100 * 365 * 86_400_000).then(|| Duration::from_millis(total))
}

/// Writes a duration as people do, without fractions; what is below a millisecond is cut off.
#[must_use]
pub fn text(duration: Duration) -> String {
    let total = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let fits =
        |(_, unit, least): &&(&str, u64, u64)| total >= unit * least && total.is_multiple_of(*unit);
    match UNITS.iter().find(fits) {
        Some((name, unit, _)) => format!("{}{name}", total / unit),
        None => "0s".to_owned(),
    }
}

/// For serde: durations as text.
pub(super) mod serde_text {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<S: Serializer>(value: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::text(*value))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        let text = String::deserialize(from)?;
        super::parse(&text).ok_or_else(|| D::Error::custom(format!("bad duration \"{text}\"")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_read_and_written_back() {
        for (written, milliseconds) in [
            ("500ms", 500),
            ("60s", 60_000),
            ("2m", 120_000),
            ("24h", 86_400_000),
            ("7d", 604_800_000),
        ] {
            let duration = parse(written).unwrap();
            assert_eq!(duration, Duration::from_millis(milliseconds));
            assert_eq!(parse(&text(duration)), Some(duration));
        }
        assert_eq!(text(Duration::from_secs(1)), "1s");
        assert_eq!(text(Duration::from_secs(60)), "60s");
        assert_eq!(text(Duration::from_secs(120)), "2m");
        assert_eq!(text(Duration::from_secs(86_400)), "24h");
        assert_eq!(text(Duration::from_secs(90)), "90s");
        assert_eq!(text(Duration::from_millis(1500)), "1500ms");
        assert_eq!(text(Duration::ZERO), "0s");
    }

    #[test]
    fn everything_else_is_refused() {
        for bad in [
            "",
            "s",
            "60",
            "1.5s",
            "-1s",
            "1 s",
            "1S",
            "1m30s",
            "1w",
            "99999999999h",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
