//! One connection, and its failures. A link that broke is dropped and another is opened: the driver would repair it in
//! silence, though the server has forgotten the requests on it, and later send messages that were given up long ago.

use std::future::Future;
use std::time::Duration;

use async_nats::jetstream::{self, Context};
use async_nats::{Client, Event, ServerError};
use semel_core::code::Code;
use semel_core::{Error, Result};
use tokio::sync::watch;

use crate::address::Address;
use crate::error::{away, connecting, right_missing};

/// The longest wait for a handshake, and for an answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(5);
/// Interval of pings; after three without an answer, a server is taken for gone.
const PING: Duration = Duration::from_secs(5);

/// More messages than any sink leaves unconfirmed.
const UNCONFIRMED: usize = 1 << 20;

/// A connection to the server.
pub(crate) struct Link {
    pub(crate) client: Client,
    pub(crate) context: Context,
    connection_error: watch::Receiver<ConnectionError>,
    code: Code,
    servers: Box<str>,
}

#[derive(Clone, Debug, Default)]
struct ConnectionError {
    broken: bool,
    /// A right that the server refused.
    refused: Option<String>,
}

impl Link {
    /// Connects. Errors bear `code`; the wait for JetStream is at most `patience`.
    pub(crate) async fn open(address: &Address, code: Code, patience: Duration) -> Result<Self> {
        let (servers, options) = address.dial().await?;
        let (sender, connection_error) = watch::channel(ConnectionError::default());
        let options = options
            .name("semel")
            .connection_timeout(PATIENCE)
            .request_timeout(Some(PATIENCE))
            .ping_interval(PING)
            .event_callback(move |event| {
                note(&sender, event);
                std::future::ready(())
            });
        let client = options.connect(servers).await;
        let client = client.map_err(|error| connecting(code, &address.name, error))?;
        let context = jetstream::ContextBuilder::new()
            .timeout(patience)
            .ack_timeout(patience)
            // Bounded by the senders: the driver counts messages that were sent and not waited for yet.
            .max_ack_inflight(UNCONFIRMED)
            .build(client.clone());
        Ok(Self {
            client,
            context,
            connection_error,
            code,
            servers: address.name.clone(),
        })
    }

    /// Returns the reason why it can no longer be used, if there is one.
    pub(crate) fn connection_error(&self) -> Option<Error> {
        let connection_error = self.connection_error.borrow();
        self.error_of(&connection_error)
    }

    /// Waits until it can no longer be used.
    pub(crate) async fn wait_for_error(&self) -> Error {
        let mut connection_error = self.connection_error.clone();
        loop {
            if let Some(error) = self.error_of(&connection_error.borrow_and_update()) {
                return error;
            }
            if connection_error.changed().await.is_err() {
                return self.lost();
            }
        }
    }

    /// Returns the result of `work`, unless the link breaks before.
    pub(crate) async fn during<T>(&self, work: impl Future<Output = T>) -> Result<T> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            error = self.wait_for_error() => Err(error),
        }
    }

    /// Sends the rest and disconnects.
    pub(crate) async fn end(self) {
        // Both fail only when there is nobody left to send to.
        let _ = self.client.flush().await;
        let _ = self.client.drain().await;
    }

    fn error_of(&self, connection_error: &ConnectionError) -> Option<Error> {
        match &connection_error.refused {
            Some(said) => Some(right_missing(said)),
            None => connection_error.broken.then(|| self.lost()),
        }
    }

    fn lost(&self) -> Error {
        away(
            self.code,
            format!("the connection to {} broke", self.servers),
        )
    }
}

fn note(sender: &watch::Sender<ConnectionError>, event: Event) {
    match event {
        Event::Disconnected | Event::Closed => {
            sender.send_modify(|connection_error| connection_error.broken = true);
        }
        Event::ServerError(ServerError::Other(said))
            if said.to_ascii_lowercase().contains("permissions violation") =>
        {
            sender.send_modify(|connection_error| connection_error.refused = Some(said));
        }
        // A slow consumer lost messages that the server delivers again; all else ends in a disconnection.
        Event::Connected
        | Event::LameDuckMode
        | Event::Draining
        | Event::SlowConsumer(_)
        | Event::ServerError(_)
        | Event::ClientError(_) => {}
    }
}
