//! A proxy that drops, cuts and delays what it carries, one connection per request.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy, sink};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};

/// The fate of one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fate {
    Pass,
    /// Closed before anything is read.
    Close,
    /// The request is read, and never handed on.
    LoseRequest,
    /// The request is carried out, and its answer dropped.
    LoseAnswer,
    /// The answer breaks off in the middle.
    CutAnswer,
    /// The answer comes when nobody waits for it any more.
    Delay,
}

const FATES: [(Fate, u8); 6] = [
    (Fate::Pass, 60),
    (Fate::Close, 8),
    (Fate::LoseRequest, 8),
    (Fate::LoseAnswer, 12),
    (Fate::CutAnswer, 9),
    (Fate::Delay, 3),
];

pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    counts: Arc<Mutex<BTreeMap<Fate, u32>>>,
    accepting: AbortHandle,
}

impl Proxy {
    /// Stands before `server`. Connections have fates by chance, the same for the same seed.
    pub(crate) async fn start(server: SocketAddr, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let counts = Arc::new(Mutex::new(BTreeMap::new()));
        let count = Arc::clone(&counts);
        let accepting = tokio::spawn(async move {
            let mut chance = fastrand::Rng::with_seed(seed);
            let mut connections = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                while connections.try_join_next().is_some() {}
                let fate = fate(chance.u8(0..100));
                *count.lock().expect("no panic").entry(fate).or_default() += 1;
                connections.spawn(carry(client, server, fate));
            }
        });
        Self {
            address,
            counts,
            accepting: accepting.abort_handle(),
        }
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The number of connections by fate.
    pub(crate) fn counts(&self) -> BTreeMap<Fate, u32> {
        self.counts.lock().expect("no panic").clone()
    }

    pub(crate) fn met_every_fate(&self) -> bool {
        self.counts().len() == FATES.len()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

fn fate(mut chance: u8) -> Fate {
    for (fate, share) in FATES {
        match chance.checked_sub(share) {
            None => return fate,
            Some(rest) => chance = rest,
        }
    }
    Fate::Pass
}

/// Carries one request, which asks the server to close the connection after the answer. Errors are those of a side that
/// hung up.
async fn carry(mut client: TcpStream, server: SocketAddr, fate: Fate) -> std::io::Result<()> {
    match fate {
        Fate::Close => return Ok(()),
        Fate::LoseRequest => {
            client.read_exact(&mut [0; 16]).await?;
            return Ok(());
        }
        Fate::Pass | Fate::LoseAnswer | Fate::CutAnswer | Fate::Delay => {}
    }
    let (mut from_server, mut to_server) = TcpStream::connect(server).await?.into_split();
    let (mut from_client, mut to_client) = client.split();
    let mut answer = Vec::new();
    tokio::select! {
        read = from_server.read_to_end(&mut answer) => { read?; }
        copied = copy(&mut from_client, &mut to_server) => {
            copied?;
            from_server.read_to_end(&mut answer).await?;
        }
    }
    match fate {
        Fate::Pass => to_client.write_all(&answer).await,
        Fate::CutAnswer => to_client.write_all(&answer[..answer.len() / 2]).await,
        Fate::Delay => {
            // Until the client hangs up.
            copy(&mut from_client, &mut sink()).await?;
            Ok(())
        }
        Fate::Close | Fate::LoseRequest | Fate::LoseAnswer => Ok(()),
    }
}
