//! One connection to one server, opened on demand and reopened after it broke.
//!
//! The socket is ours and not the driver's, so that three things are certain: nothing is ever sent twice, a command
//! that was never sent is known as such, and a failed handshake says what was wrong.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as Fast, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisError, Value};
use semel_core::{Error, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Mutex;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::config::Address;
use crate::error::{misconfigured, no_tls, not_connected, of_begin, slow, unreachable};
use crate::info::Info;

/// Settings of every connection of a store.
pub(crate) struct Settings {
    pub(crate) login: RedisConnectionInfo,
    pub(crate) tls: Option<TlsConnector>,
    pub(crate) patience: Duration,
    pub(crate) answer_timeout: Duration,
    pub(crate) is_cluster: bool,
}

/// A place for one connection.
pub(crate) struct Link {
    current: Fast<Option<Live>>,
    /// Held by the task that connects; counts the failures, and keeps the last one.
    connecting: Mutex<Failures>,
    failed: std::sync::atomic::AtomicU64,
}

#[derive(Default)]
struct Failures {
    last: Option<Error>,
}

/// An open connection.
#[derive(Clone)]
pub(crate) struct Live {
    connection: MultiplexedConnection,
    /// Name of the server process, so that scripts see that another one serves.
    pub(crate) run: Arc<str>,
    is_gone: Arc<AtomicBool>,
}

impl Link {
    pub(crate) fn new() -> Self {
        Self {
            current: Fast::default(),
            connecting: Mutex::default(),
            failed: std::sync::atomic::AtomicU64::new(0),
        }
    }

    /// Returns the connection, opened if there is none. Of the callers that wait at the same time, one tries.
    pub(crate) async fn live(&self, address: &Address, settings: &Settings) -> Result<Live> {
        if let Some(live) = self.current() {
            return Ok(live);
        }
        let failed = self.failed.load(Ordering::Acquire);
        let mut failures = self.connecting.lock().await;
        if let Some(live) = self.current() {
            return Ok(live);
        }
        if self.failed.load(Ordering::Acquire) != failed
            && let Some(error) = &failures.last
        {
            return Err(error.clone());
        }
        match connect(address, settings).await {
            Ok((live, _)) => {
                *self.slot() = Some(live.clone());
                failures.last = None;
                Ok(live)
            }
            Err(error) => {
                self.failed.fetch_add(1, Ordering::AcqRel);
                failures.last = Some(error.clone());
                Err(error)
            }
        }
    }

    /// Makes the next call reconnect: the server is no longer what it was.
    pub(crate) fn let_go(&self) {
        *self.slot() = None;
    }

    /// Makes the next call reconnect if this connection is still the one of this place; returns whether it was.
    pub(crate) fn let_go_of(&self, live: &Live) -> bool {
        let mut slot = self.slot();
        let known = slot.take_if(|it| Arc::ptr_eq(&it.is_gone, &live.is_gone));
        known.is_some()
    }

    fn current(&self) -> Option<Live> {
        let live = self.slot().clone();
        live.filter(|live| !live.is_gone.load(Ordering::Acquire))
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Live>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    /// Sends a command, once.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, RedisError> {
        let answer = self.connection.clone().send_packed_command(command).await?;
        answer.extract_error()
    }

    /// Sends a command to a server that a slot is moving to.
    pub(crate) async fn ask_moving(&self, command: &Cmd) -> Result<Value, RedisError> {
        let mut both = redis::Pipeline::with_capacity(2);
        both.cmd("ASKING").ignore().add_command(command.clone());
        let mut answers = self
            .connection
            .clone()
            .send_packed_commands(&both, 1, 1)
            .await?;
        answers.pop().unwrap_or(Value::Nil).extract_error()
    }
}

/// Connects, and reads the server's report on itself.
pub(crate) async fn connect(address: &Address, settings: &Settings) -> Result<(Live, Info)> {
    let too_slow = || slow(address, settings.patience, settings.tls.is_some());
    let made = timeout(settings.patience, make(address, settings)).await;
    let live = made.unwrap_or_else(|_| Err(too_slow()))?;
    let told = timeout(settings.patience, live.ask(&info_command())).await;
    let told = told.map_err(|_| too_slow())?;
    let info = Info::read(&told.map_err(of_begin)?);
    info.check(address, settings.is_cluster)?;
    let run = info.run().into();
    Ok((Live { run, ..live }, info))
}

async fn make(address: &Address, settings: &Settings) -> Result<Live> {
    let socket = TcpStream::connect((&*address.host, address.port)).await;
    let socket = socket.map_err(|error| unreachable(error, address))?;
    // Without it, a small call waits for the one before it; no reason to fail.
    let _ = socket.set_nodelay(true);
    match &settings.tls {
        None => speak(socket, address, settings).await,
        Some(tls) => {
            let name = ServerName::try_from(String::from(&*address.host)).map_err(|_| {
                misconfigured("the host of store.url is no name that a certificate can have")
            })?;
            let socket = tls.connect(name, socket).await;
            speak(
                socket.map_err(|error| no_tls(error, address))?,
                address,
                settings,
            )
            .await
        }
    }
}

async fn speak<S>(socket: S, address: &Address, settings: &Settings) -> Result<Live>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let config = AsyncConnectionConfig::new()
        .set_response_timeout(Some(settings.answer_timeout))
        .set_pipeline_buffer_size(256)
        .set_write_backpressure_boundary(256 << 10);
    let made = MultiplexedConnection::new_with_config(&settings.login, socket, config).await;
    let (connection, driver) = made.map_err(|error| not_connected(error, address))?;
    let is_gone = Arc::new(AtomicBool::new(false));
    let gone = Arc::clone(&is_gone);
    // Ends with the connection, or with the last call that holds it.
    tokio::spawn(async move {
        driver.await;
        gone.store(true, Ordering::Release);
    });
    Ok(Live {
        connection,
        run: "".into(),
        is_gone,
    })
}

/// Returns the first command to a server.
pub(crate) fn info_command() -> Cmd {
    redis::cmd("INFO")
}
