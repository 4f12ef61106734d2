//! `semel token`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use semel_core::{Scope, units};

use super::tenant;
use super::{Confirm, Format, Listing};

#[derive(Debug, Subcommand)]
pub enum Token {
    /// Make a token, and print it once; only its hash is kept
    #[command(
        after_help = "Examples:\n  semel token create billing --role operator\n  semel token create acme-billing --role operator --tenant acme --expires 90d --output json\n  semel token create billing --role operator --subject CN=billing,O=Acme"
    )]
    Create(Create),
    /// List the tokens, without their secrets
    #[command(after_help = "Example:\n  semel token list --config semel.toml")]
    List(List),
    /// Refuse a token from now on; running servers notice within two seconds
    #[command(after_help = "Example:\n  semel token revoke billing --yes")]
    Revoke(Revoke),
}

/// The configuration that names the file of tokens.
#[derive(Debug, Args)]
pub struct Kept {
    /// The configuration file [default: semel.toml]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct Create {
    /// A name for the audit trail, which no other token has
    #[arg(value_name = "NAME", value_parser = name)]
    pub name: String,
    /// The rights that it gives
    #[arg(long, value_enum, value_name = "ROLE")]
    pub role: Role,
    /// The only tenant that it may be used for; without it, every tenant
    #[arg(long, value_name = "NAME", value_parser = tenant)]
    pub tenant: Option<String>,
    /// Refuse it after this time; without it, it does not expire
    #[arg(long, value_name = "DURATION", value_parser = lasting)]
    pub expires: Option<Duration>,
    /// The subject of a client's certificate, as in CN=billing,O=Acme: its holder needs no secret
    #[arg(long, value_name = "NAME", value_parser = subject)]
    pub subject: Option<String>,
    #[command(flatten)]
    pub kept: Kept,
    #[command(flatten)]
    pub format: Format,
}

#[derive(Debug, Args)]
pub struct List {
    #[command(flatten)]
    pub kept: Kept,
    #[command(flatten)]
    pub listing: Listing,
}

#[derive(Debug, Args)]
pub struct Revoke {
    /// The name of the token
    #[arg(value_name = "NAME", value_parser = name)]
    pub name: String,
    #[command(flatten)]
    pub kept: Kept,
    #[command(flatten)]
    pub confirm: Confirm,
}

/// The rights of a token; each role has those of the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Reads
    Viewer,
    /// Claims and settles, too
    Operator,
    /// Everything
    Admin,
}

fn name(text: &str) -> Result<String, &'static str> {
    if text.trim().is_empty() || Scope::new("", text).is_err() {
        return Err("wanted is a name of at most 255 bytes, without control characters");
    }
    Ok(text.to_owned())
}

fn subject(text: &str) -> Result<String, &'static str> {
    let is_subject = text.contains('=') && !text.contains(char::is_control) && text.len() <= 4_096;
    if !is_subject {
        return Err(
            "wanted is a subject as `openssl x509 -noout -subject -nameopt RFC2253,utf8` prints it, \
             `CN=billing,O=Acme`",
        );
    }
    Ok(text.to_owned())
}

fn lasting(text: &str) -> Result<Duration, String> {
    let lasting = units::duration(text)?;
    if lasting.is_zero() {
        return Err("it would have expired already".to_owned());
    }
    Ok(lasting)
}
