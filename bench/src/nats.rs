//! `semel run` from a NATS stream, to another one and to standard output, beside bare loops over the same client
//! that do the same with the same confirmations and know of no key.
//!
//! The backlog stays in its stream, and each run reads it through a durable consumer of its own: pulled in
//! batches, four thousand deliveries unconfirmed at the most, each acknowledgement confirmed by the server. The
//! time is measured from the start until the server has all of them.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use async_nats::client::{Request, RequestError};
use async_nats::jetstream::consumer::{self, pull};
use async_nats::jetstream::{AckKind, Context, ContextBuilder, Message, stream};
use async_nats::{Client, Subject};
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::future::join_all;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::figures::timed;
use crate::pairs::{self, Run};
use crate::process::{Process, processor_seconds};

type Failure = Box<dyn std::error::Error>;

pub(crate) fn rate() -> crate::Outcome {
    let site = Site::new()?;
    let what = "NATS, file streams, the server syncing before it confirms, 4,000 unconfirmed";
    pairs::compare(
        what,
        RECORDS,
        ["to a stream", "to standard output"],
        |run| site.run(run),
    )
}

struct Site {
    url: String,
    semel: PathBuf,
    folder: TempDir,
    runtime: Runtime,
    client: Client,
    context: Context,
    /// The stream of the backlog, its subject too.
    input: String,
}

impl Site {
    fn new() -> Result<Self, Failure> {
        let url = std::env::var("SEMEL_TEST_NATS_URL")?;
        let runtime = Runtime::new()?;
        let client = runtime.block_on(async_nats::connect(&url))?;
        // It starts a task.
        let context = runtime.block_on(async {
            let context = ContextBuilder::new().max_ack_inflight(1 << 20);
            context.build(client.clone())
        });
        let site = Self {
            url,
            semel: std::env::var_os("SEMEL_BIN").ok_or("SEMEL_BIN")?.into(),
            folder: tempfile::tempdir_in(".")?,
            runtime,
            client,
            context,
            input: format!("bench-{}", std::process::id()),
        };
        site.runtime.block_on(site.fill())?;
        Ok(site)
    }

    async fn make(&self, name: &str) -> Result<stream::Stream, Failure> {
        let config = stream::Config {
            name: name.to_owned(),
            subjects: vec![name.to_owned()],
            ..stream::Config::default()
        };
        Ok(self.context.create_stream(config).await?)
    }

    async fn fill(&self) -> crate::Outcome {
        self.make(&self.input).await?;
        for some in (0..RECORDS).step_by(1_000) {
            let mut confirms = Vec::new();
            for number in some..RECORDS.min(some + 1_000) {
                let payload = Bytes::from(pairs::payload(number));
                confirms.push(self.context.publish(self.input.clone(), payload).await?);
            }
            for confirm in confirms {
                confirm.await?;
            }
        }
        Ok(())
    }

    fn run(&self, run: &Run) -> Result<(Duration, f64), Failure> {
        let (name, consumer) = (&run.name, format!("c-{}", run.name));
        let output = format!("{}-{name}", self.input);
        let mut stream = self.runtime.block_on(self.make(&output))?;
        let measured = if run.is_bare {
            let before = processor_seconds("self")?;
            let copy = self.copy(&consumer, (!run.is_stdout).then_some(&*output));
            let (taken, copied) = timed(|| self.runtime.block_on(copy));
            copied?;
            (taken, processor_seconds("self")? - before)
        } else {
            self.semel(run, &consumer, &output)?
        };
        let there = self.runtime.block_on(stream.info())?.state.messages;
        let wanted = match (run.is_stdout, run.is_bare) {
            (true, _) => 0,
            (false, true) => RECORDS,
            (false, false) => pairs::distinct(RECORDS),
        };
        if there != u64::from(wanted) {
            return Err(format!("{there} messages came out, not {wanted}").into());
        }
        self.runtime.block_on(self.context.delete_stream(&output))?;
        Ok(measured)
    }

    fn semel(&self, run: &Run, name: &str, output: &str) -> Result<(Duration, f64), Failure> {
        let folder = self.folder.path().join(&run.name);
        std::fs::create_dir(&folder)?;
        let effect = if run.is_stdout {
            "kind = \"stdout\"\non_doubt = \"repeat\"".to_owned()
        } else {
            format!(
                "kind = \"nats\"\nurl = \"{}\"\nsubject = \"{output}\"",
                self.url
            )
        };
        let source = format!(
            "kind = \"nats\"\nurl = \"{}\"\nstream = \"{}\"\nconsumer = \"{name}\"",
            self.url, self.input
        );
        let command = pairs::semel(&self.semel, &folder, &source, &effect)?;
        self.runtime.block_on(self.consumer(name))?;
        let (lines, measured) = self.watched(command, &folder.join("stderr"), name)?;
        if run.is_stdout && lines != pairs::distinct(RECORDS) as usize {
            return Err(format!("{lines} lines came out").into());
        }
        Ok(measured)
    }

    fn watched(
        &self,
        command: Command,
        log: &std::path::Path,
        name: &str,
    ) -> Result<(usize, (Duration, f64)), Failure> {
        let input = self
            .runtime
            .block_on(self.context.get_stream(&self.input))?;
        let mut process = None;
        let (taken, done) = timed(|| -> crate::Outcome {
            let process = process.insert(Process::start(command, log)?);
            process.until(|_| {
                // It makes its consumer when it has started.
                let Ok(info) = self.runtime.block_on(input.consumer_info(name)) else {
                    return Ok(false);
                };
                Ok(info.num_pending == 0 && info.num_ack_pending == 0)
            })
        });
        done?;
        let process = process.ok_or("it did not start")?;
        let seconds = process.processor_seconds()?;
        // A summary follows.
        let lines = process.lines();
        process.stop()?;
        Ok((lines, (taken, seconds)))
    }

    async fn consumer(&self, name: &str) -> Result<consumer::Consumer<pull::Config>, Failure> {
        let input = self.context.get_stream(&self.input).await?;
        let config = pull::Config {
            durable_name: Some(name.to_owned()),
            ack_policy: consumer::AckPolicy::Explicit,
            max_ack_pending: UNCONFIRMED,
            ..pull::Config::default()
        };
        Ok(input.create_consumer(config).await?)
    }

    /// Publishes each message, or writes it, and then acknowledges it.
    async fn copy(&self, name: &str, output: Option<&str>) -> crate::Outcome {
        let consumer = self.consumer(name).await?;
        let messages = consumer.stream().max_messages_per_batch(1_000);
        let messages = messages.messages().await?;
        let messages = messages.take(RECORDS as usize);
        let mut null = pairs::null()?;
        let mut batches = messages.ready_chunks(1_000);
        while let Some(batch) = batches.next().await {
            let batch: Result<Vec<Message>, _> = batch.into_iter().collect();
            let batch = batch?;
            if let Some(output) = output {
                let mut confirms = Vec::with_capacity(batch.len());
                for message in &batch {
                    let payload = message.payload.clone();
                    confirms.push(self.context.publish(output.to_owned(), payload).await?);
                }
                for confirm in confirms {
                    confirm.await?;
                }
            } else {
                for message in &batch {
                    pairs::write(&mut null, &message.payload)?;
                }
                std::io::Write::flush(&mut null)?;
            }
            let replies = batch.iter().filter_map(|message| message.reply.clone());
            let told = replies.map(|reply| self.acknowledge(reply));
            for told in join_all(told).await {
                told?;
            }
        }
        Ok(())
    }

    /// Acknowledges as the client's own `double_ack`, which subscribes anew for each message.
    async fn acknowledge(&self, reply: Subject) -> Result<(), RequestError> {
        let request = Request::new().payload(AckKind::Ack.into());
        self.client.send_request(reply, request).await.map(drop)
    }
}

/// The limit of a consumer, which is made in the same way for both sides.
const UNCONFIRMED: i64 = 4_000;
const RECORDS: u32 = 100_000;
