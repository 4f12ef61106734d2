//! The addresses that webhooks and other messages come to. Several sources share one, each with a path of its own.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use semel_core::port::ingest::AnyIngestJournal;
use semel_core::{Clock, Code, Error, ErrorKind, Result};
use semel_http::{Listener, Problem};
use semel_tls::Identity;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::answer;
use super::answers::Answers;
use super::arrivals::Arrivals;
use super::entrance::{Entrance, LIMITS};
use super::ingest::{Gate, IngestOptions, MAX_HEADERS_BYTES};
use super::open_requests::OpenRequests;
use super::options::Options;
use super::request_body::unread;
use super::route::Route;

/// The addresses that webhooks come to. They are listened at from the beginning, so that a provider is told to come again
/// while the sources are not there yet, and once they are closed.
pub struct Listeners {
    clock: Arc<dyn Clock>,
    doors: BTreeMap<Entrance, Door>,
    serving: Mutex<JoinSet<()>>,
    stop: watch::Sender<bool>,
}

/// One listener.
struct Door {
    /// With the port that the system chose; of one that is lent, once that is told.
    address: OnceLock<SocketAddr>,
    is_encrypted: bool,
    paths: Arc<Paths>,
}

/// The paths of one listener.
struct Paths {
    places: Mutex<Places>,
    /// Of a listener that is lent: its own requests are awaited where it ends.
    open_requests: OpenRequests,
    /// Turned `true` once no further requests are wanted.
    is_stopping: Option<watch::Receiver<bool>>,
}

type Places = BTreeMap<Box<str>, Place>;

/// One path.
#[derive(Clone, Default)]
struct Place {
    /// Without one, its source is not there yet.
    route: Option<Taker>,
    answers: Arc<Answers>,
}

/// The one that answers the requests of a path.
#[derive(Clone)]
enum Taker {
    Webhook(Arc<Route>),
    Ingest(Arc<Gate>),
}

impl Taker {
    fn is_closed(&self) -> bool {
        match self {
            Self::Webhook(route) => route.inbox().is_closed(),
            Self::Ingest(gate) => gate.is_closed(),
        }
    }

    async fn answer(&self, request: Request) -> Response {
        match self {
            Self::Webhook(route) => route.answer(request).await,
            Self::Ingest(gate) => gate.answer(request).await,
        }
    }
}

impl Listeners {
    /// Listens at these addresses for requests with these paths, encrypted where a listener has a certificate in `tls`. Once
    /// `stopping` is true, new requests are told to come again later, and only those in hand are answered with their fates.
    /// For a listener that is lent, [`router`](Self::router) answers.
    ///
    /// # Errors
    ///
    /// `Unavailable`: an address cannot be listened at; `address-in-use` names the other program where the system allows
    /// it. `InvalidConfig`: a certificate is of no use.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn bind(
        places: impl IntoIterator<Item = (impl Into<Entrance>, Box<str>)> + Send,
        tls: &BTreeMap<Entrance, Identity>,
        clock: Arc<dyn Clock>,
        stopping: Option<watch::Receiver<bool>>,
    ) -> Result<Self> {
        let mut by_entrance = BTreeMap::<_, Places>::new();
        for (entrance, path) in places {
            let places = by_entrance.entry(entrance.into()).or_default();
            places.insert(path, Place::default());
        }
        let (stop, stopped) = watch::channel(false);
        let mut doors = BTreeMap::new();
        let mut serving = JoinSet::new();
        for (entrance, places) in by_entrance {
            let paths = Arc::new(Paths {
                places: Mutex::new(places),
                open_requests: OpenRequests::default(),
                is_stopping: stopping.clone(),
            });
            let identity = tls.get(&entrance);
            let door = Door {
                address: OnceLock::new(),
                is_encrypted: identity.is_some(),
                paths: Arc::clone(&paths),
            };
            if let Entrance::Own(listen) = entrance {
                let tls = identity.map(Identity::config).transpose()?;
                let listener = Listener::bind("source.listen", listen).await?;
                // Nobody else has told it.
                let _ = door.address.set(listener.address());
                let router = Router::new().fallback(receive).with_state(paths);
                let mut stopped = stopped.clone();
                serving.spawn(async move {
                    let stop = async move {
                        let _ = stopped.wait_for(|is_asked| *is_asked).await;
                    };
                    match tls.map(Arc::new) {
                        Some(tls) => {
                            let serving =
                                listener.serve_router_encrypted(tls, LIMITS, router, stop);
                            serving.await;
                        }
                        None => listener.serve_router(LIMITS, router, stop).await,
                    }
                });
            }
            doors.insert(entrance, door);
        }
        Ok(Self {
            clock,
            doors,
            serving: Mutex::new(serving),
            stop,
        })
    }

    /// Returns the address that is listened at: with the port that the system chose, if none was asked for.
    pub fn address(&self, entrance: impl Into<Entrance>) -> Option<SocketAddr> {
        let entrance = entrance.into();
        let door = self.doors.get(&entrance)?;
        let bound = door.address.get().copied();
        Some(bound.unwrap_or(entrance.address()))
    }

    /// Returns what answers the requests of the paths of a listener that is lent, which really has this address; nothing if
    /// no source has one there.
    pub fn router(&self, entrance: Entrance, address: SocketAddr) -> Option<Router> {
        entrance.lender()?;
        let door = self.doors.get(&entrance)?;
        // It is lent once.
        let _ = door.address.set(address);
        let paths = Arc::clone(&door.paths);
        Some(Router::new().fallback(receive_lent).with_state(paths))
    }

    /// The scheme of the URLs of a listener.
    fn scheme(&self, entrance: Entrance) -> &'static str {
        match self.doors.get(&entrance) {
            Some(door) if door.is_encrypted => "https",
            Some(_) | None => "http",
        }
    }

    /// Returns the counts of what the requests of one path were answered; nothing if it was not named before.
    pub fn answers(&self, entrance: impl Into<Entrance>, path: &str) -> Option<Arc<Answers>> {
        let places = self.doors.get(&entrance.into())?.paths.lock();
        places.get(path).map(|place| Arc::clone(&place.answers))
    }

    /// Begins to take the webhooks of one path.
    ///
    /// # Errors   `InvalidConfig`: the path was not named before, or another source has it
    pub(crate) fn open(&self, options: Options) -> Result<Arc<Route>> {
        let (entrance, path) = (Entrance::Own(options.listen), options.path.clone());
        self.take(entrance, &path, |paths, _| {
            let route = Route::new(options, Arc::clone(&self.clock), LIMITS.room(), paths);
            let route = Arc::new(route);
            (Taker::Webhook(Arc::clone(&route)), route)
        })
    }

    /// Begins to take the messages of one path into a journal.
    ///
    /// # Errors   as [`Listeners::open`]
    pub(crate) fn open_gate(
        &self,
        options: IngestOptions,
        journal: AnyIngestJournal,
    ) -> Result<Arc<Gate>> {
        let (entrance, path) = (options.entrance, options.path.clone());
        self.take(entrance, &path, |paths, answers| {
            let longest = options.max_body_bytes.saturating_add(MAX_HEADERS_BYTES);
            let arrivals = Arrivals::new(longest, entrance.limits().room(), paths);
            let clock = Arc::clone(&self.clock);
            let gate = Gate::new(options, journal, clock, arrivals, answers);
            let gate = Arc::new(gate);
            (Taker::Ingest(Arc::clone(&gate)), gate)
        })
    }

    /// Gives a path to whom `make` makes of the number of paths at the address, and of its counts.
    fn take<T>(
        &self,
        entrance: Entrance,
        path: &str,
        make: impl FnOnce(usize, Arc<Answers>) -> (Taker, T),
    ) -> Result<T> {
        let refused = |why: &str| {
            let scheme = self.scheme(entrance);
            let message = format!("{scheme}://{entrance}{path} {why}");
            let error = Error::new(ErrorKind::InvalidConfig, message);
            Err(error.with_code(Code::SourceUnavailable))
        };
        let Some(door) = self.doors.get(&entrance) else {
            return refused("is not listened at");
        };
        let mut places = door.paths.lock();
        let paths = places.len();
        let Some(place) = places.get_mut(path) else {
            return refused("is not listened at");
        };
        if place.route.as_ref().is_some_and(|it| !it.is_closed()) {
            return refused("has another source");
        }
        let (taker, opened) = make(paths, Arc::clone(&place.answers));
        place.route = Some(taker);
        drop(places);
        Ok(opened)
    }

    /// Stops to listen, and waits until the requests in hand are answered. The sources should be closed by then: no request
    /// waits for longer than a few seconds. A listener that is lent goes on, and has new requests told to come again.
    ///
    /// # Cancel safety
    ///
    /// Dropping it closes every connection.
    pub async fn close(&self) {
        self.stop.send_replace(true);
        let mut serving = {
            let mut serving = self.serving.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *serving)
        };
        let lent = self.doors.iter();
        let lent = lent.filter(|(entrance, _)| entrance.lender().is_some());
        let answered = async {
            for (_, door) in lent {
                door.paths.open_requests.none().await;
            }
        };
        // Both have their time from now on.
        let own = async { while serving.join_next().await.is_some() {} };
        let _ = tokio::join!(own, timeout(LIMITS.drain, answered));
    }
}

impl Paths {
    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.as_ref().is_some_and(|it| *it.borrow())
    }
}

/// Answers a request, whatever its path and method.
async fn receive(State(paths): State<Arc<Paths>>, request: Request) -> Response {
    let found = paths.lock().get(request.uri().path()).cloned();
    let Some(Place { route, answers }) = found else {
        return refuse(answer::path_unknown(), request).await;
    };
    let response = match route {
        Some(route) if !paths.is_stopping() => route.answer(request).await,
        Some(_) | None => refuse(answer::closed(), request).await,
    };
    answers.count(response.status());
    response
}

/// The same at a listener that is lent, whose requests are awaited here.
async fn receive_lent(paths: State<Arc<Paths>>, request: Request) -> Response {
    let request_in_hand = paths.open_requests.begin();
    let response = receive(paths, request).await;
    response.map(|body| request_in_hand.until_gone(body))
}

async fn refuse(problem: Problem, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    unread(problem, &parts.headers, body).await
}

impl fmt::Debug for Listeners {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.doors.keys()).finish()
    }
}
