//! An inspection of a store that changes nothing, and its migration on request.

use semel_core::port::store::Capabilities;
use semel_core::port::transactional::Statements;
use semel_core::{Error, Result};

use crate::FORMAT;
use crate::config::Options;
use crate::pool::PooledConnection;
use crate::preflight::Settings;
use crate::session::Session;
use crate::transaction::end;
use crate::{ingest, outbox, producers, schema, statements};

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
    /// Reason why it takes no claims as it is set up now: a replica, or a server that takes no writes.
    pub unfit: Option<Error>,
}

/// Looks at the store of `url`, and asks its database about `statements`.
///
/// # Errors
/// As [`MysqlStore::connect`](crate::MysqlStore::connect), but not for a server that takes no writes, nor
/// for tables that are absent or newer.
pub async fn inspect(url: &str, options: Options, statements: &[Statements]) -> Result<Inspection> {
    let session = Session::new(url, &options)?;
    let mut connection = session.connection().await?;
    let inspection = inspect_on(&session, &mut connection, statements).await;
    end(&session, connection).await;
    inspection
}

async fn inspect_on(
    session: &Session,
    connection: &mut PooledConnection,
    asked: &[Statements],
) -> Result<Inspection> {
    let format = schema::format(session, connection).await?;
    if format == Some(FORMAT) {
        schema::check_tables(session, connection).await?;
    }
    let settings = Settings::read(session, connection).await?;
    let mut refused = Vec::with_capacity(asked.len());
    for some in asked {
        refused.push(statements::prepare(session, connection, some).await.err());
    }
    Ok(Inspection {
        format,
        capabilities: settings.capabilities(session),
        refused,
        unfit: settings.check().err(),
    })
}

/// Brings the tables of `url` to [`FORMAT`], and creates them where there are none; returns the format that they have
/// then. Creates the journals of producers and of messages that others send, and an outbox as well, where the user may
/// make tables, and triggers for the outbox, and there is none.
///
/// # Errors
/// As [`MysqlStore::connect`](crate::MysqlStore::connect).
pub async fn migrate(url: &str, options: Options) -> Result<i64> {
    let session = Session::new(url, &options)?;
    let mut connection = session.connection().await?;
    let opened = async {
        Settings::read(&session, &mut connection).await?.check()?;
        match schema::check(&session, &mut connection).await? {
            Some(format) if format < FORMAT => schema::migrate(&session, &mut connection).await?,
            Some(_) | None => {}
        }
        open(&session, &mut connection, true).await?;
        producers::TABLES.migrate(&session, &mut connection).await?;
        ingest::TABLES.migrate(&session, &mut connection).await?;
        outbox::create(&session, &mut connection).await
    };
    let opened = opened.await;
    end(&session, connection).await;
    opened.map(|()| FORMAT)
}

/// Makes sure that there is a store that this version can use.
pub(crate) async fn open(
    session: &Session,
    connection: &mut PooledConnection,
    create: bool,
) -> Result<()> {
    Settings::read(session, connection).await?.check()?;
    match schema::check(session, connection).await? {
        Some(FORMAT) => {}
        // A server serves others, too: only the `migrate` command brings it forward.
        Some(older) => return Err(schema::outdated(session, older)),
        None if !create => return Err(schema::absent(session)),
        None => {
            schema::create(session, connection).await?;
            // Other tables of the same names show here, and those that an older program created meanwhile.
            if let Some(older) = schema::check(session, connection)
                .await?
                .filter(|it| *it < FORMAT)
            {
                return Err(schema::outdated(session, older));
            }
        }
    }
    schema::check_rights(session, connection).await
}
