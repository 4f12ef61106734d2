//! One file per verb.

pub(crate) mod config;
pub(crate) mod explain;
pub(crate) mod run;
pub(crate) mod summary;
