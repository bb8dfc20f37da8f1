//! What is derived from the log for questions: the runs and their histories. It can be thrown away
//! at any time and is rebuilt from the log.

pub(crate) mod apply;
