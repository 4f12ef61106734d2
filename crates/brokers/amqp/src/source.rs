//! The source: one consumer of a queue, reopened whenever it is gone.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::source::{Acknowledgement, DeliveryId, Fetched, Progress, Source};
use semel_core::{Advice, Code, Error, ErrorKind, Result};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::address::{Address, SHORT_BYTES};
use crate::error;
use crate::message;
use crate::options::Options;
use crate::session::{End, Session};
use crate::tags::Tags;

/// The messages of a queue, through one connection, channel and consumer at a time.
pub struct AmqpSource {
    settings: Arc<Settings>,
    state: State,
    /// The deliveries that the next session has at once, at most.
    prefetch: u16,
    tags: Tags,
    /// Reports for the next fetch.
    news: News,
    /// Reason why there is no session, while there is none.
    connection_error: Option<ConnectionError>,
    /// Pause before the next try to connect.
    pause: Duration,
    /// Time from which held deliveries may be given back.
    give_back_at: Instant,
    /// Set once the broker was sent any report in this session.
    has_told: bool,
}

struct Settings {
    address: Address,
    options: Options,
}

enum State {
    /// No session; the next try begins at this time.
    Down(Instant),
    /// The one task that opens a session.
    Connecting(JoinSet<Result<Session>>),
    Up(Box<Session>),
    Closed,
}

#[derive(Default)]
struct News {
    revoked: Vec<DeliveryId>,
    away: Option<Error>,
    is_back: bool,
}

struct ConnectionError {
    error: Error,
    tell_at: Instant,
    is_told: bool,
}

/// Time within which a trouble may end without being reported.
const GRACE: Duration = Duration::from_secs(2);
/// Pause between two reports of the same trouble.
const AGAIN: Duration = Duration::from_secs(5);
/// Pause between two tries to connect; twice as long after each, up to the longest.
const SHORTEST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// Pause between two times that deliveries are given back: the broker would hand them over again at once.
const GIVE_BACK_PAUSE: Duration = Duration::from_millis(500);
/// Times that the prefetch of the settings may be taken where what is to be settled first is behind it.
const MOST_PREFETCH: u16 = 16;
/// Bytes that one fetch hands over at the most, a last message apart.
const MOST_FETCHED_BYTES: usize = 8 << 20;

impl AmqpSource {
    /// Creates a source that connects with its first fetch.
    ///
    /// # Errors
    ///
    /// `InvalidConfig` with code `source-unavailable`: a setting that cannot be meant
    pub fn new(options: Options) -> Result<Self> {
        let address = Address::of(&options.url, &options.tls, Code::SourceUnavailable)?;
        let refused = |words: &str| Err(error::config(&address, words.to_owned()));
        if options.queue.is_empty() {
            return refused("the queue has no name");
        }
        if options.queue.len() > SHORT_BYTES || options.consumer_tag.len() > SHORT_BYTES {
            return refused("the queue or the consumer has a name of more than 255 bytes");
        }
        if options.prefetch == 0 {
            return refused(
                "a prefetch of 0 would have the broker send everything at once: at least 1",
            );
        }
        let now = Instant::now();
        Ok(Self {
            prefetch: options.prefetch,
            settings: Arc::new(Settings { address, options }),
            state: State::Down(now),
            tags: Tags::new(),
            news: News::default(),
            connection_error: None,
            pause: SHORTEST_PAUSE,
            give_back_at: now,
            has_told: false,
        })
    }

    /// Creates a source that is connected already.
    ///
    /// # Errors
    ///
    /// As [`AmqpSource::new`], and with code `source-unavailable`: `InvalidConfig` for a queue that does not
    /// exist, a refused login or a missing right; `Unavailable` for a broker that is away
    ///
    /// # Cancel safety
    ///
    /// Safe
    pub async fn connect(options: Options) -> Result<Self> {
        let mut source = Self::new(options)?;
        let Settings { address, options } = &*source.settings;
        let session = Session::open(address, options, source.prefetch).await?;
        source.state = State::Up(Box::new(session));
        Ok(source)
    }

    /// Returns the report that comes before anything else.
    fn told(&mut self) -> Option<Fetched> {
        if !self.news.revoked.is_empty() {
            return Some(Fetched::Revoked(std::mem::take(&mut self.news.revoked)));
        }
        if let Some(error) = self.news.away.take() {
            return Some(Fetched::Away(error));
        }
        if std::mem::take(&mut self.news.is_back) {
            return Some(Fetched::Back);
        }
        let connection_error = self.connection_error.as_mut()?;
        let now = Instant::now();
        if connection_error.tell_at > now {
            return None;
        }
        connection_error.tell_at = now + AGAIN;
        connection_error.is_told = true;
        Some(Fetched::Away(connection_error.error.clone()))
    }

    /// Drops the session, and every delivery of it.
    fn lose(&mut self, end: End) {
        let Settings { address, options } = &*self.settings;
        let now = Instant::now();
        self.state = State::Down(now);
        self.news.revoked.extend(self.tags.lose());
        let is_timed_out = match &end {
            End::Cancelled => false,
            End::Broken(cause) => {
                error::said(cause).is_some_and(|(code, _)| code == error::PRECONDITION_FAILED)
            }
        };
        let error = end.error(address, &options.queue);
        if is_timed_out {
            // It goes on by itself, and would come again and again unless a person learns of it.
            self.news.away = Some(error.clone());
        }
        self.worry(error, now);
        if let Some(connection_error) = &mut self.connection_error {
            connection_error.is_told |= is_timed_out;
        }
    }

    /// Notes a trouble, to be reported unless it is over soon.
    fn worry(&mut self, error: Error, now: Instant) {
        let known = self.connection_error.take();
        let (tell_at, is_told) = known.map_or((now + GRACE, false), |it| (it.tell_at, it.is_told));
        self.connection_error = Some(ConnectionError {
            error,
            tell_at,
            is_told,
        });
    }

    /// Takes in the result of a try to connect.
    ///
    /// # Errors      a failure that does not pass by itself
    fn connected(&mut self, made: Result<Session>) -> Result<()> {
        let now = Instant::now();
        match made {
            Ok(session) => {
                self.state = State::Up(Box::new(session));
                self.news.is_back |= self
                    .connection_error
                    .take()
                    .is_some_and(|connection_error| connection_error.is_told);
                self.pause = SHORTEST_PAUSE;
                self.has_told = false;
            }
            Err(error) => {
                self.state = State::Down(now + self.pause);
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
                if error.advice() == Advice::Fix {
                    self.connection_error = None;
                    return Err(error);
                }
                self.worry(error, now);
            }
        }
        Ok(())
    }

    /// Gives back the held deliveries, if it is time to.
    async fn give_back(&mut self) {
        let now = Instant::now();
        let State::Up(session) = &self.state else {
            return;
        };
        if !self.tags.is_holding() || now < self.give_back_at {
            return;
        }
        self.give_back_at = now + GIVE_BACK_PAUSE;
        self.has_told = true;
        let tags = self.tags.give_back();
        // If it fails, so does the consumer, and everything is given back.
        let _ = session.give_back(tags).await;
    }

    /// Returns the error for reports that the broker may not have received.
    fn unheard(&self, cause: lapin::Error) -> Error {
        let address = &self.settings.address;
        let words = format!(
            "the broker at {address} may not have heard all that was told: some messages may come again"
        );
        Error::new(ErrorKind::Unavailable, words)
            .with_code(address.code)
            .with_source(cause)
    }
}

impl Source for AmqpSource {
    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        loop {
            if let Some(news) = self.told() {
                return Ok(news);
            }
            self.give_back().await;
            let tell_at = self
                .connection_error
                .as_ref()
                .map(|connection_error| connection_error.tell_at);
            match &mut self.state {
                State::Up(session) => {
                    let give_back_at = self.tags.is_holding().then_some(self.give_back_at);
                    let some = tokio::select! {
                        biased;
                        some = session.next(max.max(1), MOST_FETCHED_BYTES) => some,
                        () = until(give_back_at) => continue,
                    };
                    match some {
                        Ok(some) => {
                            let Options {
                                queue,
                                max_message_bytes,
                                ..
                            } = &self.settings.options;
                            let some = some.into_iter().map(|raw| {
                                let id = self.tags.hand_out(raw.delivery_tag);
                                message::delivery(id, queue, raw, *max_message_bytes)
                            });
                            return Ok(Fetched::Deliveries(some.collect()));
                        }
                        Err(end) => self.lose(end),
                    }
                }
                State::Connecting(tasks) => {
                    let made = tokio::select! {
                        biased;
                        made = tasks.join_next() => made,
                        () = until(tell_at) => continue,
                    };
                    let made = match made {
                        Some(Ok(made)) => made,
                        // The task does not panic, and only the runtime's end stops it.
                        Some(Err(_)) | None => Err(error::silent(&self.settings.address)),
                    };
                    self.connected(made)?;
                }
                State::Down(at) => {
                    let at = *at;
                    tokio::select! {
                        biased;
                        () = sleep_until(at) => {}
                        () = until(tell_at) => continue,
                    }
                    let settings = Arc::clone(&self.settings);
                    let prefetch = self.prefetch;
                    let mut tasks = JoinSet::new();
                    tasks.spawn(async move {
                        let Settings { address, options } = &*settings;
                        Session::open(address, options, prefetch).await
                    });
                    self.state = State::Connecting(tasks);
                }
                State::Closed => return Ok(Fetched::Ended),
            }
        }
    }

    async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
        let State::Up(session) = &self.state else {
            return Ok(());
        };
        let batch = self.tags.settle(batch.iter().map(|told| told.delivery));
        if batch.is_empty() {
            return Ok(());
        }
        self.has_told = true;
        let told = session.acknowledge(batch).await;
        told.map_err(|cause| self.unheard(cause))
    }

    async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
        self.tags.hold(batch);
        self.give_back().await;
        Ok(())
    }

    /// Does nothing, for the broker has nothing of the kind: its consumer timeout counts from the delivery on.
    async fn extend(&mut self, _batch: &[DeliveryId]) -> Result<()> {
        Ok(())
    }

    /// Opens another session with twice the prefetch, where as many are not settled.
    async fn prefetch_more(&mut self, unsettled: usize) -> Result<()> {
        let most = self.settings.options.prefetch.saturating_mul(MOST_PREFETCH);
        if unsettled < self.prefetch.into() || self.prefetch >= most {
            return Ok(());
        }
        let now = Instant::now();
        match std::mem::replace(&mut self.state, State::Down(now)) {
            State::Up(session) => {
                self.prefetch = self.prefetch.saturating_mul(2).min(most);
                self.news.revoked.extend(self.tags.lose());
                // If it fails, the broker takes everything back with the connection.
                self.has_told &= session.close().await.is_err();
            }
            state => self.state = state,
        }
        Ok(())
    }

    async fn close(&mut self) -> Result<()> {
        let state = std::mem::replace(&mut self.state, State::Closed);
        let held = self.tags.give_back();
        self.tags.lose();
        let closed = match state {
            State::Up(session) => {
                // The rest is given back when the channel ends.
                let _ = session.give_back(held).await;
                session.close().await
            }
            State::Down(_) | State::Connecting(_) if self.has_told => {
                Err(std::io::Error::from(std::io::ErrorKind::NotConnected).into())
            }
            State::Down(_) | State::Connecting(_) | State::Closed => Ok(()),
        };
        match closed {
            Err(cause) if self.has_told => Err(self.unheard(cause)),
            Err(_) | Ok(()) => Ok(()),
        }
    }

    fn progress(&self) -> Option<Progress> {
        None
    }
}

/// Waits until this time; for ever, without one.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

impl fmt::Debug for AmqpSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            State::Down(_) => "down",
            State::Connecting(_) => "connecting",
            State::Up(_) => "up",
            State::Closed => "closed",
        };
        f.debug_struct("AmqpSource")
            .field("options", &self.settings.options)
            .field("state", &state)
            .field("tags", &self.tags)
            .finish_non_exhaustive()
    }
}
