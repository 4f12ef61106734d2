//! `semel pipelines`.

use clap::{Args, Subcommand};

use super::{Audit, Confirm, Format, Listing, Place};

#[derive(Debug, Subcommand)]
pub enum Pipelines {
    /// List the pipelines of the configuration, and which of them an order pauses
    #[command(after_help = "Example:\n  semel pipelines list")]
    List(List),
    /// Let pipelines begin nothing more: what runs is finished, the rest is given back
    #[command(after_help = "Example:\n  semel pipelines pause payments --reason 'INC-7' --yes")]
    Pause(Order),
    /// Let pipelines take in nothing more: what is in hand is finished, retries too
    #[command(after_help = "Example:\n  semel pipelines drain payments --yes")]
    Drain(Order),
    /// Let pipelines run again
    #[command(after_help = "Example:\n  semel pipelines resume payments --yes")]
    Resume(Order),
}

#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub listing: Listing,
}

#[derive(Debug, Args)]
pub struct Order {
    /// The names of the pipelines
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub audit: Audit,
    #[command(flatten)]
    pub confirm: Confirm,
    #[command(flatten)]
    pub format: Format,
}
