//! Fail points: before and after every operation of the real disk, a test can abort the process or
//! let the operation fail. Compiled to nothing without the feature `failpoints`.
//!
//! Actions: `return(abort)` aborts the process, `return(eio)` and `return(enospc)` fail with that
//! error, `return(short)` lets a write take only half of its bytes. A crash is always an abort:
//! a panic would unwind and run destructors, which no crash does.

use super::Site;

/// The name of a fail point.
pub(super) fn name(site: Site, when: &str) -> String {
    format!("disk::{}::{when}", site.name())
}

/// What a fail point asks of the operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    /// Go on.
    None,
    /// A write takes half of its bytes.
    #[cfg_attr(not(feature = "failpoints"), allow(dead_code))]
    Short,
}

#[cfg(not(feature = "failpoints"))]
#[inline(always)]
#[allow(clippy::unnecessary_wraps)]
pub(super) fn evaluate(_site: Site, _when: &'static str) -> std::io::Result<Effect> {
    Ok(Effect::None)
}

#[cfg(feature = "failpoints")]
pub(super) use armed::evaluate;
#[cfg(feature = "failpoints")]
pub use armed::{arm_from_environment, reached};

#[cfg(feature = "failpoints")]
mod armed {
    use super::{Effect, name};
    use crate::disk::Site;
    use std::collections::BTreeSet;
    use std::fs::OpenOptions;
    use std::io::{self, Write};
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// Names a file to which each fail point is appended when the process first passes it: what a
    /// process that aborts cannot say at its end.
    const REACHED_FILE: &str = "INTENDANT_FAIL_POINTS_REACHED";

    static REACHED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());

    fn registry() -> MutexGuard<'static, BTreeSet<String>> {
        REACHED.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Names of all fail points passed by this process so far.
    #[must_use]
    pub fn reached() -> BTreeSet<String> {
        registry().clone()
    }

    /// Arms the fail points named in the environment variable `FAILPOINTS`, for the rest of the
    /// process. For programs under test; in-process tests use `fail::FailScenario`.
    pub fn arm_from_environment() {
        std::mem::forget(fail::FailScenario::setup());
    }

    /// Keeps that the point was reached, before anything is done about it.
    fn note(name: &str) -> io::Result<()> {
        let mut reached = registry();
        if reached.insert(name.to_owned())
            && let Some(file) = std::env::var_os(REACHED_FILE)
        {
            let mut file = OpenOptions::new().append(true).create(true).open(file)?;
            file.write_all(format!("{name}\n").as_bytes())?;
        }
        Ok(())
    }

    pub(in crate::disk) fn evaluate(site: Site, when: &'static str) -> io::Result<Effect> {
        let name = name(site, when);
        note(&name)?;
        let action = fail::eval(&name, |action| action.unwrap_or_default());
        match action.as_deref() {
            None => Ok(Effect::None),
            Some("abort") => std::process::abort(),
            Some("eio") => Err(io::Error::from_raw_os_error(
                rustix::io::Errno::IO.raw_os_error(),
            )),
            Some("enospc") => Err(io::Error::from_raw_os_error(
                rustix::io::Errno::NOSPC.raw_os_error(),
            )),
            Some("short") => Ok(Effect::Short),
            Some(other) => Err(io::Error::other(format!(
                "fail point {name}: unknown action {other:?}; use abort, eio, enospc or short"
            ))),
        }
    }
}
