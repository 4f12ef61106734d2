//! The log of a run on standard error.

use clap::Args;
use clap::builder::TypedValueParser;
use semel_render::LogFormat;
use semel_supervisor::event_log::Verbosity;

use super::value::one_of;

#[derive(Clone, Copy, Debug, Args)]
pub struct Log {
    /// The use of standard error
    #[arg(
        long = "log",
        value_parser = format(),
        value_name = "FORMAT",
        default_value = "text"
    )]
    pub format: LogFormat,
    /// The decisions that are told
    #[arg(
        long = "log-level",
        value_parser = level(),
        value_name = "LEVEL",
        default_value = "attention"
    )]
    pub level: Verbosity,
}

/// Reads the form of the conversation.
fn format() -> impl TypedValueParser<Value = LogFormat> {
    one_of(&[
        (
            "json",
            "For a log: an object per line, with the keys of messages",
            LogFormat::Json,
        ),
        (
            "text",
            "For people: lines of text, without keys, and bars on a terminal",
            LogFormat::Text,
        ),
        ("off", "Nothing but errors", LogFormat::Off),
    ])
}

/// Reads which decisions are told.
fn level() -> impl TypedValueParser<Value = Verbosity> {
    one_of(&[
        (
            "attention",
            "Those that want attention",
            Verbosity::Attention,
        ),
        ("decisions", "All of them", Verbosity::Decisions),
    ])
}
