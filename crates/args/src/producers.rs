//! `semel producers`.

use clap::{Args, Subcommand};
use semel_core::producer::ProducerName;

use super::{Audit, Confirm, Format, Listing, Place};

#[derive(Debug, Subcommand)]
pub enum Producers {
    /// List the producers of the store, and what waits in each
    #[command(after_help = "Example:\n  semel producers list --store sqlite:./semel.db")]
    List(List),
    /// Show a producer and its streams
    #[command(after_help = "Example:\n  semel producers show billing --store sqlite:./semel.db")]
    Show(Show),
    /// Keep the messages of a producer from now on, and publish none
    #[command(after_help = "Example:\n  semel producers freeze billing --reason 'case 4711' --yes")]
    Freeze(Change),
    /// Publish what was kept of a frozen producer, in order, and then what is new
    #[command(after_help = "Example:\n  semel producers thaw billing --yes")]
    Thaw(Change),
    /// Publish what was kept of a frozen producer until now, and keep what is new
    #[command(after_help = "Example:\n  semel producers release billing --yes")]
    Release(Change),
}

#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub listing: Listing,
}

#[derive(Debug, Args)]
pub struct Show {
    /// The name of the producer, or its id
    #[arg(value_name = "PRODUCER")]
    pub producer: ProducerName,
    /// The one that sends its messages here, if another that publishes from here has the same name
    #[arg(long)]
    pub sender: bool,
    /// The one that publishes from here, if another that sends its messages here has the same name
    #[arg(long, conflicts_with = "sender")]
    pub publisher: bool,
    #[command(flatten)]
    pub place: Place,
    #[command(flatten)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct Change {
    #[command(flatten)]
    pub which: Show,
    #[command(flatten)]
    pub audit: Audit,
    #[command(flatten)]
    pub confirm: Confirm,
}
