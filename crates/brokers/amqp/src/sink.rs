//! The sink: messages go to one exchange, confirmed by the broker, those of a batch together.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::types::FieldTable;
use lapin::{BasicProperties, Channel, Confirmation, Connection, ExchangeKind, PublisherConfirm};
use semel_core::port::sink::{Publication, Sink};
use semel_core::{Code, Error, ErrorKind, Result};
use tokio::time::{Instant, timeout, timeout_at};

use crate::address::{Address, OPEN, SHORT_BYTES};
use crate::connection::connect;
use crate::error;
use crate::inspection::passively;
use crate::options::SinkOptions;
use crate::session::REPLY_SUCCESS;

/// Publishes to an exchange over one connection, each concurrent batch on a channel of its own.
pub struct AmqpSink {
    address: Address,
    options: SinkOptions,
    /// The latest connection; locked while another one is opened.
    connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
    /// Channels that no batch uses: a batch that is given up takes its own along, so that no later one is answered with
    /// its confirms.
    idle: Mutex<Vec<Line>>,
}

/// A channel that confirms.
struct Line {
    channel: Channel,
    connection: Arc<Connection>,
    /// Bytes that fit into a header frame.
    frame_bytes: usize,
    /// Set once the broker has confirmed anything here.
    is_proven: bool,
}

/// Result of sending a message.
enum Sent {
    Refused(Error),
    Waiting(PublisherConfirm),
    /// The channel had ended, so that nothing was sent.
    Not,
    Lost(lapin::Error),
    Late,
}

/// The broker's report on a message.
enum PublishReport {
    Confirmed,
    Nacked,
    /// It was not sent: the channel had ended.
    Nothing,
    Lost(lapin::Error),
    Late,
}

impl AmqpSink {
    /// Creates a sink that connects with its first batch.
    ///
    /// # Errors
    ///
    /// `InvalidConfig` with code `target-unavailable`: a setting that cannot be meant
    pub fn new(options: SinkOptions) -> Result<Self> {
        let address = Address::of(&options.url, &options.tls, Code::TargetUnavailable)?;
        if options.exchange.len() > SHORT_BYTES || options.routing_key.len() > SHORT_BYTES {
            let words = "the exchange or the routing key has more than 255 bytes";
            return Err(error::config(&address, words.to_owned()));
        }
        Ok(Self {
            address,
            options,
            connection: tokio::sync::Mutex::default(),
            idle: Mutex::default(),
        })
    }

    /// Creates a sink that is connected already.
    ///
    /// # Errors
    ///
    /// As [`AmqpSink::new`], and with code `target-unavailable`: `InvalidConfig` for an exchange that does
    /// not exist or a refused login; `Unavailable` for a broker that is away
    ///
    /// # Cancel safety
    ///
    /// Safe
    pub async fn connect(options: SinkOptions) -> Result<Self> {
        let sink = Self::new(options)?;
        let line = sink.open().await?;
        sink.idle().push(line);
        Ok(sink)
    }

    /// Checks that the exchange is there, or the queue to which the default exchange brings messages, and disconnects
    /// again.
    ///
    /// # Errors
    ///
    /// As [`AmqpSink::connect`], and `InvalidConfig` for a queue that does not exist
    ///
    /// # Cancel safety
    ///
    /// Safe
    pub async fn inspect(options: SinkOptions) -> Result<()> {
        let sink = Self::new(options)?;
        let line = sink.open().await?;
        if sink.options.exchange.is_empty() {
            let queue = &sink.options.routing_key;
            let declared = timeout(OPEN, passively(&line.channel, queue)).await;
            let declared = declared.map_err(|_| error::silent(&sink.address))?;
            declared.map_err(|error| error::of_queue(&sink.address, queue, error))?;
        }
        // It ends with its last handle in any case.
        let _ = line.connection.close(REPLY_SUCCESS, "".into()).await;
        Ok(())
    }

    /// Returns a channel that no other batch uses.
    async fn line(&self) -> Result<Line> {
        let free = {
            let mut idle = self.idle();
            idle.retain(|line| line.channel.status().connected());
            idle.pop()
        };
        match free {
            Some(line) => Ok(line),
            None => self.open().await,
        }
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Line>> {
        // Nothing panics while holding it.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops using a connection that failed a batch, whatever state it reports.
    async fn forget(&self, failed: &Arc<Connection>) {
        let mut latest = self.connection.lock().await;
        latest.take_if(|latest| Arc::ptr_eq(latest, failed));
        self.idle()
            .retain(|line| !Arc::ptr_eq(&line.connection, failed));
    }

    /// Opens another channel, and a connection where there is none.
    async fn open(&self) -> Result<Line> {
        let mut latest = self.connection.lock().await;
        let connection = match latest.take().filter(|it| it.status().connected()) {
            Some(connection) => connection,
            None => Arc::new(connect(&self.address, "semel sink").await?),
        };
        *latest = Some(Arc::clone(&connection));
        drop(latest);
        let made = timeout(OPEN, self.confirming(&connection)).await;
        let made = made.map_err(|_| error::silent(&self.address))?;
        let exchange = &self.options.exchange;
        let channel = made.map_err(|error| error::of_exchange(&self.address, exchange, error))?;
        let frame = connection.configuration().frame_max();
        Ok(Line {
            channel,
            connection,
            // The rest is for the frame itself and the length of the table.
            frame_bytes: usize::try_from(frame)
                .unwrap_or(usize::MAX)
                .saturating_sub(64),
            is_proven: false,
        })
    }

    async fn confirming(&self, connection: &Connection) -> Result<Channel, lapin::Error> {
        let channel = connection.create_channel().await?;
        // The default exchange exists always, and the broker refuses questions about it.
        if !self.options.exchange.is_empty() {
            let passive = ExchangeDeclareOptions {
                passive: true,
                ..ExchangeDeclareOptions::default()
            };
            let name = self.options.exchange.as_str().into();
            channel
                .exchange_declare(name, ExchangeKind::Direct, passive, FieldTable::default())
                .await?;
        }
        channel
            .confirm_select(ConfirmSelectOptions::default())
            .await?;
        Ok(channel)
    }

    /// Sends one, and leaves its confirm for later.
    async fn send(
        &self,
        line: &Line,
        publication: &Publication,
        properties: BasicProperties,
    ) -> Sent {
        if !line.channel.status().connected() {
            return Sent::Not;
        }
        let options = BasicPublishOptions {
            mandatory: true,
            immediate: false,
        };
        let sent = line.channel.basic_publish(
            self.options.exchange.as_str().into(),
            self.options.routing_key.as_str().into(),
            options,
            &publication.payload,
            properties,
        );
        match timeout(self.options.confirm_timeout, sent).await {
            Ok(Ok(confirm)) => Sent::Waiting(confirm),
            Ok(Err(error)) => Sent::Lost(error),
            Err(_) => Sent::Late,
        }
    }

    /// Returns one answer for each, and whether the line can be used again.
    async fn publish_on(&self, line: &mut Line, batch: &[Publication]) -> (Vec<Result<()>>, bool) {
        let mut sent = Vec::with_capacity(batch.len());
        for publication in batch {
            let properties = crate::message::properties(publication, line.frame_bytes);
            sent.push(match properties {
                Ok(properties) => self.send(line, publication, properties).await,
                Err(error) => Sent::Refused(error),
            });
        }
        let deadline = Instant::now() + self.options.confirm_timeout;
        // The driver hands a returned message to the next confirm that it reaches, so its own id must tell whose it is.
        let mut returned = BTreeSet::new();
        let mut heard = Vec::with_capacity(batch.len());
        for sent in sent {
            heard.push(match sent {
                Sent::Refused(error) => Err(error),
                Sent::Not => Ok(PublishReport::Nothing),
                Sent::Lost(cause) => Ok(PublishReport::Lost(cause)),
                Sent::Late => Ok(PublishReport::Late),
                Sent::Waiting(confirm) => Ok(match timeout_at(deadline, confirm).await {
                    Ok(Ok(confirmation)) => {
                        let is_ack = confirmation.is_ack();
                        if let Some(message) = returned_id(confirmation) {
                            returned.insert(message);
                        }
                        line.is_proven |= is_ack;
                        if is_ack {
                            PublishReport::Confirmed
                        } else {
                            PublishReport::Nacked
                        }
                    }
                    Ok(Err(error)) => PublishReport::Lost(error),
                    Err(_) => PublishReport::Late,
                }),
            });
        }
        let is_whole = line.channel.status().connected()
            && !heard
                .iter()
                .any(|heard| matches!(heard, Ok(PublishReport::Late)));
        // The broker's last word on the channel goes for all messages, whichever was the first.
        let last_word = heard.iter().find_map(|heard| match heard {
            Ok(PublishReport::Lost(cause)) if error::said(cause).is_some() => Some(cause.clone()),
            _ => None,
        });
        let useless = last_word.and_then(|cause| self.useless(line, cause));
        let answers = batch
            .iter()
            .zip(heard)
            .map(|(publication, heard)| match heard? {
                _ if returned.contains(&*publication.id) => Err(self.unroutable()),
                PublishReport::Confirmed => Ok(()),
                PublishReport::Nacked => Err(error::away(
                    &self.address,
                    format!(
                        "the broker at {} did not take the message: a queue is full or failed",
                        self.address
                    ),
                )),
                PublishReport::Lost(_) | PublishReport::Nothing if useless.is_some() => {
                    useless.clone().map_or(Ok(()), Err)
                }
                PublishReport::Lost(cause) => Err(self.refused(publication, cause)),
                PublishReport::Nothing => Err(error::away(
                    &self.address,
                    format!("the broker at {} ended the connection", self.address),
                )),
                PublishReport::Late => Err(self.late()),
            });
        (answers.collect(), is_whole)
    }

    /// Returns the error if the broker's last word on a channel says that no message can be published like this: the
    /// exchange is gone, or the right to write is missing.
    ///
    /// Nothing was taken of the first batch of a channel. A later one may have been published until now, and the next
    /// batch is the first of its channel.
    fn useless(&self, line: &Line, last_word: lapin::Error) -> Option<Error> {
        if line.is_proven {
            return None;
        }
        let made = error::of_exchange(&self.address, &self.options.exchange, last_word);
        (made.kind() == ErrorKind::InvalidConfig).then_some(made)
    }

    /// Returns the error for a channel that ended before the confirm: was it because of this message?
    fn refused(&self, publication: &Publication, cause: lapin::Error) -> Error {
        match error::said(&cause) {
            // The broker names the longest message that it takes in its last word.
            Some((error::PRECONDITION_FAILED, words)) if words.contains("max size") => {
                let most = words.rsplit(' ').next().and_then(|word| word.parse().ok());
                let length = publication.payload.len();
                match most {
                    Some(most) if length > most => Error::new(
                        ErrorKind::InvalidInput,
                        format!("the message has {length} bytes, and the broker takes {most}"),
                    )
                    .with_source(cause),
                    Some(_) | None => self.lost(cause),
                }
            }
            Some(_) | None => self.lost(cause),
        }
    }

    fn unroutable(&self) -> Error {
        let SinkOptions {
            exchange,
            routing_key,
            ..
        } = &self.options;
        let words = if exchange.is_empty() {
            format!(
                "there is no queue {routing_key:?} at {}: declare it, or correct the routing key",
                self.address
            )
        } else {
            format!(
                "no queue is bound to the exchange {exchange:?} for the routing key {routing_key:?}: bind one, or correct the key"
            )
        };
        error::config(&self.address, words)
    }

    /// Error for a message that was sent when the line broke.
    fn lost(&self, cause: lapin::Error) -> Error {
        let words = format!(
            "the broker at {} was gone before it confirmed the message",
            self.address
        );
        Error::new(ErrorKind::Unavailable, words)
            .with_code(self.address.code)
            .retry_after(error::RETRY)
            .with_source(cause)
    }

    /// Error for a message that was sent and never confirmed.
    fn late(&self) -> Error {
        let words = format!(
            "the broker at {} did not confirm the message in time: it may be short of memory or disk",
            self.address
        );
        Error::new(ErrorKind::Timeout, words).retry_after(error::RETRY)
    }
}

fn returned_id(confirmation: Confirmation) -> Option<String> {
    let message = confirmation.take_message()?;
    let id = message.delivery.properties.message_id().as_ref()?;
    Some(id.as_str().to_owned())
}

impl Sink for AmqpSink {
    async fn publish(&self, batch: &[Publication]) -> Vec<Result<()>> {
        if batch.is_empty() {
            return Vec::new();
        }
        let mut line = match self.line().await {
            Ok(line) => line,
            Err(error) => return vec![Err(error); batch.len()],
        };
        let (answers, is_whole) = self.publish_on(&mut line, batch).await;
        if is_whole {
            self.idle().push(line);
        } else {
            self.forget(&line.connection).await;
        }
        answers
    }
}

impl fmt::Debug for AmqpSink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AmqpSink")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
