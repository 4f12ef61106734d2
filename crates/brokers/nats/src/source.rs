//! The source: connects on the first call, and again whenever the connection broke.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use semel_core::port::source::{Acknowledgement, Delivery, DeliveryId, Fetched, Progress, Source};
use semel_core::{Code, Error, Result};
use tokio::time::{Instant, sleep_until, timeout};

use crate::address::Address;
use crate::consumer;
use crate::error::{away, is_for_good};
use crate::idle::{Elsewhere, Idle};
use crate::in_flight::InFlight;
use crate::options::Options;
use crate::pull::{Arrived, Pull};
use crate::settle::{self, AckResult, PendingReports, RESPITE};

/// Time for which an outage of the broker is not reported.
const GRACE: Duration = Duration::from_secs(2);
/// Pause between two reports of it after that.
const MENTION: Duration = Duration::from_secs(3);
/// Pause between two tries to connect.
const PAUSE: Duration = Duration::from_millis(300);
/// The longest time that a close may take.
const CLOSE: Duration = Duration::from_secs(15);
/// Bytes that one fetch hands over at the most, a last message apart.
const MOST_FETCHED_BYTES: usize = 8 << 20;

/// Messages of a stream, through a durable consumer that any number of sources share.
///
/// A delivery counts as ours until the consumer's `ack_wait` is over since it came or was extended; later reports on it
/// are not passed on, and the server delivers it again. The server confirms acknowledgements before
/// [`acknowledge`](Source::acknowledge) returns, or else they are repeated.
pub struct NatsSource {
    options: Options,
    address: Address,
    pull: Option<Pull>,
    connecting: Option<Connecting>,
    outage: Option<Outage>,
    /// Set if the next fetch is to report that the broker is there again.
    is_back: bool,
    findings: Vec<String>,
    arrived: VecDeque<Arrived>,
    held: InFlight,
    told: PendingReports,
    idle: Idle,
}

/// A try to connect. It goes on where it was when the call that waited for it was dropped.
type Connecting = Pin<Box<dyn Future<Output = Result<Pull>> + Send>>;

/// An outage: its beginning, its error, and its next steps.
struct Outage {
    /// Time of the next report.
    mention_at: Instant,
    /// Time of the next try.
    try_at: Instant,
    error: Option<Error>,
    /// Set once it was reported.
    is_told: bool,
}

impl Outage {
    fn new(now: Instant) -> Self {
        Self {
            mention_at: now + GRACE,
            try_at: now,
            error: None,
            is_told: false,
        }
    }
}

impl NatsSource {
    /// Creates a source that connects on its first call.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: the options make no sense
    pub fn new(options: Options) -> Result<Self> {
        let address = options.address()?;
        Ok(Self {
            options,
            address,
            pull: None,
            connecting: None,
            outage: None,
            is_back: false,
            findings: Vec::new(),
            arrived: VecDeque::new(),
            held: InFlight::default(),
            told: PendingReports::default(),
            idle: Idle::new(),
        })
    }

    /// Connects now, and finds the consumer or creates it; does nothing where that is done already.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: refused credentials or rights, no such stream, a consumer that cannot be used.
    /// `Unavailable`, not applied: the server cannot be reached; to be tried again
    ///
    /// # Cancel safety
    ///
    /// Safe
    pub async fn connect(&mut self) -> Result<()> {
        self.up().await
    }

    /// Returns findings for the operator about the consumer and its stream, a sentence each; none before it is
    /// connected.
    pub fn findings(&self) -> &[String] {
        &self.findings
    }

    /// Waits for a connection that works, until it is time to report that there is none.
    async fn up(&mut self) -> Result<()> {
        loop {
            if let Some(pull) = &self.pull {
                match pull.link.connection_error() {
                    None => return Ok(()),
                    Some(error) => self.lost(error)?,
                }
            }
            let now = Instant::now();
            let outage = self.outage.get_or_insert(Outage::new(now));
            if self.connecting.is_none() {
                sleep_until(outage.try_at.min(outage.mention_at)).await;
                if outage.try_at <= Instant::now() {
                    let open = Pull::open(self.address.clone(), self.options.clone());
                    self.connecting = Some(Box::pin(open));
                }
            }
            let connected = match &mut self.connecting {
                None => None,
                Some(connecting) => tokio::select! {
                    biased;
                    connected = connecting => Some(connected),
                    () = sleep_until(outage.mention_at) => None,
                },
            };
            match connected {
                Some(Ok(pull)) => {
                    self.connecting = None;
                    self.is_back |= self.outage.take().is_some_and(|outage| outage.is_told);
                    self.findings.clone_from(&pull.facts.findings);
                    self.pull = Some(pull);
                }
                Some(Err(error)) => {
                    self.connecting = None;
                    self.lost(error)?;
                }
                None => {
                    outage.mention_at = Instant::now() + MENTION;
                    outage.is_told = true;
                    let silent = || {
                        let (place, waited) = (&self.address.name, GRACE.as_secs());
                        let message = format!(
                            "NATS cannot be reached at {place}: no answer within {waited} s"
                        );
                        away(Code::SourceUnavailable, message)
                    };
                    return Err(outage.error.clone().unwrap_or_else(silent));
                }
            }
        }
    }

    /// Gives up the connection; returns `error` if connecting again cannot help.
    fn lost(&mut self, error: Error) -> Result<()> {
        self.pull = None;
        if is_for_good(&error) {
            self.outage = None;
            return Err(error);
        }
        let now = Instant::now();
        let outage = self.outage.get_or_insert(Outage::new(now));
        outage.try_at = now + PAUSE;
        outage.error = Some(error);
        Ok(())
    }

    /// Sends the server the unconfirmed reports, if there is a connection.
    async fn tell(&mut self) -> Result<()> {
        if self.told.is_empty() {
            return Ok(());
        }
        let Some(pull) = &self.pull else {
            let message = format!("there is no connection to {}", self.address.name);
            return Err(away(Code::SourceUnavailable, message));
        };
        let told = self.told.tell(&pull.link).await;
        if let Err(error) = &told {
            self.lost(error.clone())?;
        }
        told
    }

    /// Returns the number of deliveries that others have in hand, if it is time to report it.
    async fn elsewhere(&mut self) -> Result<Option<Elsewhere>> {
        let Some(pull) = &mut self.pull else {
            return Ok(None);
        };
        let info = consumer::info(&pull.link, &self.options).await?;
        // Messages that came meanwhile are counted there already.
        pull.drain(&mut self.arrived)?;
        let ours = self.held.len() + self.arrived.len();
        Ok(self
            .idle
            .looked(info.num_ack_pending, ours, pull.facts.ack_wait))
    }

    /// Waits until something has come, there is something to report while nothing comes, or a broker that was reported
    /// away is there again.
    async fn some(&mut self, max: usize) -> Result<Option<Elsewhere>> {
        loop {
            self.up().await?;
            match self.tell().await {
                Err(error) if is_for_good(&error) => return Err(error),
                // The failure has ended the connection, so the next round opens another.
                Err(_) => continue,
                Ok(()) => {}
            }
            if self.is_back {
                return Ok(None);
            }
            let Some(pull) = &mut self.pull else {
                continue;
            };
            let mut pulled = pull.drain(&mut self.arrived);
            let now = Instant::now();
            // The server has taken back the deliveries that lay here for too long, and delivers them anew.
            self.arrived.retain(|arrived| now < arrived.holding.until);
            let mut is_to_look = false;
            if pulled.is_ok() && self.arrived.is_empty() {
                tokio::select! {
                    biased;
                    waited = pull.wait(max, &mut self.arrived) => pulled = waited,
                    () = sleep_until(self.idle.look_at) => is_to_look = true,
                }
            }
            if let Err(error) = pulled {
                self.lost(error)?;
            }
            if !self.arrived.is_empty() {
                self.idle.ends();
                return Ok(None);
            }
            if is_to_look {
                match self.elsewhere().await {
                    Ok(None) => {}
                    Ok(told) => return Ok(told),
                    // Only reports for people depend on it.
                    Err(error) if is_for_good(&error) => self.idle.ends(),
                    Err(error) => self.lost(error)?,
                }
            }
        }
    }

    fn hand_out(&mut self, max: usize) -> Vec<Delivery> {
        let mut deliveries = Vec::with_capacity(max.min(self.arrived.len()));
        let mut bytes = 0;
        while deliveries.len() < max && bytes < MOST_FETCHED_BYTES {
            let Some(arrived) = self.arrived.pop_front() else {
                break;
            };
            let delivery = arrived.into_delivery(|holding| self.held.hand_out(holding));
            bytes += delivery.payload.len();
            deliveries.push(delivery);
        }
        deliveries
    }

    async fn wind_up(&mut self) -> Result<()> {
        self.connecting = None;
        if let Some(pull) = &mut self.pull {
            pull.stop(&mut self.arrived).await;
        }
        while !self.told.is_empty() {
            self.up().await?;
            // An error has ended the connection; unconfirmed reports are repeated on the next one.
            if let Err(error) = self.tell().await
                && is_for_good(&error)
            {
                return Err(error);
            }
        }
        let mut rest = self.held.take_all();
        rest.extend(self.arrived.drain(..).map(|arrived| arrived.holding));
        if let Some(pull) = self.pull.take() {
            self.told.given_back(rest, None);
            // Deliveries whose reports are lost come again when their time is over.
            let _ = self.told.tell(&pull.link).await;
            pull.link.end().await;
        }
        Ok(())
    }
}

impl Source for NatsSource {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        let max = max.max(1);
        match self.some(max).await {
            Ok(None) if std::mem::take(&mut self.is_back) => Ok(Fetched::Back),
            Ok(None) => Ok(Fetched::Deliveries(self.hand_out(max))),
            Ok(Some(Elsewhere { deliveries, within })) => {
                Ok(Fetched::Elsewhere { deliveries, within })
            }
            Err(error) if is_for_good(&error) => Err(error),
            Err(error) => Ok(Fetched::Away(error)),
        }
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        let settled = self.held.take(batch.iter().map(|told| told.delivery));
        self.told.acknowledged(settled);
        self.tell().await
    }

    async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
        self.told
            .given_back(self.held.take(batch.iter().copied()), Some(RESPITE));
        self.tell().await
    }

    async fn extend(&mut self, batch: &[DeliveryId]) -> Result<()> {
        let known = self.held.replies(batch);
        let Some(pull) = &mut self.pull else {
            return Ok(());
        };
        // Messages that wait here to be handed over are ours too.
        if let Err(error) = pull.drain(&mut self.arrived) {
            self.lost(error.clone())?;
            return Err(error);
        }
        let lease = pull.facts.ack_wait;
        let waiting = self.arrived.iter().map(|arrived| &arrived.holding.reply);
        let replies: Vec<_> = known
            .iter()
            .map(|(_, reply)| reply)
            .chain(waiting)
            .cloned()
            .collect();
        let asked = Instant::now();
        let heard = match settle::progress(&pull.link, &replies).await {
            Ok(heard) => heard,
            Err(error) => {
                self.lost(error.clone())?;
                return Err(error);
            }
        };
        let (of_known, of_waiting) = heard.split_at(known.len());
        for ((id, _), heard) in known.iter().zip(of_known) {
            if *heard == AckResult::Confirmed {
                self.held.extended(*id, asked, lease);
            }
        }
        for (arrived, heard) in self.arrived.iter_mut().zip(of_waiting) {
            if *heard == AckResult::Confirmed {
                arrived.holding.until = arrived.holding.until.max(asked + lease);
            }
        }
        Ok(())
    }

    async fn close(&mut self) -> Result<()> {
        timeout(CLOSE, self.wind_up()).await.unwrap_or_else(|_| {
            let message = format!("{} did not confirm everything in time", self.address.name);
            Err(away(Code::SourceUnavailable, message))
        })
    }

    fn progress(&self) -> Option<Progress> {
        None
    }

    fn hold(&self) -> Option<Duration> {
        self.pull.as_ref().map(|pull| pull.facts.ack_wait)
    }
}

impl fmt::Debug for NatsSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NatsSource")
            .field("options", &self.options)
            .field("connected", &self.pull.is_some())
            .field("arrived", &self.arrived.len())
            .field("held", &self.held)
            .field("told", &self.told)
            .finish_non_exhaustive()
    }
}
