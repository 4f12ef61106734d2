//! Opening a store by its url.

use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;

use semel_core::{AnyStore, Clock, Error, ErrorKind, Result};
use semel_engine::system::SystemClock;
use semel_store_memory::MemoryStore;

/// Opens the store of `url`, off the runtime's own threads. A server decides on its own clock, unless the
/// caller gives one.
///
/// The future is boxed so that the stores are compiled here, once, and not in each program that opens one.
pub(crate) fn open(url: &str, given: Option<Arc<dyn Clock>>) -> Opening<'_> {
    Box::pin(opened(url, given))
}

type Opening<'a> = Pin<Box<dyn Future<Output = Result<AnyStore>> + Send + 'a>>;

async fn opened(url: &str, given: Option<Arc<dyn Clock>>) -> Result<AnyStore> {
    let clock = || {
        let given = given.clone();
        given.unwrap_or_else(|| Arc::new(SystemClock::new()))
    };
    let (kind, rest) = url.split_once(':').unwrap_or((url, ""));
    let path = rest.strip_prefix("//").unwrap_or(rest);
    match kind {
        "memory" if path.is_empty() => Ok(AnyStore::new(MemoryStore::new(clock()))),
        "memory" => Err(refused("`memory:` has no path".to_owned())),
        "embedded" | "sqlite" if path.is_empty() => Err(refused(format!(
            "`{kind}:` needs a path, as in `{kind}:./data`"
        ))),
        "embedded" => {
            let clock = clock();
            apart(path, move |path| embedded(path, clock)).await
        }
        "sqlite" => {
            let clock = clock();
            apart(path, move |path| sqlite(path, clock)).await
        }
        "mysql" | "mariadb" => mysql(url, given).await,
        "postgres" | "postgresql" => postgres(url, given).await,
        "redis" | "rediss" | "redis+cluster" | "rediss+cluster" => redis(url, given).await,
        // The rest may hold a password.
        kind => {
            let kind: String = kind
                .chars()
                .take(40)
                .filter(char::is_ascii_graphic)
                .collect();
            Err(refused(format!(
                "`{kind}` is no store of this build; a url is `embedded:DIR`, `sqlite:FILE`, \
                 `postgres://…`, `mysql://…`, `redis://…` or `memory:`"
            )))
        }
    }
}

async fn apart(
    path: &str,
    open: impl FnOnce(&Path) -> Result<AnyStore> + Send + 'static,
) -> Result<AnyStore> {
    let path = PathBuf::from(path);
    let opened = tokio::task::spawn_blocking(move || open(&path)).await;
    opened.unwrap_or_else(|why| {
        Err(Error::new(ErrorKind::Internal, "opening the store panicked").with_source(why))
    })
}

#[cfg(feature = "embedded")]
fn embedded(path: &Path, clock: Arc<dyn Clock>) -> Result<AnyStore> {
    use semel_store_embedded::{EmbeddedStore, Options};
    EmbeddedStore::open(path, clock, Options::default()).map(AnyStore::new)
}

#[cfg(not(feature = "embedded"))]
fn embedded(_: &Path, _: Arc<dyn Clock>) -> Result<AnyStore> {
    Err(not_built_in("embedded"))
}

#[cfg(feature = "sqlite")]
fn sqlite(path: &Path, clock: Arc<dyn Clock>) -> Result<AnyStore> {
    use semel_store_sqlite::{Options, SqliteStore};
    SqliteStore::open(path, clock, Options::default()).map(AnyStore::new)
}

#[cfg(not(feature = "sqlite"))]
fn sqlite(_: &Path, _: Arc<dyn Clock>) -> Result<AnyStore> {
    Err(not_built_in("sqlite"))
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str, clock: Option<Arc<dyn Clock>>) -> Result<AnyStore> {
    use semel_store_postgres::{Options, PostgresStore};
    let mut options = Options::default();
    options.clock = clock;
    PostgresStore::connect(url, options)
        .await
        .map(AnyStore::new)
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &str, _: Option<Arc<dyn Clock>>) -> Absent {
    std::future::ready(Err(not_built_in("postgres")))
}

#[cfg(feature = "mysql")]
async fn mysql(url: &str, clock: Option<Arc<dyn Clock>>) -> Result<AnyStore> {
    use semel_store_mysql::{MysqlStore, Options};
    let mut options = Options::default();
    options.clock = clock;
    MysqlStore::connect(url, options).await.map(AnyStore::new)
}

#[cfg(not(feature = "mysql"))]
fn mysql(_: &str, _: Option<Arc<dyn Clock>>) -> Absent {
    std::future::ready(Err(not_built_in("mysql")))
}

#[cfg(feature = "redis")]
async fn redis(url: &str, clock: Option<Arc<dyn Clock>>) -> Result<AnyStore> {
    use semel_store_redis::{Options, RedisStore};
    let mut options = Options::default();
    options.clock = clock;
    RedisStore::connect(url, options).await.map(AnyStore::new)
}

#[cfg(not(feature = "redis"))]
fn redis(_: &str, _: Option<Arc<dyn Clock>>) -> Absent {
    std::future::ready(Err(not_built_in("redis")))
}

/// The opening of a kind of server that is not built in.
#[cfg(not(all(feature = "mysql", feature = "postgres", feature = "redis")))]
type Absent = std::future::Ready<Result<AnyStore>>;

#[cfg(not(all(
    feature = "embedded",
    feature = "mysql",
    feature = "postgres",
    feature = "redis",
    feature = "sqlite"
)))]
fn not_built_in(kind: &str) -> Error {
    let message = format!(
        "a store of kind `{kind}` needs the feature `{kind}` of the crate `semel`: add it to the \
         dependency in Cargo.toml"
    );
    Error::new(ErrorKind::Unsupported, message)
}

fn refused(message: String) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}
