//! The log of a run on standard error.

use clap::{Args, ValueEnum};

#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct Log {
    /// The use of standard error
    #[arg(
        long = "log",
        value_enum,
        value_name = "FORMAT",
        default_value_t = LogFormat::Text
    )]
    pub(crate) format: LogFormat,
    /// The decisions that are told
    #[arg(
        long = "log-level",
        value_enum,
        value_name = "LEVEL",
        default_value_t = LogLevel::Attention
    )]
    pub(crate) level: LogLevel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For a log: an object per line, with the keys of messages
    Json,
    /// For people: lines of text, without keys, and bars on a terminal
    Text,
    /// Nothing but errors
    Off,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogLevel {
    /// Those that want attention
    Attention,
    /// All of them
    Decisions,
}
