//! Names of actions and attempts, as people and scripts write them.
//!
//! An action id is `<run>/<path>`, with `~<generation>` behind it once a retry made a new action;
//! `<action id>#<attempt>` names one attempt. Path segments and item keys are percent-encoded by
//! [`segment`], so that the three separators never occur inside them; a run id may hold none of
//! them.

use std::fmt;

use intendant_journal::format::entry::{ActionRef, AttemptRef, ScopePath};

/// Encodes one segment of a path: `/`, `#`, `~`, `%`, white space and control characters become
/// `%XX`.
///
/// ```
/// assert_eq!(intendant::action::id::segment("a/b c"), "a%2Fb%20c");
/// ```
pub fn segment(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '/' | '#' | '~' | '%') || c.is_whitespace() || c.is_control() {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                encoded.push_str(&format!("%{byte:02X}"));
            }
        } else {
            encoded.push(c);
        }
    }
    encoded
}

/// Why a text cannot be a run id.
///
/// # Errors
/// A sentence for people, if the id is empty, longer than 200 bytes, or holds a separator, white
/// space or a control character.
pub fn check_run_id(run: &str) -> Result<(), String> {
    if run.is_empty() {
        return Err("a run id must not be empty".to_owned());
    }
    if run.len() > 200 {
        return Err(format!(
            "a run id is at most 200 bytes long, this one has {}",
            run.len()
        ));
    }
    match run
        .chars()
        .find(|c| matches!(c, '/' | '#' | '~' | '%') || c.is_whitespace() || c.is_control())
    {
        Some(c) => Err(format!(
            "run id {run:?}: {c:?} is not allowed; use letters, digits, - _ . :"
        )),
        None => Ok(()),
    }
}

/// The id of an action of a run.
pub fn action_id(run: &str, action: &ActionRef) -> String {
    match action.generation {
        1 => format!("{run}/{}", action.path),
        n => format!("{run}/{}~{n}", action.path),
    }
}

/// An attempt of a run's action: `<action id>#<attempt>`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct IntentId {
    /// The run.
    pub run: String,
    /// The attempt within it.
    pub attempt: AttemptRef,
}

impl fmt::Display for IntentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}#{}",
            action_id(&self.run, &self.attempt.action),
            self.attempt.attempt
        )
    }
}

impl std::str::FromStr for IntentId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |what: &str| {
            format!(
                "{text:?} does not name an attempt ({what}); write <run>/<path>#<attempt>, as `pending` shows it"
            )
        };
        let (action, attempt) = text
            .rsplit_once('#')
            .ok_or_else(|| wrong("no #<attempt>"))?;
        let attempt = attempt
            .parse()
            .ok()
            .filter(|n| *n >= 1)
            .ok_or_else(|| wrong("the attempt is not a number from 1"))?;
        let (run, path) = action
            .split_once('/')
            .ok_or_else(|| wrong("no run before a /"))?;
        let (path, generation) = match path.split_once('~') {
            None => (path, 1),
            Some((path, n)) => (
                path,
                n.parse()
                    .ok()
                    .filter(|n| *n >= 2)
                    .ok_or_else(|| wrong("bad generation"))?,
            ),
        };
        if path.is_empty() {
            return Err(wrong("no path"));
        }
        check_run_id(run).map_err(|why| wrong(&why))?;
        let action = ActionRef {
            path: ScopePath(path.to_owned()),
            generation,
        };
        Ok(Self {
            run: run.to_owned(),
            attempt: AttemptRef { action, attempt },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ids_round_trip(run in "[a-z0-9._:-]{1,20}", key in "\\PC{1,12}", generation in 1u32..4, attempt in 1u32..9) {
            let path = ScopePath(format!("pay/{}", segment(&key)));
            let id = IntentId { run, attempt: AttemptRef { action: ActionRef { path, generation }, attempt } };
            prop_assert_eq!(id.to_string().parse::<IntentId>(), Ok(id));
        }

        #[test]
        fn different_keys_stay_different(a in "\\PC{0,6}", b in "\\PC{0,6}") {
            prop_assert_eq!(a == b, segment(&a) == segment(&b));
        }
    }

    #[test]
    fn what_names_no_attempt_is_refused_with_the_form() {
        for text in [
            "",
            "run",
            "run/x",
            "run/x#0",
            "run/x#a",
            "/x#1",
            "run/#1",
            "run/x~1#1",
            "a b/x#1",
        ] {
            let error = text.parse::<IntentId>().unwrap_err();
            assert!(error.contains("<run>/<path>#<attempt>"), "{text}: {error}");
        }
    }
}
