//! One connection to one server, opened on demand and reopened after it broke.
//!
//! The socket is ours and not the driver's, so that three things are certain: nothing is ever sent twice, a command
//! that was never sent is known as such, and a failed handshake says what was wrong.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex as Fast, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, RedisConnectionInfo, RedisError, Value};
use rustix::net::sockopt;
use semel_core::{Error, Result};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Mutex, Notify};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};
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
    state: Arc<State>,
}

/// State that all calls on a connection share. With the last of them the connection ends, whatever is still unanswered.
struct State {
    driver: AbortHandle,
    is_gone: Arc<AtomicBool>,
    silence: Fast<Silence>,
    /// Wakes whoever waits for a sign of life: an answer came, whosever it is.
    heard: Notify,
}

/// The silence of a server that was asked something.
#[derive(Default)]
struct Silence {
    /// Calls that wait for an answer.
    waiting: usize,
    /// The moment since which something is unanswered and nothing came.
    since: Option<Instant>,
    /// The moment up to which the server is asked for a sign of life.
    until: Option<Instant>,
}

/// A call that waits for its answer.
struct Waiting<'l> {
    state: &'l State,
    is_heard: bool,
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
        let known = slot.take_if(|it| Arc::ptr_eq(&it.state, &live.state));
        known.is_some()
    }

    /// Ends a connection on which no answer came: whoever waits on it hears so at once. Returns whether it was still
    /// the one of this place.
    pub(crate) fn give_up(&self, live: &Live) -> bool {
        let was_current = self.let_go_of(live);
        live.state.end();
        was_current
    }

    /// Asks whether a doubted connection still carries anything, and makes the next call reconnect if it does not;
    /// returns whether that is so. Of the callers that find it doubted at the same time, one asks. Those that wait on it
    /// go on: the server may be slow.
    pub(crate) async fn is_lost(&self, patience: Duration) -> bool {
        let doubted = || self.current().filter(Live::is_doubted);
        if doubted().is_none() {
            return false;
        }
        let _asking = self.connecting.lock().await;
        let Some(live) = doubted() else {
            return false;
        };
        !live.still_hears(patience).await && self.let_go_of(&live)
    }

    fn current(&self) -> Option<Live> {
        let live = self.slot().clone();
        live.filter(|live| !live.state.is_gone.load(Ordering::Acquire))
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Live>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    /// Sends a command, once.
    pub(crate) async fn ask(&self, command: &Cmd) -> Result<Value, RedisError> {
        let mut connection = self.connection.clone();
        let answer = self.heard(connection.send_packed_command(command)).await?;
        answer.extract_error()
    }

    /// Sends a command to a server that a slot is moving to.
    pub(crate) async fn ask_moving(&self, command: &Cmd) -> Result<Value, RedisError> {
        let mut both = redis::Pipeline::with_capacity(2);
        both.cmd("ASKING").ignore().add_command(command.clone());
        let mut connection = self.connection.clone();
        let mut answers = self
            .heard(connection.send_packed_commands(&both, 1, 1))
            .await?;
        answers.pop().unwrap_or(Value::Nil).extract_error()
    }

    /// Waits for an answer. Whether one comes decides if the connection is doubted.
    async fn heard<T>(
        &self,
        call: impl Future<Output = Result<T, RedisError>>,
    ) -> Result<T, RedisError> {
        let mut waiting = Waiting::begin(&self.state);
        let answer = call.await;
        waiting.is_heard = is_said(&answer);
        answer
    }

    fn is_doubted(&self) -> bool {
        let since = self.state.silence().since;
        since.is_some_and(|it| it.elapsed() >= DOUBT)
    }

    /// Asks for a sign of life, and waits for it as long as `patience`, counted from the first caller that asked: each
    /// may have less time than that. An answer to any call is one: this call's own stands behind those of all calls
    /// before it, which may take longer than `patience` together.
    async fn still_hears(&self, patience: Duration) -> bool {
        // Before the moment is read, which an answer clears: none between the two is missed.
        let heard = self.state.heard.notified();
        let least = Instant::now() + patience;
        let until = *self.state.silence().until.get_or_insert(least);
        let ping = redis::cmd("PING");
        let sign = async {
            tokio::select! {
                () = heard => true,
                answer = self.ask(&ping) => is_said(&answer),
            }
        };
        timeout_at(until, sign).await.unwrap_or(false)
    }
}

impl State {
    fn end(&self) {
        self.is_gone.store(true, Ordering::Release);
        self.driver.abort();
    }

    fn silence(&self) -> std::sync::MutexGuard<'_, Silence> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // The driver would wait for what nobody waits for any more, and for ever if the network has lost it.
        self.end();
    }
}

impl<'l> Waiting<'l> {
    fn begin(state: &'l State) -> Self {
        let mut silence = state.silence();
        silence.waiting += 1;
        silence.since.get_or_insert_with(Instant::now);
        Self {
            state,
            is_heard: false,
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut silence = self.state.silence();
        silence.waiting -= 1;
        if self.is_heard {
            silence.since = (silence.waiting > 0).then(Instant::now);
            silence.until = None;
            drop(silence);
            self.state.heard.notify_waiters();
        }
    }
}

/// Reports whether the server itself said this.
fn is_said<T>(answer: &Result<T, RedisError>) -> bool {
    let is_unheard = |error: &RedisError| error.is_timeout() || error.is_unrecoverable_error();
    !answer.as_ref().is_err_and(is_unheard)
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
    // Nor is this one, without which the system takes hours to notice a server that is gone without a word.
    let _ = notice_absence(&socket);
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

/// Has the system ask a silent server whether it is still there, and close the connection if it does not answer.
fn notice_absence(socket: &TcpStream) -> std::io::Result<()> {
    sockopt::set_tcp_keepidle(socket, SILENCE)?;
    sockopt::set_tcp_keepintvl(socket, ASKED_EVERY)?;
    sockopt::set_tcp_keepcnt(socket, ASKED_TIMES)?;
    sockopt::set_socket_keepalive(socket, true)?;
    #[cfg(target_os = "linux")]
    sockopt::set_tcp_user_timeout(socket, UNHEARD_MILLIS)?;
    Ok(())
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
    // Ends with the connection. While something is unanswered, the driver does not end with the last call that holds
    // it; the state does that.
    let driving = tokio::spawn(async move {
        driver.await;
        gone.store(true, Ordering::Release);
    });
    let state = State {
        driver: driving.abort_handle(),
        is_gone,
        silence: Fast::default(),
        heard: Notify::new(),
    };
    Ok(Live {
        connection,
        run: "".into(),
        state: Arc::new(state),
    })
}

/// Returns the first command to a server.
pub(crate) fn info_command() -> Cmd {
    redis::cmd("INFO")
}

/// The silence after which the next call asks for a sign of life first.
const DOUBT: Duration = Duration::from_secs(2);
/// The silence after which the system asks the server whether it is there; this and the next ones are as in the
/// PostgreSQL store.
const SILENCE: Duration = Duration::from_secs(30);
/// The interval at which it asks again.
const ASKED_EVERY: Duration = Duration::from_secs(5);
/// The number of times it asks.
const ASKED_TIMES: u32 = 4;
/// The longest time that the server may leave what was sent to it unacknowledged.
#[cfg(target_os = "linux")]
const UNHEARD_MILLIS: u32 = 50_000;

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A server that answers is there, although the sign of life that it is asked for stands behind other calls.
    #[tokio::test]
    async fn an_answer_to_another_call_is_a_sign_of_life() {
        let (client, mut server) = tokio::io::duplex(1 << 10);
        let settings = Settings {
            login: RedisConnectionInfo::default().set_skip_set_lib_name(),
            tls: None,
            patience: NEVER,
            answer_timeout: NEVER,
            is_cluster: false,
        };
        let address = Address {
            host: "localhost".into(),
            port: 6379,
        };
        let live = speak(client, &address, &settings).await;
        let live = live.expect("a connection");
        let link = Link::new();
        *link.slot() = Some(live.clone());
        let command = redis::cmd("GET");
        let lost = async {
            live.state.silence().since = Instant::now().checked_sub(DOUBT);
            link.is_lost(NEVER).await
        };
        let answer_the_first = async {
            let mut seen = Vec::new();
            while !seen.ends_with(b"PING\r\n") {
                server.read_buf(&mut seen).await.expect("a command");
            }
            server.write_all(b"+OK\r\n").await.expect("an answer");
        };
        let all = async { tokio::join!(live.ask(&command), lost, answer_the_first) };
        let (answer, is_lost, ()) = timeout(LONG, all).await.expect("a sign of life");
        assert_eq!(answer, Ok(Value::Okay));
        assert!(!is_lost, "it answers");
        assert!(link.current().is_some(), "it stays the one of its place");
    }

    /// Longer than the test waits.
    const NEVER: Duration = Duration::from_secs(3_600);
    /// More than the test waits if all is as it should be.
    const LONG: Duration = Duration::from_secs(60);
}
