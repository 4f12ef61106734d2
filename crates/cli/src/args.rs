//! Exactly what was typed. One file per verb; arguments that every verb takes are here.

mod admin;
mod check;
mod completions;
mod config;
pub(crate) mod dead_letters;
mod dedup;
mod explain;
mod gameday;
pub(crate) mod in_doubt;
pub(crate) mod init;
pub(crate) mod keys;
mod log;
mod man;
pub(crate) mod pipelines;
pub(crate) mod producers;
mod publish;
pub(crate) mod quarantine;
mod replay;
mod run;
mod shared;
pub(crate) mod store;
pub(crate) mod token;
pub(crate) mod transfer;
pub(crate) mod value;

pub(crate) use admin::Admin;
pub(crate) use check::Check;
pub(crate) use completions::{Completions, Shell};
pub(crate) use config::{Config, ConfigCheck, ConfigShow, Language, Named};
pub(crate) use dedup::{Dedup, KeyPart, OnDoubt};
pub(crate) use explain::Explain;
pub(crate) use gameday::Gameday;
pub(crate) use init::Init;
pub(crate) use log::Log;
pub(crate) use man::Man;
pub(crate) use publish::Publish;
pub(crate) use replay::Replay;
pub(crate) use run::{FailOn, Run};
pub(crate) use shared::{Audit, Confirm, Format, Listing, Rerun};

use std::ops::Deref;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use semel_config::Overrides;
use semel_core::Scope;
use semel_core::key::InvalidScope;
use semel_render::Colour;
pub(crate) use semel_render::{LogFormat, Output};

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
    /// When to use colours: auto (on a terminal, unless `NO_COLOR` is set), always or never
    #[arg(
        long = "color",
        global = true,
        value_parser = shared::colour(),
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
    Replay(Replay),
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

#[derive(Clone, Debug, Args)]
pub(crate) struct Common {
    /// The configuration file [default: semel.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// The store to use instead of the configured one; a secret is better off in `SEMEL__STORE__URL`
    #[arg(long, value_name = "URL")]
    pub(crate) store: Option<String>,
    /// Only this pipeline
    #[arg(long, value_name = "NAME")]
    pub(crate) pipeline: Option<String>,
}

impl Common {
    /// The settings that override the configuration.
    pub(crate) fn overrides(&self) -> Overrides {
        Overrides {
            store: self.store.clone(),
            pipeline: self.pipeline.clone(),
        }
    }
}

/// [`Common`] for verbs that name keys or list: they may be about one tenant.
#[derive(Clone, Debug, Args)]
pub(crate) struct Within {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    admin: Admin,
    /// Only this tenant; '' is the tenant of pipelines that have none
    #[arg(long, value_name = "NAME", value_parser = tenant)]
    pub(crate) tenant: Option<String>,
}

impl Deref for Within {
    type Target = Common;

    fn deref(&self) -> &Common {
        &self.common
    }
}

impl From<Common> for Within {
    /// Of whichever tenant.
    fn from(common: Common) -> Self {
        Self {
            common,
            admin: Admin::default(),
            tenant: None,
        }
    }
}

fn tenant(text: &str) -> Result<String, InvalidScope> {
    Scope::new(text, "any").map(|_| text.to_owned())
}

/// [`Common`] for verbs that are about no pipeline.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// The configuration file [default: semel.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The store to use instead of the configured one; a secret is better off in `SEMEL__STORE__URL`
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    #[command(flatten)]
    admin: Admin,
}

/// The worker that was named, if it is not overruled by a store of this machine.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door<'a> {
    pub(crate) admin: &'a Admin,
    /// True if a store or a configuration was typed.
    pub(crate) is_here: bool,
    /// The pipeline that was typed.
    pub(crate) pipeline: Option<&'a str>,
    /// The tenant that was typed.
    pub(crate) tenant: Option<&'a str>,
}

impl Within {
    pub(crate) fn door(&self) -> Door<'_> {
        Door {
            admin: &self.admin,
            is_here: self.common.config.is_some() || self.common.store.is_some(),
            pipeline: self.common.pipeline.as_deref(),
            tenant: self.tenant.as_deref(),
        }
    }
}

impl Place {
    pub(crate) const fn door(&self) -> Door<'_> {
        Door {
            admin: &self.admin,
            is_here: self.config.is_some() || self.store.is_some(),
            pipeline: None,
            tenant: None,
        }
    }

    pub(crate) fn common(&self) -> Within {
        Within::from(Common {
            config: self.config.clone(),
            store: self.store.clone(),
            pipeline: None,
        })
    }
}

#[cfg(test)]
mod tests;
