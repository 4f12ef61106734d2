//! A connection with the one channel and the one consumer of a source, from its opening to its end.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt, poll};
use lapin::message::Delivery as Raw;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicNackOptions, BasicQosOptions, QueueDeclareOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, Consumer};
use semel_core::{Error, Result};
use tokio::time::timeout;

use crate::address::Address;
use crate::connection::connect;
use crate::error;
use crate::options::Options;
use crate::tags::BasicAck;

/// The longest wait until the broker begins to deliver. A quorum queue without a leader answers nothing, and a request
/// sent before it had one may never be answered: it is repeated.
const JOIN: Duration = Duration::from_secs(10);
/// The longest wait until the broker has received all reports.
const HEAR: Duration = Duration::from_secs(10);
/// The protocol's reply code for an end without an error.
pub(crate) const REPLY_SUCCESS: u16 = 200;
/// Message for an end without an error.
const CANCELLED: &str = "the broker cancelled the consumer";

pub(crate) struct Session {
    channel: Channel,
    consumer: Consumer,
    connection: Connection,
    prefetch: u16,
}

/// Reason why a session delivers no more.
#[derive(Debug)]
pub(crate) enum End {
    /// The broker cancelled the consumer: the queue was deleted, or its leader moved.
    Cancelled,
    /// The channel or the connection is gone.
    Broken(lapin::Error),
}

impl End {
    pub(crate) fn error(self, address: &Address, queue: &str) -> Error {
        match self {
            Self::Cancelled => error::away(address, format!("{CANCELLED} of the queue {queue:?}")),
            Self::Broken(error) => error::of_queue(address, queue, error),
        }
    }
}

impl Session {
    /// Opens a session that has so many deliveries at once, at most.
    pub(crate) async fn open(address: &Address, options: &Options, prefetch: u16) -> Result<Self> {
        let connection = connect(address, "semel source").await?;
        let made = timeout(JOIN, Self::consume(&connection, options, prefetch)).await;
        let made = made.map_err(|_| error::silent(address))?;
        let (channel, consumer) =
            made.map_err(|error| error::of_queue(address, &options.queue, error))?;
        Ok(Self {
            channel,
            consumer,
            connection,
            prefetch,
        })
    }

    async fn consume(
        connection: &Connection,
        options: &Options,
        prefetch: u16,
    ) -> Result<(Channel, Consumer), lapin::Error> {
        let channel = connection.create_channel().await?;
        let queue = options.queue.as_str();
        let passive = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        channel
            .queue_declare(queue.into(), passive, FieldTable::default())
            .await?;
        channel
            .basic_qos(prefetch, BasicQosOptions::default())
            .await?;
        let tag = options.consumer_tag.as_str();
        let consumer = channel
            .basic_consume(
                queue.into(),
                tag.into(),
                BasicConsumeOptions::default(),
                FieldTable::default(),
            )
            .await?;
        Ok((channel, consumer))
    }

    /// Returns at least one delivery, at most `max` of those that are here.
    ///
    /// # Cancel safety
    ///
    /// Safe: it waits only while it holds nothing
    pub(crate) async fn next(&mut self, max: usize, max_bytes: usize) -> Result<Vec<Raw>, End> {
        let mut bytes = 0;
        let mut some = Vec::new();
        let mut next = Some(self.consumer.next().await);
        while let Some(item) = next {
            match item {
                Some(Ok(raw)) => {
                    bytes += raw.data.len();
                    some.push(raw);
                }
                // Deliveries that came before the end are the broker's again.
                Some(Err(error)) => return Err(End::Broken(error)),
                None => return Err(End::Cancelled),
            }
            if some.len() >= max || bytes >= max_bytes {
                break;
            }
            next = self.consumer.next().now_or_never();
        }
        Ok(some)
    }

    /// Tells the broker that these are settled; the acknowledgements are sent even if nobody waits.
    pub(crate) async fn acknowledge(&self, batch: Vec<BasicAck>) -> Result<(), lapin::Error> {
        let told = batch.into_iter().map(|told| {
            let multiple = told.is_multiple;
            self.channel
                .basic_ack(told.tag, BasicAckOptions { multiple })
        });
        send(told).await
    }

    /// Gives these back; the reports are sent even if nobody waits.
    pub(crate) async fn give_back(
        &self,
        tags: impl IntoIterator<Item = u64>,
    ) -> Result<(), lapin::Error> {
        let told = tags.into_iter().map(|tag| {
            let back = BasicNackOptions {
                multiple: false,
                requeue: true,
            };
            self.channel.basic_nack(tag, back)
        });
        send(told).await
    }

    /// Waits until the broker has received everything, and ends in order.
    pub(crate) async fn close(self) -> Result<(), lapin::Error> {
        // A channel is served in order, so that an answer proves that earlier reports arrived. Its own end proves
        // nothing: the broker answers it even on a channel that it has closed meanwhile.
        let heard = self
            .channel
            .basic_qos(self.prefetch, BasicQosOptions::default());
        within(heard).await?;
        // If this fails, the broker takes back the rest when the connection goes.
        let ends = async {
            self.channel.close(REPLY_SUCCESS, "OK".into()).await?;
            self.connection.close(REPLY_SUCCESS, "OK".into()).await
        };
        let _ = within(ends).await;
        Ok(())
    }
}

/// Hands all of them to the driver at once, and then waits until it has sent them.
async fn send<F>(told: impl Iterator<Item = F>) -> Result<(), lapin::Error>
where
    F: Future<Output = Result<(), lapin::Error>> + Send,
{
    let mut waiting: Vec<Pin<Box<F>>> = Vec::new();
    for one in told {
        let mut one = Box::pin(one);
        match poll!(&mut one) {
            std::task::Poll::Ready(done) => done?,
            std::task::Poll::Pending => waiting.push(one),
        }
    }
    within(async {
        for one in waiting {
            one.await?;
        }
        Ok(())
    })
    .await
}

async fn within(told: impl Future<Output = Result<(), lapin::Error>>) -> Result<(), lapin::Error> {
    match timeout(HEAR, told).await {
        Ok(done) => done,
        Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()),
    }
}
