//! The export of the store: everything that it holds, as `semel store export` writes it, to one client at a time and as
//! fast as that client takes it.
//!
//! The worker goes on meanwhile, so the pages are small and what changes may be missing. An export that is not whole has
//! no last line, and its answer breaks off: nobody takes a part of one for all of it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use bytes::Bytes;
use futures_util::stream;
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{Code, Result as StoreResult, Store, Timestamp};
use semel_http::{Caller, Leave, Problem};
use semel_operate::order::note;
use semel_operate::store::note_export;
use semel_worker::transfer::{self, Use};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use crate::answer::{Answer, json_text};
use crate::orders::{no_trail, reason_alone};
use crate::query::sees_everything;
use crate::reading::{Readings, Subject};
use crate::settings::Settings;

/// The place of the export that goes on.
#[derive(Debug)]
pub(crate) struct Exports {
    place: Arc<Semaphore>,
}

impl Exports {
    pub(crate) fn new() -> Self {
        Self {
            place: Arc::new(Semaphore::new(1)),
        }
    }

    /// Begins an export, which goes on while its client takes it. The connection gets leave for as long as that is.
    ///
    /// # Errors
    ///
    /// 400 without a reason; 403 for a caller that is confined to a tenant, and where members of messages are hidden from
    /// everybody: an export has them; 409 `export-unfinished` while another one goes on; 501 of a store that takes no entry
    /// about itself into its audit trail, or keeps nothing; those of the store: without the entry, nothing begins
    pub(crate) async fn begin(
        &self,
        readings: &Readings,
        settings: &Settings,
        (caller, leave): (&Caller, Option<&Leave>),
        body: &[u8],
    ) -> Answer {
        // It has the messages of all tenants.
        sees_everything(caller)?;
        let reason = reason_alone(body)?;
        if !settings.console.mask.is_empty() {
            let detail = "`[console] mask` hides members of messages from everybody who asks here, and an export has them \
                          as they are; use `semel store export` beside the store";
            let code = Code::Forbidden.as_str();
            return Err(Problem::new(StatusCode::FORBIDDEN, code, detail));
        }
        let store = readings.lent()?.trail.ok_or_else(no_trail)?;
        let Ok(place) = Arc::clone(&self.place).try_acquire_owned() else {
            let detail = "the store is being exported to somebody else, and nothing was done: ask again once that has ended; \
                          /v1/audit tells who asked for it";
            let code = Code::ExportUnfinished.as_str();
            return Err(Problem::new(StatusCode::CONFLICT, code, detail));
        };
        let reading = readings.begin().await?.of(Subject::Named);
        let kind = reading.within(reading.store.preflight()).await?.kind;
        let created = settings.clock.now();
        let entry = note_export(&store, note(&caller.name, &reason), created);
        reading.within(entry).await?;
        drop(reading);
        if let Some(leave) = leave {
            leave.give();
        }
        let body = Export::begin(store, kind, created, place).into_body();
        let mut answer = json_text(body);
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE));
        headers.extend(file_name(created).map(|name| (CONTENT_DISPOSITION, name)));
        Ok(answer)
    }
}

/// The name under which a browser keeps an export.
fn file_name(created: Timestamp) -> Option<HeaderValue> {
    // Some file systems know no colon.
    let created = created.to_string().replace(':', "");
    let name = format!("attachment; filename=\"semel-export-{created}.jsonl\"");
    HeaderValue::from_str(&name).ok()
}

/// An export that goes on. Dropping it ends it.
struct Export {
    coming: mpsc::Receiver<Bytes>,
    work: JoinSet<StoreResult<()>>,
    begun: Instant,
    /// The time at which the client took the last part.
    taken: Option<Instant>,
}

impl Export {
    fn begin(
        store: AnyTransferStore,
        kind: &'static str,
        created: Timestamp,
        place: OwnedSemaphorePermit,
    ) -> Self {
        let (parts, coming) = mpsc::channel(1);
        let mut work = JoinSet::new();
        work.spawn(async move {
            let _place = place;
            let (of, to) = ((kind, Use::Work), Parts(parts));
            let written = transfer::export(&store, of, created, to, Arc::new(|_, _| {}));
            written.await.map(|_| ())
        });
        Self {
            coming,
            work,
            begun: Instant::now(),
            taken: None,
        }
    }

    fn into_body(self) -> Body {
        let parts = stream::unfold(Some(self), async |export| {
            let mut export = export?;
            match export.next().await {
                Ok(Some(part)) => Some((Ok(part), Some(export))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        });
        Body::from_stream(parts)
    }

    /// Waits for the next part; none at the end of an export that is whole.
    ///
    /// # Errors
    ///
    /// The failure of the store, its silence, or a client that takes too little or too long; the connection is closed for
    /// it, since the head of the answer has been sent
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        if self.begun.elapsed() > LONGEST {
            let text = "the export has not ended in the longest time that one may take";
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        let is_slow = |taken: Instant| taken.elapsed() > LONGEST_PART;
        if self.taken.is_some_and(is_slow) {
            let text = "the client took less than a part of the export in the time for one";
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        let coming = timeout(LONGEST_PART, self.coming.recv()).await;
        let coming = coming.map_err(|_| {
            let text = "the store gave nothing of the export in the time for a part";
            io::Error::new(io::ErrorKind::TimedOut, text)
        })?;
        if let Some(part) = coming {
            self.taken = Some(Instant::now());
            return Ok(Some(part));
        }
        match self.work.join_next().await {
            Some(Ok(Ok(()))) => Ok(None),
            Some(Ok(Err(error))) => Err(io::Error::other(error)),
            // It panicked, or the worker ends.
            Some(Err(error)) => Err(io::Error::other(error)),
            None => Err(io::Error::other("the export has no task")),
        }
    }
}

/// The parts of an export on their way to the client. A write waits until there is room for it.
struct Parts(mpsc::Sender<Bytes>);

impl io::Write for Parts {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = bytes.len().min(PART_BYTES);
        let part = Bytes::copy_from_slice(&bytes[..len]);
        let sent = self.0.blocking_send(part);
        // Whoever took them is gone.
        sent.map_err(|_| io::ErrorKind::BrokenPipe)?;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The type of an export.
const MEDIA_TYPE: &str = "application/jsonl";
/// The most bytes of a part.
const PART_BYTES: usize = 256 << 10;
/// The longest time for a part, of the store and of the client each. The listener closes a connection that takes nothing
/// at all long before.
const LONGEST_PART: Duration = Duration::from_secs(60);
/// The longest time for all of it: a worker may write faster than the client takes, and then there is no end.
const LONGEST: Duration = Duration::from_secs(6 * 60 * 60);
