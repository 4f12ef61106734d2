//! One connection: two directions, each read, held, delayed, judged and passed on.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::watch;

use super::plan::{Fate, Piece, Side};
use super::{Shared, locked};

/// The sides whose bytes are held back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gate {
    pub(super) client: bool,
    pub(super) server: bool,
}

impl Gate {
    const fn holds(self, side: Side) -> bool {
        match side {
            Side::Client => self.client,
            Side::Server => self.server,
        }
    }
}

/// The reason why a connection ended, if it did not end by itself.
enum End {
    Cut { reset: bool },
    Broken,
}

impl From<io::Error> for End {
    fn from(_: io::Error) -> Self {
        Self::Broken
    }
}

/// Carries one connection to its end.
pub(super) async fn carry(
    shared: Arc<Shared>,
    (mut cut, mut loss): (watch::Receiver<()>, watch::Receiver<()>),
    client: TcpStream,
) {
    let mut streams = [Some(client), None];
    let is_cut = || {
        Err(End::Cut {
            reset: locked(&shared.plan).reset,
        })
    };
    let end = tokio::select! {
        biased;
        Ok(()) = cut.changed() => is_cut(),
        Ok(()) = loss.changed() => {
            // The streams stay open, and nobody reads them.
            let _ = cut.changed().await;
            is_cut()
        }
        end = relay(&shared, &mut streams) => end,
    };
    let reset = match end {
        Ok(()) => false,
        // A failure of one side breaks the other side as well.
        Err(End::Broken) => true,
        Err(End::Cut { reset }) => {
            // Counted before the client can notice.
            shared.seen.send_modify(|seen| seen.cuts += 1);
            reset
        }
    };
    for stream in streams.into_iter().flatten() {
        if reset {
            // A stream that is already gone needs no reset.
            let _ = stream.set_zero_linger();
        }
    }
    shared.seen.send_modify(|seen| seen.connections -= 1);
}

async fn relay(shared: &Shared, streams: &mut [Option<TcpStream>; 2]) -> Result<(), End> {
    pass_gate(shared, Side::Client).await;
    let upstream = *locked(&shared.upstream);
    let [client, server] = streams;
    let Ok(connected) = TcpStream::connect(upstream).await else {
        return Ok(());
    };
    let server = server.insert(connected);
    let client = client.as_mut().ok_or(End::Broken)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (client_reads, client_writes) = client.split();
    let (server_reads, server_writes) = server.split();
    let asked = AtomicBool::new(false);
    tokio::try_join!(
        pump(shared, Side::Client, client_reads, server_writes, &asked),
        pump(shared, Side::Server, server_reads, client_writes, &asked),
    )?;
    Ok(())
}

/// Passes on what `side` sends until it ends.
async fn pump(
    shared: &Shared,
    side: Side,
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    asked: &AtomicBool,
) -> Result<(), End> {
    let mut buffer = vec![0; PIECE];
    loop {
        let length = from.read(&mut buffer).await?;
        pass_gate(shared, side).await;
        if length == 0 {
            return Ok(to.shutdown().await?);
        }
        let begins_answer = match side {
            Side::Client => {
                asked.store(true, Ordering::Relaxed);
                false
            }
            Side::Server => {
                let delay = locked(&shared.plan).delay;
                if delay > Duration::ZERO {
                    tokio::time::sleep(delay).await;
                }
                asked.swap(false, Ordering::Relaxed)
            }
        };
        let piece = Piece {
            from: side,
            length: length as u64,
            begins_answer,
        };
        let fate = locked(&shared.plan).meet(piece);
        let passing = match fate {
            Fate::Passes => length,
            Fate::Cut { after, .. } => usize::try_from(after).map_or(length, |n| n.min(length)),
        };
        // Counted before the receiver can have read them.
        shared.seen.send_modify(|seen| match side {
            Side::Client => seen.client_bytes += passing as u64,
            Side::Server => seen.server_bytes += passing as u64,
        });
        to.write_all(&buffer[..passing]).await?;
        if let Fate::Cut { reset, .. } = fate {
            return Err(End::Cut { reset });
        }
    }
}

/// Waits while `side` is held back, and is counted as held meanwhile.
async fn pass_gate(shared: &Shared, side: Side) {
    let mut gate = shared.gate.subscribe();
    if !gate.borrow_and_update().holds(side) {
        return;
    }
    shared.seen.send_modify(|seen| seen.held += 1);
    let _held = Held(shared);
    // The sender lives in `shared`.
    let _ = gate.wait_for(|gate| !gate.holds(side)).await;
}

/// Counts until it is dropped, for a connection may be cut while it is held.
struct Held<'a>(&'a Shared);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.0.seen.send_modify(|seen| seen.held -= 1);
    }
}

const PIECE: usize = 16 * 1024;
