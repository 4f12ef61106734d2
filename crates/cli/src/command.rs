//! One file per verb.

pub(crate) mod check;
pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod dead_letters;
pub(crate) mod dedup;
pub(crate) mod explain;
pub(crate) mod gameday;
pub(crate) mod in_doubt;
pub(crate) mod init;
pub(crate) mod keys;
pub(crate) mod man;
pub(crate) mod operate;
pub(crate) mod parked;
pub(crate) mod pipelines;
pub(crate) mod producers;
pub(crate) mod publish;
pub(crate) mod quarantine;
pub(crate) mod remote;
pub(crate) mod replay;
pub(crate) mod run;
pub(crate) mod store;
pub(crate) mod token;
pub(crate) mod transfer;
