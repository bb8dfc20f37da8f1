//! One history of crashes as text, so that a failure can be played again.
//!
//! `appends 17 KILL / 5 CUT L W P100 Sff B7`: the load `appends`, killed before its change 17; then the
//! recovery, whose power is cut before its change 5, with these fates. A point beyond the last change
//! is the end.

use intendant_journal::disk::simulated::Fate;

use crate::load::Load;
use crate::masks::Crash;

/// A crash and where it happens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Blow {
    /// Number of the change before which it happens.
    pub(crate) point: u64,
    pub(crate) crash: Crash,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Schedule {
    pub(crate) load: Load,
    pub(crate) blows: Vec<Blow>,
}

impl std::fmt::Display for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.load.name())?;
        for (at, blow) in self.blows.iter().enumerate() {
            let between = if at == 0 { "" } else { " /" };
            write!(f, "{between} {}", blow.point)?;
            match &blow.crash {
                Crash::Kill => f.write_str(" KILL")?,
                Crash::Cut(fates) => {
                    f.write_str(" CUT")?;
                    for fate in fates {
                        match fate {
                            Fate::Lost => f.write_str(" L")?,
                            Fate::Whole => f.write_str(" W")?,
                            Fate::Prefix(bytes) => write!(f, " P{bytes}")?,
                            Fate::Sectors(mask) => write!(f, " S{mask:x}")?,
                            Fate::Bytes(seed) => write!(f, " B{seed}")?,
                        }
                    }
                }
            }
        }
        Ok(())
    }
}

impl std::str::FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, rest) = text.trim().split_once(' ').ok_or("no crash is named")?;
        let load = Load::ALL
            .into_iter()
            .find(|load| load.name() == name)
            .ok_or_else(|| format!("{name:?} is no load"))?;
        let blows = rest.split('/').map(blow).collect::<Result<_, _>>()?;
        Ok(Self { load, blows })
    }
}

fn blow(text: &str) -> Result<Blow, String> {
    let mut words = text.split_whitespace();
    let point = words.next().ok_or("a crash without its point")?;
    let point = point
        .parse()
        .map_err(|_| format!("{point:?} is no point"))?;
    let crash = match words.next() {
        Some("KILL") => Crash::Kill,
        Some("CUT") => Crash::Cut(words.map(fate).collect::<Result<_, _>>()?),
        other => return Err(format!("{other:?} is no crash")),
    };
    Ok(Blow { point, crash })
}

fn fate(word: &str) -> Result<Fate, String> {
    let bad = |_| format!("{word:?} is no fate");
    match word.split_at(1) {
        ("L", "") => Ok(Fate::Lost),
        ("W", "") => Ok(Fate::Whole),
        ("P", bytes) => bytes.parse().map(Fate::Prefix).map_err(bad),
        ("S", mask) => u128::from_str_radix(mask, 16)
            .map(Fate::Sectors)
            .map_err(bad),
        ("B", seed) => seed.parse().map(Fate::Bytes).map_err(bad),
        _ => Err(format!("{word:?} is no fate")),
    }
}
