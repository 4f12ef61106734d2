//! The worker's side: its own store, for every process that may open the socket.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use semel_core::port::store::{ListQuery, Page};
use semel_core::port::transfer::{AnyTransferStore, Item, TransferStore};
use semel_core::{AnyStore, Code, Error, ErrorKind, Operation, Result, Store};
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use super::frame::{self, Frame};
use super::wire::{Answer, Greeting, Request};
use super::{MOST_BYTES, MOST_GREETING_BYTES, PATIENCE, SOCKET, socket, unlike, within};

/// Listens in `folder`, where the caller has the store open and locked, and serves it for as long as the future is
/// polled. Dropping the future removes the socket. Leases that are claimed here must outlive the caller's own: for an
/// embedded store, `LentStore` sees to that.
///
/// A process that may connect may do all that a verb can; only the owner of the folder may. A message that is no
/// request closes the connection that it came by.
///
/// # Errors   `Unavailable`: no socket can be made there
pub fn serve(
    folder: &Path,
    store: AnyStore,
    trail: AnyTransferStore,
) -> Result<impl Future<Output = ()> + Send + 'static> {
    let (listener, socket_file) = socket::listen(folder).map_err(|error| {
        let message = format!("cannot listen at {SOCKET}: {error}");
        Error::new(ErrorKind::Unavailable, message)
            .with_code(Code::StoreUnavailable)
            .not_applied()
    })?;
    Ok(async move {
        let _socket_file = socket_file;
        let slots = Arc::new(Semaphore::new(MOST_CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok((stream, _)) = listener.accept().await else {
                // Out of files, for example; that passes.
                sleep(AGAIN).await;
                continue;
            };
            let Ok(slot) = Arc::clone(&slots).try_acquire_owned() else {
                turn_away(&stream);
                continue;
            };
            let served = Served {
                store: store.clone(),
                trail: trail.clone(),
            };
            connections.spawn(async move {
                // A client that hangs up, or sends no request, ends its own connection and nothing else.
                let _ = serve_one(stream, &served).await;
                drop(slot);
            });
        }
    })
}

/// The store that is served.
struct Served {
    store: AnyStore,
    /// The same store, for audit entries about the store as a whole, and to be exported.
    trail: AnyTransferStore,
}

/// Answers that there are too many connections, as far as that goes without waiting.
fn turn_away(stream: &UnixStream) {
    let greeting = Greeting {
        refused: Some("too many others are being served; try again".to_owned()),
        ..Greeting::own()
    };
    let greeting = greeting.to_bytes();
    let len = u32::try_from(greeting.len()).unwrap_or_default();
    let _ = stream.try_write(&[&len.to_le_bytes(), &greeting[..]].concat());
}

/// Greets, and answers until the other side hangs up.
async fn serve_one(mut stream: UnixStream, served: &Served) -> io::Result<()> {
    let greeted = timeout(PATIENCE, frame::read(&mut stream, MOST_GREETING_BYTES)).await;
    let greeting = match greeted {
        Ok(Ok(Frame::Message(message))) => Greeting::from_bytes(&message),
        Ok(Ok(Frame::TooLong(_))) => Err(unlike("no greeting")),
        Ok(Ok(Frame::End)) | Err(_) => return Ok(()),
        Ok(Err(error)) => return Err(error),
    };
    let own = Greeting {
        refused: greeting.as_ref().err().map(ToString::to_string),
        ..Greeting::own()
    };
    send(&mut stream, &own.to_bytes()).await?;
    // Of another version, only the greeting is understood; the other side reports that.
    if !greeting.is_ok_and(|it| it.semel_control == super::VERSION) {
        return Ok(());
    }
    loop {
        let read = frame::read(&mut stream, MOST_BYTES);
        let Ok(read) = timeout(IDLE, read).await else {
            return Ok(());
        };
        let (answer, is_last) = match read? {
            Frame::End => return Ok(()),
            Frame::TooLong(_) => (Answer::Failed(unlike("longer than any request")), true),
            Frame::Message(message) => match Request::from_bytes(&message) {
                Ok(request) => (answer(served, request).await, false),
                Err(error) => (Answer::Failed(error), true),
            },
        };
        send(&mut stream, &bytes_of(&answer)).await?;
        if is_last {
            return Ok(());
        }
    }
}

async fn send(stream: &mut UnixStream, message: &[u8]) -> io::Result<()> {
    timeout(PATIENCE, frame::write(stream, message))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

/// The answer as a message, or that it cannot be one.
fn bytes_of(answer: &Answer) -> Vec<u8> {
    let bytes = answer.to_bytes().and_then(|bytes| {
        within(bytes.len())?;
        Ok(bytes)
    });
    bytes.unwrap_or_else(|error| {
        // The request may have been carried out.
        let error = Error::new(ErrorKind::Internal, error.to_string());
        Answer::Failed(error).to_bytes().unwrap_or_default()
    })
}

/// Calls the store.
async fn answer(Served { store, trail }: &Served, request: Request) -> Answer {
    let answered = match request {
        Request::Claim(batch) => store.claim(batch).await.map(Answer::Claimed),
        Request::Settle(batch) => store.settle(batch).await.map(Answer::Settled),
        Request::Renew(batch) => store.renew(batch).await.map(Answer::Renewed),
        Request::Park(batch) => store.park(batch).await.map(Answer::Flags),
        Request::DropParked(ids, note) => {
            let dropped = store.drop_parked(ids, note.as_ref());
            dropped.await.map(Answer::Flags)
        }
        Request::Get(batch) => get(store, batch).await,
        Request::List(query) => store.list(&query).await.map(Answer::Listed),
        Request::ListParked(query) => list_parked(store, query).await.map(Answer::Parked),
        Request::Operate(batch) => store.operate(batch).await.map(Answer::Directed),
        Request::ListAudit(query) => store.list_audit(&query).await.map(Answer::Audited),
        Request::Sweep(limit) => store.sweep(limit.min(MOST_SWEPT)).await.map(Answer::Swept),
        Request::Stats => store.stats().await.map(Answer::Stats),
        Request::Preflight => store.preflight().await.map(Answer::Capabilities),
        Request::Note(entries) => {
            let entries = entries
                .into_iter()
                .map(|entry| Item::Audited(Box::new(entry)));
            trail.import(entries.collect()).await.map(Answer::Flags)
        }
        Request::Export(after, limit) => {
            let exported = export(trail, after.as_deref(), limit);
            exported.await.map(Answer::Exported)
        }
    };
    answered.unwrap_or_else(Answer::Failed)
}

async fn get(store: &AnyStore, batch: Arc<[Operation]>) -> Result<Answer> {
    let records = store.get(Arc::clone(&batch)).await?;
    let operations = batch.iter().cloned();
    Ok(Answer::Records(operations.zip(records).collect()))
}

/// A page of parked messages that is no longer than a message may be, although each of them may be long.
async fn list_parked(store: &AnyStore, mut query: ListQuery) -> Result<Page<semel_core::Parked>> {
    query.limit = query.limit.min(MOST_PARKED);
    loop {
        let page = store.list_parked(&query).await?;
        let bytes: usize = page.items.iter().map(|it| it.payload.len()).sum();
        if bytes <= PAGE_BYTES || query.limit <= 1 {
            return Ok(page);
        }
        query.limit /= 2;
    }
}

/// A page of everything that is no longer than a message may be, although what each item holds may be long.
async fn export(
    store: &AnyTransferStore,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Page<Item>> {
    let mut limit = limit.min(MOST_EXPORTED);
    loop {
        let page = store.export(after, limit).await?;
        let bytes: usize = page.items.iter().map(Item::len_bytes).sum();
        if bytes <= PAGE_BYTES || limit <= 1 {
            return Ok(page);
        }
        limit /= 2;
    }
}

/// The most verbs at once; more are turned away.
const MOST_CONNECTIONS: usize = 16;
/// The time for which a connection may send no request.
const IDLE: Duration = Duration::from_secs(600);
/// The pause after a connection could not be accepted.
const AGAIN: Duration = Duration::from_millis(200);
/// Records of one step of a sweep.
const MOST_SWEPT: usize = 10_000;
/// Items of a page of an export.
const MOST_EXPORTED: usize = 256;
/// Messages of a page, and bytes of their payloads unless it is one.
const MOST_PARKED: usize = 256;
const PAGE_BYTES: usize = 32 << 20;
