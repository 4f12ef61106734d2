//! `semel run` from a queue of RabbitMQ, to another one and to standard output, beside bare loops over the same
//! client that do the same with the same confirms and know of no key.
//!
//! The queues are quorum queues, and messages persistent. A message is acknowledged once it was confirmed, a
//! thousand ahead. Each run has a queue of its own, filled before. The time is measured from the start until
//! everything came out; the acknowledgements are checked afterwards.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use futures_util::StreamExt;
use lapin::message::Delivery;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions,
    ConfirmSelectOptions, QueueDeclareOptions, QueueDeleteOptions,
};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{BasicProperties, Channel, Connection, ConnectionProperties, PublisherConfirm};
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::figures::timed;
use crate::pairs::{self, Run};
use crate::process::{Process, processor_seconds};

type Failure = Box<dyn std::error::Error>;

pub(crate) fn rate() -> crate::Outcome {
    let site = Site::new()?;
    let what =
        "RabbitMQ, quorum queues, persistent messages, publisher confirms, a prefetch of 4,000";
    pairs::compare(what, RECORDS, ["to a queue", "to standard output"], |run| {
        site.run(run)
    })
}

struct Site {
    url: String,
    semel: PathBuf,
    folder: TempDir,
    runtime: Runtime,
    /// Ends with its last handle.
    _connection: Connection,
    /// Confirms what it publishes.
    channel: Channel,
    /// The beginning of the names of queues.
    name: String,
}

impl Site {
    fn new() -> Result<Self, Failure> {
        let url = std::env::var("SEMEL_TEST_AMQP_URL")?;
        let runtime = Runtime::new()?;
        let (connection, channel) = runtime.block_on(connect(&url))?;
        let options = ConfirmSelectOptions::default();
        runtime.block_on(channel.confirm_select(options))?;
        Ok(Self {
            url,
            semel: std::env::var_os("SEMEL_BIN").ok_or("SEMEL_BIN")?.into(),
            folder: tempfile::tempdir_in(".")?,
            runtime,
            _connection: connection,
            channel,
            name: format!("bench-{}", std::process::id()),
        })
    }

    async fn make(&self, queue: &str) -> crate::Outcome {
        let options = QueueDeclareOptions {
            durable: true,
            ..QueueDeclareOptions::default()
        };
        let mut arguments = FieldTable::default();
        let kind = AMQPValue::LongString("quorum".into());
        arguments.insert("x-queue-type".into(), kind);
        self.channel
            .queue_declare(queue.into(), options, arguments)
            .await?;
        Ok(())
    }

    async fn remove(&self, queue: &str) -> crate::Outcome {
        let options = QueueDeleteOptions::default();
        self.channel.queue_delete(queue.into(), options).await?;
        Ok(())
    }

    /// The number of messages that were not delivered yet.
    async fn ready(&self, queue: &str) -> Result<u32, Failure> {
        let options = QueueDeclareOptions {
            passive: true,
            ..QueueDeclareOptions::default()
        };
        let queue = self
            .channel
            .queue_declare(queue.into(), options, FieldTable::default())
            .await?;
        Ok(queue.message_count())
    }

    async fn fill(&self, queue: &str) -> crate::Outcome {
        self.make(queue).await?;
        for some in (0..RECORDS).step_by(1_000) {
            let mut confirms = Vec::new();
            for number in some..RECORDS.min(some + 1_000) {
                let payload = pairs::payload(number);
                confirms.push(publish(&self.channel, queue, payload.as_bytes()).await?);
            }
            for confirm in confirms {
                confirm.await?;
            }
        }
        Ok(())
    }

    fn run(&self, run: &Run) -> Result<(Duration, f64), Failure> {
        let input = format!("{}-{}", self.name, run.name);
        let output = format!("{input}-out");
        self.runtime.block_on(async {
            self.fill(&input).await?;
            self.make(&output).await
        })?;
        let measured = if run.is_bare {
            let before = processor_seconds("self")?;
            let copy = self.copy(&input, (!run.is_stdout).then_some(&*output));
            let (taken, copied) = timed(|| self.runtime.block_on(copy));
            copied?;
            (taken, processor_seconds("self")? - before)
        } else {
            self.semel(run, &input, &output)?
        };
        let wanted = match (run.is_stdout, run.is_bare) {
            (true, _) => 0,
            (false, true) => RECORDS,
            (false, false) => pairs::distinct(RECORDS),
        };
        self.runtime.block_on(async {
            let (left, there) = (self.ready(&input).await?, self.ready(&output).await?);
            if (left, there) != (0, wanted) {
                let said = format!("{left} messages are left, {there} of {wanted} came out");
                return Err(said.into());
            }
            self.remove(&input).await?;
            self.remove(&output).await
        })?;
        Ok(measured)
    }

    fn semel(&self, run: &Run, input: &str, output: &str) -> Result<(Duration, f64), Failure> {
        let folder = self.folder.path().join(&run.name);
        std::fs::create_dir(&folder)?;
        let place = |queue| {
            format!(
                "kind = \"amqp\"\nurl = \"{}\"\nqueue = \"{queue}\"",
                self.url
            )
        };
        let effect = if run.is_stdout {
            "kind = \"stdout\"".to_owned()
        } else {
            place(output)
        };
        let effect = format!("{effect}\non_doubt = \"repeat\"");
        let command = pairs::semel(&self.semel, &folder, &place(input), &effect)?;
        let mut process = None;
        let wanted = pairs::distinct(RECORDS);
        let (taken, done) = timed(|| -> crate::Outcome {
            let process = process.insert(Process::start(command, &folder.join("stderr"))?);
            process.until(|process| {
                if run.is_stdout {
                    return Ok(process.lines() >= wanted as usize);
                }
                Ok(self.runtime.block_on(self.ready(output))? >= wanted)
            })
        });
        done?;
        let process = process.ok_or("it did not start")?;
        // The last messages that came out are acknowledged now, and so are the last repeats.
        sleep(Duration::from_millis(500));
        let seconds = process.processor_seconds()?;
        // A summary follows.
        let lines = process.lines();
        process.stop()?;
        if run.is_stdout && lines != wanted as usize {
            return Err(format!("{lines} lines came out").into());
        }
        Ok((taken, seconds))
    }

    /// Publishes each message, or writes it, and then acknowledges it.
    async fn copy(&self, input: &str, output: Option<&str>) -> crate::Outcome {
        let (_connection, channel) = connect(&self.url).await?;
        let confirms = ConfirmSelectOptions::default();
        channel.confirm_select(confirms).await?;
        let qos = BasicQosOptions::default();
        channel.basic_qos(PREFETCH, qos).await?;
        let options = BasicConsumeOptions::default();
        let table = FieldTable::default();
        let consumer = channel
            .basic_consume(input.into(), "".into(), options, table)
            .await?;
        let mut null = pairs::null()?;
        let mut batches = consumer.ready_chunks(1_000);
        let mut copied = 0;
        while copied < RECORDS as usize {
            let batch = batches.next().await.ok_or("the consumer ended")?;
            let batch: Result<Vec<Delivery>, _> = batch.into_iter().collect();
            let batch = batch?;
            if let Some(output) = output {
                let mut confirms = Vec::with_capacity(batch.len());
                for message in &batch {
                    confirms.push(publish(&channel, output, &message.data).await?);
                }
                for confirm in confirms {
                    confirm.await?;
                }
            } else {
                for message in &batch {
                    pairs::write(&mut null, &message.data)?;
                }
                std::io::Write::flush(&mut null)?;
            }
            let last = batch.last().ok_or("an empty batch")?.delivery_tag;
            let together = BasicAckOptions { multiple: true };
            channel.basic_ack(last, together).await?;
            copied += batch.len();
        }
        // Its answer comes behind all acknowledgements.
        channel.basic_qos(PREFETCH, qos).await?;
        Ok(())
    }
}

async fn connect(url: &str) -> Result<(Connection, Channel), Failure> {
    let connection = Connection::connect(url, ConnectionProperties::default()).await?;
    let channel = connection.create_channel().await?;
    Ok((connection, channel))
}

async fn publish(
    channel: &Channel,
    queue: &str,
    payload: &[u8],
) -> lapin::Result<PublisherConfirm> {
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let options = BasicPublishOptions {
        mandatory: true,
        ..BasicPublishOptions::default()
    };
    channel
        .basic_publish("".into(), queue.into(), options, payload, persistent)
        .await
}

/// As the binary has it.
const PREFETCH: u16 = 4_000;
const RECORDS: u32 = 200_000;
