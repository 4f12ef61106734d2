//! A verb's side: a store whose every call is made by the worker that has it open.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_core::decide::{Directed, Directive};
use semel_core::port::store::{Capabilities, ListQuery, Listed, Page, Stats, Swept};
use semel_core::port::transfer::{Item, TransferStore};
use semel_core::{
    Admission, Audited, ClaimRequest, Code, Error, ErrorKind, Note, Operation, Parked, ParkedId,
    Record, Renewal, Renewed, Result, Settled, Settlement, Store,
};
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::frame::{self, Frame};
use super::wire::{Answer, Greeting, Request};
use super::{MOST_BYTES, MOST_GREETING_BYTES, PATIENCE, SOCKET, VERSION, socket, within};

/// A store whose calls its worker makes on behalf of another process.
///
/// # Cancel safety   as of any store: a call is made even if its caller has given up the wait
#[derive(Debug)]
pub struct ControlStore {
    requests: mpsc::Sender<Asked>,
    kind: &'static str,
    process: u32,
    _connection: JoinSet<()>,
}

/// A question, and the receiver of its answer.
type Asked = (Vec<u8>, oneshot::Sender<Result<Vec<u8>>>);

/// Connects to the worker that has the store of this kind in `folder` open. Returns nothing if no process listens
/// there.
///
/// # Errors   `Unavailable` or `Timeout`, not applied: the listener does not answer, or turns the verb away;
/// `Unsupported`: the worker is of another version
pub async fn connect(folder: &Path, kind: &'static str) -> Result<Option<ControlStore>> {
    let mut stream = match socket::connect(folder).await {
        Ok(stream) => stream,
        Err(error) if is_nobody(&error) => return Ok(None),
        Err(error) => return Err(unreached("cannot connect to the worker", error)),
    };
    let greeted = timeout(PATIENCE, greet(&mut stream)).await;
    let greeting = greeted.unwrap_or_else(|_| {
        let message = format!("the worker does not answer over {SOCKET}");
        Err(Error::new(ErrorKind::Timeout, message).not_applied())
    })?;
    if let Some(why) = greeting.refused {
        let message = format!("process {} has the store open: {why}", greeting.process);
        return Err(Error::new(ErrorKind::Unavailable, message)
            .with_code(Code::StoreInUse)
            .not_applied());
    }
    if greeting.semel_control != VERSION {
        let message = format!(
            "process {} has the store open and is semel {}, which takes orders in another way than this semel {}: \
             use the same version, or stop it",
            greeting.process,
            greeting.semel,
            env!("CARGO_PKG_VERSION")
        );
        return Err(Error::new(ErrorKind::Unavailable, message)
            .with_code(Code::StoreInUse)
            .not_applied());
    }
    let (requests, asked) = mpsc::channel(QUEUE);
    let mut connection = JoinSet::new();
    connection.spawn(carry(stream, asked));
    Ok(Some(ControlStore {
        requests,
        kind,
        process: greeting.process,
        _connection: connection,
    }))
}

/// Returns whether nobody listens: there is no socket, or one that was left behind.
fn is_nobody(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
    )
}

async fn greet(stream: &mut UnixStream) -> Result<Greeting> {
    let lost = |error| unreached("the worker hung up", error);
    let written = frame::write(stream, &Greeting::own().to_bytes()).await;
    match frame::read(stream, MOST_GREETING_BYTES).await {
        Ok(Frame::Message(message)) => Greeting::from_bytes(&message)
            .map_err(|error| Error::new(ErrorKind::Unavailable, error.to_string()).not_applied()),
        Ok(Frame::TooLong(_)) => {
            let message = format!("whoever listens at {SOCKET} is no worker of semel");
            Err(Error::new(ErrorKind::Unavailable, message).not_applied())
        }
        Ok(Frame::End) => Err(lost(
            written
                .err()
                .unwrap_or_else(|| io::ErrorKind::UnexpectedEof.into()),
        )),
        Err(error) => Err(lost(error)),
    }
}

fn unreached(what: &str, error: io::Error) -> Error {
    Error::new(ErrorKind::Unavailable, format!("{what} ({SOCKET})"))
        .with_code(Code::StoreInUse)
        .with_source(error)
        .not_applied()
}

/// Carries questions to the worker and its answers back, one after another, until an answer is lost: after that,
/// answers can no longer be matched with questions.
async fn carry(mut stream: UnixStream, mut asked: mpsc::Receiver<Asked>) {
    while let Some((request, to)) = asked.recv().await {
        let answered = async {
            frame::write(&mut stream, &request).await?;
            frame::read(&mut stream, MOST_BYTES).await
        };
        let answer = match timeout(ANSWER, answered).await {
            Ok(Ok(Frame::Message(message))) => Ok(message),
            Ok(Ok(Frame::TooLong(_) | Frame::End)) => Err(gone(None)),
            Ok(Err(error)) => Err(gone(Some(error))),
            Err(_) => {
                let message = format!("the worker has not answered over {SOCKET} in time");
                Err(Error::new(ErrorKind::Timeout, message))
            }
        };
        let is_lost = answer.is_err();
        // The caller may have given up the wait.
        let _ = to.send(answer);
        if is_lost {
            return;
        }
    }
}

/// The error of a worker that ended between a question and its answer. Waiting does not bring this store back, as
/// the error's kind says: a caller that runs effects on it ends, too.
fn gone(error: Option<io::Error>) -> Error {
    let message = "the worker that had the store open ended before it answered; ask again";
    let gone = Error::new(ErrorKind::Poisoned, message).with_code(Code::StoreUnavailable);
    match error {
        Some(error) => gone.with_source(error),
        None => gone,
    }
}

impl ControlStore {
    /// The process id of the worker.
    pub const fn process(&self) -> u32 {
        self.process
    }

    fn in_use(&self) -> Error {
        let message = format!(
            "the store is in use by process {}, and is imported into while nobody uses it: stop it first",
            self.process
        );
        Error::new(ErrorKind::Unavailable, message)
            .with_code(Code::StoreInUse)
            .not_applied()
    }

    async fn ask(&self, request: Request) -> Result<Vec<u8>> {
        let request = request.to_bytes()?;
        within(request.len())?;
        let (to, answer) = oneshot::channel();
        if self.requests.send((request, to)).await.is_err() {
            // An earlier answer was lost; this question was never sent.
            return Err(gone(None).not_applied());
        }
        answer.await.unwrap_or_else(|_| Err(gone(None)))
    }
}

#[deny(clippy::missing_trait_methods)]
impl Store for ControlStore {
    async fn claim(&self, batch: Arc<[ClaimRequest]>) -> Result<Vec<Admission>> {
        let answer = self.ask(Request::Claim(Arc::clone(&batch))).await?;
        Answer::from_bytes(&answer)?.claimed(batch.len())
    }

    async fn settle(&self, batch: Arc<[Settlement]>) -> Result<Vec<Settled>> {
        let answer = self.ask(Request::Settle(Arc::clone(&batch))).await?;
        Answer::from_bytes(&answer)?.settled(batch.len())
    }

    async fn renew(&self, batch: Arc<[Renewal]>) -> Result<Vec<Renewed>> {
        let answer = self.ask(Request::Renew(Arc::clone(&batch))).await?;
        Answer::from_bytes(&answer)?.renewed(batch.len())
    }

    async fn park(&self, batch: Arc<[Parked]>) -> Result<Vec<bool>> {
        let answer = self.ask(Request::Park(Arc::clone(&batch))).await?;
        Answer::from_bytes(&answer)?.flags(batch.len())
    }

    async fn drop_parked(&self, batch: Arc<[ParkedId]>, note: Option<&Note>) -> Result<Vec<bool>> {
        let request = Request::DropParked(Arc::clone(&batch), note.cloned());
        let answer = self.ask(request).await?;
        Answer::from_bytes(&answer)?.flags(batch.len())
    }

    async fn get(&self, batch: Arc<[Operation]>) -> Result<Vec<Option<Record>>> {
        let answer = self.ask(Request::Get(Arc::clone(&batch))).await?;
        Answer::from_bytes(&answer)?.records(batch.len())
    }

    async fn list(&self, query: &ListQuery) -> Result<Page<Listed>> {
        let answer = self.ask(Request::List(query.clone())).await?;
        Answer::from_bytes(&answer)?.listed()
    }

    async fn list_parked(&self, query: &ListQuery) -> Result<Page<Parked>> {
        let answer = self.ask(Request::ListParked(query.clone())).await?;
        Answer::from_bytes(&answer)?.parked()
    }

    async fn operate(&self, batch: Arc<[Directive]>) -> Result<Vec<Directed>> {
        let answer = self.ask(Request::Operate(Arc::clone(&batch))).await?;
        Answer::from_bytes(&answer)?.directed(batch.len())
    }

    async fn list_audit(&self, query: &ListQuery) -> Result<Page<Audited>> {
        let answer = self.ask(Request::ListAudit(query.clone())).await?;
        Answer::from_bytes(&answer)?.audited()
    }

    async fn sweep(&self, limit: usize) -> Result<Swept> {
        let answer = self.ask(Request::Sweep(limit)).await?;
        Answer::from_bytes(&answer)?.swept()
    }

    async fn stats(&self) -> Result<Stats> {
        let answer = self.ask(Request::Stats).await?;
        Answer::from_bytes(&answer)?.stats()
    }

    /// Counts all: the store behind it is one of this machine.
    async fn estimate(&self, _most: usize) -> Result<Stats> {
        self.stats().await
    }

    async fn preflight(&self) -> Result<Capabilities> {
        let answer = self.ask(Request::Preflight).await?;
        Answer::from_bytes(&answer)?.capabilities(self.kind)
    }
}

/// Out comes everything, and in goes the audit trail alone: everything else is imported while nobody uses the store.
impl TransferStore for ControlStore {
    async fn export(&self, after: Option<&[u8]>, limit: usize) -> Result<Page<Item>> {
        let after = after.map(Bytes::copy_from_slice);
        let answer = self.ask(Request::Export(after, limit)).await?;
        Answer::from_bytes(&answer)?.exported()
    }

    async fn import(&self, batch: Arc<[Item]>) -> Result<Vec<bool>> {
        let entries = batch.iter().map(|item| match item {
            Item::Audited(entry) => Ok((**entry).clone()),
            Item::Token(_)
            | Item::Record(_)
            | Item::Entity(..)
            | Item::Mark(_)
            | Item::Parked(_) => Err(self.in_use()),
        });
        let entries = entries.collect::<Result<Vec<_>>>()?;
        let answer = self.ask(Request::Note(entries)).await?;
        Answer::from_bytes(&answer)?.flags(batch.len())
    }
}

/// Questions that wait for their turn.
const QUEUE: usize = 64;
/// The most time that a call may take. Counting a large store takes a while.
const ANSWER: Duration = Duration::from_secs(300);
