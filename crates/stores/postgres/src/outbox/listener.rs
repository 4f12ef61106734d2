//! A connection that hears when messages are committed.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::task::{Poll, ready};
use std::time::Duration;

use deadpool_postgres::tokio_postgres::config::SslMode;
use deadpool_postgres::tokio_postgres::tls::MakeTlsConnect;
use deadpool_postgres::tokio_postgres::{AsyncMessage, Client, Connection, NoTls, Socket};
use semel_core::Result;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::config::Address;
use crate::connect::tls;

/// Listens for as long as it lives, and connects again when the connection breaks. What was committed meanwhile is
/// left to whoever looks now and then.
pub(crate) struct Listener {
    heard: Arc<Notify>,
    _task: JoinSet<()>,
}

impl Listener {
    /// Begins to listen at this address.
    pub(crate) fn begin(address: &Address) -> Result<Self> {
        let heard = Arc::new(Notify::new());
        let mut task = JoinSet::new();
        let config = address.config.clone();
        if config.get_ssl_mode() == SslMode::Disable {
            task.spawn(listen(config, NoTls, Arc::clone(&heard)));
        } else {
            let tls = MakeRustlsConnect::new(tls(address.root_cert.as_deref())?);
            task.spawn(listen(config, tls, Arc::clone(&heard)));
        }
        Ok(Self { heard, _task: task })
    }

    /// Waits until something was committed since the last time.
    pub(crate) async fn heard(&self) {
        self.heard.notified().await;
    }
}

async fn listen<T>(config: deadpool_postgres::tokio_postgres::Config, tls: T, heard: Arc<Notify>)
where
    T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
    T::Stream: Send,
    T::TlsConnect: Send,
    <T::TlsConnect as deadpool_postgres::tokio_postgres::tls::TlsConnect<Socket>>::Future: Send,
{
    loop {
        // A server that is away is told by the calls of the pool.
        if let Ok((client, connection)) = config.connect(tls.clone()).await {
            hear(client, connection, &heard).await;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Notes each notification, until the connection breaks.
async fn hear<S, T>(client: Client, mut connection: Connection<S, T>, heard: &Notify)
where
    S: AsyncRead + AsyncWrite + Unpin,
    T: AsyncRead + AsyncWrite + Unpin,
{
    let listening = async {
        if client.batch_execute("LISTEN semel_outbox").await.is_ok() {
            heard.notify_one();
            pending::<()>().await;
        }
    };
    let messages = poll_fn(|context| {
        loop {
            match ready!(connection.poll_message(context)) {
                Some(Ok(AsyncMessage::Notification(_))) => heard.notify_one(),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(()),
            }
        }
    });
    tokio::select! {
        () = listening => {}
        () = messages => {}
    }
}

/// The pause between two tries to connect.
const PAUSE: Duration = Duration::from_secs(1);
