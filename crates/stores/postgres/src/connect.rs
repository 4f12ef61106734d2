//! Connections: the pool, its settings on the server, and encryption.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::tokio_postgres::{NoTls, config::SslMode};
use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use semel_core::Result;
use tokio_postgres_rustls::MakeRustlsConnect;
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

use crate::config::{Address, Options};
use crate::error::misconfigured;

/// Builds a pool of connections that are opened on demand.
pub(crate) fn pool(address: &Address, options: &Options) -> Result<Pool> {
    let config = ManagerConfig {
        // Every call ends its transaction, and a broken connection shows.
        recycling_method: RecyclingMethod::Fast,
    };
    let manager = if address.config.get_ssl_mode() == SslMode::Disable {
        Manager::from_config(address.config.clone(), NoTls, config)
    } else {
        let tls = MakeRustlsConnect::new(tls(address.root_cert.as_deref())?);
        Manager::from_config(address.config.clone(), tls, config)
    };
    let settings = settings(options.statement_timeout, &address.schema);
    let prepared = Hook::async_fn(move |client, _| {
        let settings = settings.clone();
        Box::pin(async move {
            let done = client.batch_execute(&settings).await;
            done.map_err(HookError::Backend)
        })
    });
    Pool::builder(manager)
        .max_size(address.connections.unwrap_or(options.connections).max(1))
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(options.patience))
        .create_timeout(Some(options.patience))
        .post_create(prepared)
        .build()
        .map_err(|error| misconfigured("no pool of connections can be made").with_source(error))
}

/// Settings of every new connection. A committed answer must survive whatever the server's own default is, and a
/// process that stands still must not keep others waiting, neither between two statements nor while it should be
/// reading an answer. A user named like the store's schema finds the tables of effects before ours: the server looks
/// for names in the schema of the user first, unless it is told otherwise.
fn settings(statement_timeout: Duration, schema: &str) -> Box<str> {
    let millis = statement_timeout.as_millis().max(1);
    format!(
        "SET default_transaction_isolation TO 'read committed'; \
         SET statement_timeout TO {millis}; \
         SET lock_timeout TO {millis}; \
         SET idle_in_transaction_session_timeout TO {millis}; \
         SET tcp_user_timeout TO {millis}; \
         SELECT set_config('synchronous_commit', 'on', false) \
         WHERE current_setting('synchronous_commit') = 'off'; \
         SELECT set_config('search_path', concat_ws(', ', nullif(regexp_replace(\
         current_setting('search_path'), '^\"\\$user\"[, ]*', ''), ''), '\"$user\"'), false) \
         WHERE current_user = '{schema}' AND current_setting('search_path') LIKE '\"$user\"%'"
    )
    .into()
}

/// Builds the encryption settings, which check every certificate against the system's roots or those of a file.
pub(crate) fn tls(root_cert: Option<&Path>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    if let Some(path) = root_cert {
        let unreadable = || {
            misconfigured(&format!(
                "`sslrootcert` {} cannot be read as PEM certificates",
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
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}
