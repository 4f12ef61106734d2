//! Reports about deliveries, kept until the server has confirmed them.

use std::time::Duration;

use async_nats::Subject;
use async_nats::client::{Request, RequestErrorKind};
use async_nats::jetstream::AckKind;
use bytes::Bytes;
use futures_util::future::join_all;
use semel_core::{Code, Result};
use tokio::time::Instant;

use crate::error::away;
use crate::in_flight::Holding;
use crate::link::{Link, PATIENCE};

/// Time for which a message that was given back stays with the server, so that workers do not run in circles.
pub(crate) const RESPITE: Duration = Duration::from_millis(300);
/// Requests that are in flight at once, fewer than the driver queues.
const AT_ONCE: usize = 1_024;

/// Reports that the server has not confirmed yet.
#[derive(Debug, Default)]
pub(crate) struct PendingReports(Vec<Word>);

#[derive(Clone, Debug)]
struct Word {
    reply: Subject,
    what: Bytes,
    /// Time after which it might hit a delivery to another worker.
    until: Instant,
}

/// Result of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AckResult {
    /// The server knows; a single server has it on its disk some 100 ms later.
    Confirmed,
    /// Nobody is there to take it: the consumer is gone.
    Gone,
    /// No answer in time.
    Silence,
}

impl PendingReports {
    pub(crate) fn acknowledged(&mut self, holdings: Vec<Holding>) {
        self.add(holdings, &AckKind::Ack.into());
    }

    /// Adds reports that give these back, to be delivered again after `respite`.
    pub(crate) fn given_back(&mut self, holdings: Vec<Holding>, respite: Option<Duration>) {
        self.add(holdings, &AckKind::Nak(respite).into());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Sends the reports, and waits until the server has confirmed them. Unconfirmed ones are kept for the next time.
    pub(crate) async fn tell(&mut self, link: &Link) -> Result<()> {
        let now = Instant::now();
        self.0.retain(|word| now < word.until);
        let mut done = 0;
        let mut silent = Vec::new();
        while done < self.0.len() {
            let some = &self.0[done..self.0.len().min(done + AT_ONCE)];
            let words = some.iter().map(|word| (&word.reply, &word.what));
            let heard = match ask(link, words).await {
                Ok(heard) => heard,
                Err(error) => {
                    self.0.drain(..done);
                    self.0.append(&mut silent);
                    return Err(error);
                }
            };
            let unheard = some.iter().zip(&heard);
            let unheard = unheard.filter(|(_, heard)| **heard == AckResult::Silence);
            silent.extend(unheard.map(|(word, _)| word.clone()));
            done += heard.len();
        }
        self.0 = silent;
        if self.0.is_empty() {
            return Ok(());
        }
        Err(away(
            Code::SourceUnavailable,
            format!(
                "the server did not confirm {} acknowledgements",
                self.0.len()
            ),
        ))
    }

    fn add(&mut self, holdings: Vec<Holding>, what: &Bytes) {
        self.0.extend(holdings.into_iter().map(|holding| Word {
            reply: holding.reply,
            what: what.clone(),
            until: holding.until,
        }));
    }
}

/// Tells the server that these are still worked on.
pub(crate) async fn progress(link: &Link, replies: &[Subject]) -> Result<Vec<AckResult>> {
    let what = Bytes::from(AckKind::Progress);
    let mut heard = Vec::with_capacity(replies.len());
    for some in replies.chunks(AT_ONCE) {
        heard.extend(ask(link, some.iter().map(|reply| (reply, &what))).await?);
    }
    Ok(heard)
}

/// Sends all of it and waits for all answers together.
async fn ask(
    link: &Link,
    words: impl Iterator<Item = (&Subject, &Bytes)>,
) -> Result<Vec<AckResult>> {
    let ask = |(reply, what): (&Subject, &Bytes)| {
        let request = Request::new().payload(what.clone()).timeout(Some(PATIENCE));
        link.client.send_request(reply.clone(), request)
    };
    let answers = link.during(join_all(words.map(ask))).await?;
    let heard = answers.into_iter().map(|answer| match answer {
        Ok(_) => AckResult::Confirmed,
        Err(error) => match error.kind() {
            RequestErrorKind::NoResponders => AckResult::Gone,
            RequestErrorKind::TimedOut
            | RequestErrorKind::InvalidSubject
            | RequestErrorKind::MaxPayloadExceeded
            | RequestErrorKind::Other => AckResult::Silence,
        },
    });
    Ok(heard.collect())
}
