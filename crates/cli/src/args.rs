//! The command line: every verb, with what it is for and an example.

#[cfg(test)]
pub(crate) use semel_args::init;
pub(crate) use semel_args::{
    Admin, Audit, Check, Common, Completions, Config, ConfigCheck, ConfigShow, Confirm, Dedup,
    Door, Explain, FailOn, Format, Gameday, Init, KeyPart, Language, Listing, Log, Man, Named,
    OnDoubt, Publish, ReplayArguments, Rerun, Run, Shell, Within,
};
pub(crate) use semel_args::{
    dead_letters, in_doubt, keys, pipelines, producers, quarantine, store, token, transfer, value,
};
pub(crate) use semel_render::{LogFormat, Output};

use clap::{Parser, Subcommand};
use semel_render::Colour;

/// Makes the effect of each message happen once, or leaves a visible record that says why not.
#[derive(Debug, Parser)]
#[command(
    name = "semel",
    version = env!("SEMEL_VERSION"),
    max_term_width = 100,
    arg_required_else_help = true
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Use of colours: auto (on a terminal, unless `NO_COLOR` is set), always or never
    #[arg(
        long = "color",
        global = true,
        value_parser = semel_args::colour(),
        hide_possible_values = true,
        value_name = "WHEN",
        default_value = "auto"
    )]
    pub(crate) colour: Colour,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run what the configuration declares, until the sources end or SIGTERM asks to stop
    #[command(after_help = "Example:\n  semel run examples/payments/semel.toml --output json")]
    Run(Run),
    /// Run messages through a pipeline once more, each marked with the id of the replay
    #[command(
        after_help = "Examples:\n  semel replay --id 2026-11-22-outage --newer-than 6h\n  semel replay --id refund-fix --from messages.ndjson --pipeline refunds --yes"
    )]
    Replay(ReplayArguments),
    /// Pass on the first line of each key: a durable `uniq` for lines that need not be sorted
    #[command(
        after_help = "Examples:\n  semel dedup access.log > once.log\n  semel dedup --key json:/id --to once.ndjson events.ndjson\n  semel dedup --csv --key column:email people.csv\n  semel dedup --ephemeral --key field:1 --delimiter whitespace access.log\n  semel dedup -c words.txt"
    )]
    Dedup(Dedup),
    /// Publish rows to a broker under an identity that outlives the process: killed and run again, it goes on
    #[command(
        after_help = "Examples:\n  semel publish --to kafka://127.0.0.1:9092 --stream orders --order json:/customer orders.ndjson\n  psql -Atc 'SELECT row_to_json(o) FROM orders o' | semel publish --to nats://127.0.0.1:4222 --stream orders --id json:/id"
    )]
    Publish(Publish),
    /// Look at the producers of a store, and freeze or release them
    #[command(subcommand)]
    Producers(producers::Producers),
    /// Say what a code means, whether anything was applied, and what to do
    #[command(after_help = "Example:\n  semel explain store-in-use")]
    Explain(Explain),
    /// Write a configuration to begin with, a sample with duplicates, and what to type next
    #[command(after_help = "Example:\n  semel init shop --effect http --level intermediate")]
    Init(Init),
    /// Say what each pipeline promises, what it rests on, and what stands in the way
    #[command(after_help = "Example:\n  semel check --rate 50 --sample payments.ndjson")]
    Check(Check),
    /// Play a bad day on scratch data, and say whether it ended as promised and who would have been told
    #[command(
        after_help = "Examples:\n  semel gameday crash\n  semel gameday ttl --config semel.toml --pipeline payments"
    )]
    Gameday(Gameday),
    /// Look at the configuration
    #[command(subcommand)]
    Config(Config),
    /// Look at keys on record, and give orders about them
    #[command(subcommand)]
    Keys(keys::Keys),
    /// Look at effects that nobody knows to have happened, and resolve them
    #[command(subcommand)]
    InDoubt(in_doubt::InDoubt),
    /// Look at messages whose operations were given up, and run them again or drop them
    #[command(subcommand)]
    DeadLetters(dead_letters::DeadLetters),
    /// Look at messages that were set aside unrun, and release or drop them
    #[command(subcommand)]
    Quarantine(quarantine::Quarantine),
    /// Pause, drain and resume pipelines
    #[command(subcommand)]
    Pipelines(pipelines::Pipelines),
    /// Look after the store as a whole
    #[command(subcommand)]
    Store(store::Store),
    /// Say who may call the APIs of a worker
    #[command(subcommand)]
    Token(token::Token),
    /// Print what a shell needs to complete these commands
    #[command(
        after_help = "Example:\n  semel completions bash > ~/.local/share/bash-completion/completions/semel"
    )]
    Completions(Completions),
    /// Write the manual pages
    #[command(after_help = "Example:\n  semel man ~/.local/share/man/man1\n  semel man | man -l -")]
    Man(Man),
}

#[cfg(test)]
mod tests;
