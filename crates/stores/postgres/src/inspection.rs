//! An inspection of a store that changes nothing, and its migration on request.

use semel_core::port::store::Capabilities;
use semel_core::port::transactional::Statements;
use semel_core::{Error, Result};

use crate::config::Options;
use crate::preflight::Kept;
use crate::store::session;
use crate::{FORMAT, ingest, outbox, preflight, producers, schema, statements};

/// State of a server and the store on it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The format of its tables; none where there is no store.
    pub format: Option<i64>,
    /// Promises of the store as the server is set up now.
    pub capabilities: Capabilities,
    /// Reasons why the server refuses the statements, in their order.
    pub refused: Vec<Option<Error>>,
    /// Reason why it takes no claims as it is set up now: a replica, a server that takes no writes, one that is too
    /// old.
    pub unfit: Option<Error>,
}

/// Looks at the store of `url`, and asks its database about `statements`.
///
/// # Errors
/// As [`PostgresStore::connect`](crate::PostgresStore::connect), but not for tables that are absent or newer, nor for a
/// server that takes no writes: the returned value says so.
pub async fn inspect(url: &str, options: Options, statements: &[Statements]) -> Result<Inspection> {
    let session = session(url, &options)?;
    let client = session.client().await?;
    let format = schema::format(&session, &client).await?;
    let mut refused = Vec::with_capacity(statements.len());
    for some in statements {
        refused.push(statements::prepare(&client, some).await.err());
    }
    Ok(Inspection {
        format,
        capabilities: preflight::preflight(&session, &client, Kept::Records).await?,
        refused,
        unfit: preflight::check(&session, &client).await.err(),
    })
}

/// Brings the tables of `url` to [`FORMAT`], and creates them where there are none; returns the format that they have
/// then. Creates the journals of producers and of messages that others send, and an outbox as well, where the user may
/// make tables and there is none.
///
/// # Errors
/// As [`PostgresStore::connect`](crate::PostgresStore::connect).
pub async fn migrate(url: &str, options: Options) -> Result<i64> {
    let session = session(url, &options)?;
    let mut client = session.client().await?;
    preflight::check(&session, &client).await?;
    if schema::check(&session, &client).await? != Some(FORMAT) {
        schema::create(&session, &mut client).await?;
    }
    producers::TABLES.migrate(&session, &mut client).await?;
    ingest::TABLES.migrate(&session, &mut client).await?;
    outbox::create(&session, &mut client).await?;
    Ok(FORMAT)
}
