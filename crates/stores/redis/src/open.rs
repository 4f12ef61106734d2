//! Connects to the servers, checks that they are fit, and finds or creates the store.

use std::path::Path;
use std::sync::{Arc, Mutex};

use redis::RedisConnectionInfo;
use semel_core::port::store::Capabilities;
use semel_core::port::transactional::Statements;
use semel_core::{Code, Error, ErrorKind, Result};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

use crate::buckets::{Buckets, Name, OF_CLUSTER, settings_key, settings_slot};
use crate::config::{Options, StoreAddress, address};
use crate::error::{foreign, misconfigured, of_begin, strange};
use crate::link::Settings;
use crate::preflight::{self, Kept};
use crate::script::{Call, Scripts};
use crate::server::{Asked, Server};
use crate::session::{Reply, Session, given};

/// The newest format, which is the one that this version writes.
pub(crate) const FORMAT: i64 = 2;

/// State of a server, seen without opening it as a store.
#[derive(Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The format of the store there; `None` where there is none.
    pub format: Option<i64>,
    /// Promises of a store there.
    pub capabilities: Capabilities,
    /// Reasons why the database refuses the statements: Redis takes none.
    pub refused: Vec<Option<Error>>,
}

/// Looks at the server of `url`; changes nothing.
///
/// # Errors
///
/// As [`RedisStore::connect`](crate::RedisStore::connect), but an absent store is none.
pub async fn inspect(url: &str, options: Options, statements: &[Statements]) -> Result<Inspection> {
    let address = address(url)?;
    let (server, capabilities) = connect(&address, &options, Kept::Records).await?;
    let found = begin(
        &server,
        &Scripts::new(),
        &address,
        &options,
        OpenMode::Existing,
    )
    .await?;
    let refusal = Error::new(
        ErrorKind::Unsupported,
        "Redis runs no SQL; use SQLite, PostgreSQL or MySQL for a `sql` effect",
    );
    Ok(Inspection {
        format: found.map(|(format, _)| format),
        capabilities,
        refused: statements.iter().map(|_| Some(refusal.clone())).collect(),
    })
}

/// Creates the store at `url` where there is none, or brings an older one forward; returns its format.
///
/// # Errors
///
/// As [`RedisStore::connect`](crate::RedisStore::connect).
pub async fn migrate(url: &str, options: Options) -> Result<i64> {
    open_as(url, &options, OpenMode::Migrate)
        .await
        .map(|_| FORMAT)
}

/// Treatment of a store that is not there, or older.
#[derive(Clone, Copy, Debug)]
enum OpenMode {
    Existing,
    Create,
    /// Created, or brought forward.
    Migrate,
}

/// Opens the state that all calls need.
pub(crate) async fn open(url: &str, options: &Options) -> Result<Session> {
    // A server serves others, too: only the `migrate` command brings it forward.
    let mode = if options.create {
        OpenMode::Create
    } else {
        OpenMode::Existing
    };
    open_as(url, options, mode).await
}

async fn open_as(url: &str, options: &Options, mode: OpenMode) -> Result<Session> {
    let address = address(url)?;
    let (server, _) = connect(&address, options, Kept::Records).await?;
    let scripts = Scripts::new();
    let found = begin(&server, &scripts, &address, options, mode).await?;
    let (format, count) = found.ok_or_else(|| absent(&address.prefix))?;
    if format < FORMAT {
        return Err(outdated(format));
    }
    Ok(Session {
        server,
        scripts,
        buckets: Buckets::new(&address.prefix, count),
        clock: options.clock.clone(),
        allow_eviction: options.allow_eviction,
        swept_to: Mutex::default(),
    })
}

/// Reaches every server and refuses those that are not fit.
pub(crate) async fn connect(
    address: &StoreAddress,
    options: &Options,
    kept: Kept,
) -> Result<(Server, Capabilities)> {
    let settings = Settings {
        login: login(address),
        tls: address
            .is_encrypted
            .then(|| tls(address.ca.as_deref()))
            .transpose()?,
        patience: options.patience,
        answer_timeout: options.answer_timeout,
        is_cluster: address.is_cluster,
    };
    let links = address.connections.unwrap_or(options.connections);
    let server = Server::new(settings, address.addresses.clone(), links);
    server.discover().await?;
    let capabilities = preflight::preflight(&server, options.allow_eviction, kept).await?;
    Ok((server, capabilities))
}

/// Finds the store, or creates it or brings it forward; returns its format and its number of buckets.
async fn begin(
    server: &Server,
    scripts: &Scripts,
    address: &StoreAddress,
    options: &Options,
    mode: OpenMode,
) -> Result<Option<(i64, u16)>> {
    let beside = Buckets::new(&address.prefix, 1);
    let mut call = Call::new(
        &scripts.begin,
        beside.fixed(0),
        beside.share(0),
        given(options.clock.as_ref()),
    );
    call.key(settings_key(&address.prefix));
    call.key(beside.key(0, Name::Scratch));
    let buckets = if address.is_cluster { OF_CLUSTER } else { 1 };
    call.arg(match mode {
        OpenMode::Existing => *b"0",
        OpenMode::Create => *b"1",
        OpenMode::Migrate => *b"2",
    });
    call.arg(FORMAT.to_string()).arg(buckets.to_string());
    let answer = server
        .ask_raw(settings_slot(), &Asked::Script(&call))
        .await?;
    let answer = answer.map_err(|error| {
        if error.code() == Some("WRONGTYPE") {
            return foreign(&address.prefix).with_source(error);
        }
        of_begin(error)
    })?;
    let mut reply = Reply::of(answer)?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| strange());
    let (format, buckets) = (text(reply.bytes()?)?, text(reply.bytes()?)?);
    if format.is_empty() {
        return Ok(None);
    }
    let format: i64 = format.parse().map_err(|_| foreign(&address.prefix))?;
    if format > FORMAT {
        return Err(newer(format));
    }
    let buckets = buckets.parse().ok().filter(|buckets| *buckets > 0);
    let buckets = buckets.ok_or_else(|| foreign(&address.prefix))?;
    Ok(Some((format, buckets)))
}

fn login(address: &StoreAddress) -> RedisConnectionInfo {
    let mut login = RedisConnectionInfo::default()
        .set_db(address.database)
        .set_lib_name("semel", env!("CARGO_PKG_VERSION"));
    if let Some(user) = &address.user {
        login = login.set_username(user);
    }
    if let Some(password) = &address.password {
        login = login.set_password(password);
    }
    login
}

/// Builds the encryption settings, which check every certificate against the system's roots or those of a file.
fn tls(ca: Option<&Path>) -> Result<TlsConnector> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = ca {
        let unreadable = || {
            misconfigured(&format!(
                "`ca` {} cannot be read as PEM certificates",
                path.display()
            ))
        };
        let certificates =
            CertificateDer::pem_file_iter(path).map_err(|error| unreadable().with_source(error))?;
        for certificate in certificates {
            let certificate = certificate.map_err(|error| unreadable().with_source(error))?;
            roots
                .add(certificate)
                .map_err(|error| unreadable().with_source(error))?;
        }
    } else {
        // Some of the system's may be of no use; a handshake says so where it matters.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    }
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| misconfigured("TLS cannot be set up").with_source(error))?;
    let config = config.with_root_certificates(roots).with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

fn absent(prefix: &str) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "there is no store under the prefix `{prefix}`; correct it in store.url, or make one with `semel store \
             migrate`"
        ),
    )
    .not_applied()
}

fn outdated(format: i64) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "the store has format {format} and this program works with {FORMAT}; `semel store migrate --yes` brings \
             it forward"
        ),
    )
    .not_applied()
}

fn newer(format: i64) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "the store has format {format} and this program knows {FORMAT}; use a newer program"
        ),
    )
    .with_code(Code::StoreNewer)
    .not_applied()
}
