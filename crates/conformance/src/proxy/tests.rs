use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::*;

/// Echoes the bytes that it reads, and remembers them.
struct Echo {
    address: SocketAddr,
    heard: watch::Receiver<Vec<u8>>,
    _tasks: JoinSet<()>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let (tell, heard) = watch::channel(Vec::new());
        let tell = Arc::new(tell);
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut clients = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                clients.spawn(echo(client, Arc::clone(&tell)));
            }
        });
        Self {
            address,
            heard,
            _tasks: tasks,
        }
    }

    /// Waits until it has read this many bytes in all, and returns them.
    async fn heard(&self, count: usize) -> String {
        let mut heard = self.heard.clone();
        let heard = heard.wait_for(|heard| heard.len() >= count).await;
        String::from_utf8_lossy(&heard.expect("it listens")).into_owned()
    }
}

async fn echo(mut client: TcpStream, heard: Arc<watch::Sender<Vec<u8>>>) {
    let mut buffer = vec![0; 4096];
    while let Ok(length) = client.read(&mut buffer).await {
        if length == 0 {
            return;
        }
        heard.send_modify(|heard| heard.extend_from_slice(&buffer[..length]));
        if client.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

struct Rig {
    echo: Echo,
    proxy: Proxy,
}

async fn rig() -> Rig {
    let echo = Echo::start().await;
    let proxy = Proxy::start(echo.address);
    Rig { echo, proxy }
}

impl Rig {
    async fn connect(&self) -> TcpStream {
        let client = TcpStream::connect(self.proxy.address()).await;
        client.expect("the proxy listens")
    }
}

async fn say(client: &mut TcpStream, words: &str) {
    client.write_all(words.as_bytes()).await.expect("sent");
}

/// The next `count` bytes.
async fn hear(client: &mut TcpStream, count: usize) -> String {
    let mut heard = vec![0; count];
    client.read_exact(&mut heard).await.expect("answered");
    String::from_utf8(heard).expect("text")
}

/// Everything that still comes, and the way in which it ends.
async fn hear_out(client: &mut TcpStream) -> (String, Option<ErrorKind>) {
    let mut heard = Vec::new();
    let end = client.read_to_end(&mut heard).await;
    let heard = String::from_utf8(heard).expect("text");
    (heard, end.err().map(|error| error.kind()))
}

async fn passes(rig: &Rig) {
    let mut client = rig.connect().await;
    say(&mut client, "does it pass?").await;
    assert_eq!(hear(&mut client, 13).await, "does it pass?");
}

#[tokio::test]
async fn untold_it_passes_everything_on_and_counts_it() {
    let rig = rig().await;
    let client = rig.connect().await;
    let (mut reads, mut writes) = client.into_split();
    let sent: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[1]).collect();
    let expected = sent.clone();
    let sending = tokio::spawn(async move {
        writes.write_all(&sent).await.expect("sent");
        // The other direction stays open.
        writes.shutdown().await.expect("ended");
    });
    let mut heard = Vec::new();
    reads.read_to_end(&mut heard).await.expect("answered");
    sending.await.expect("sent");
    assert!(heard == expected, "what comes back is what was sent");
    drop(reads);
    let seen = rig.proxy.until(|seen| seen.connections == 0).await;
    assert_eq!((seen.accepted, seen.cuts, seen.held), (1, 0, 0));
    assert_eq!(
        (seen.client_bytes, seen.server_bytes),
        (1_000_000, 1_000_000)
    );
}

#[tokio::test]
async fn a_client_gets_so_many_bytes_of_the_server_and_no_more() {
    let rig = rig().await;
    let mut before = rig.connect().await;
    say(&mut before, "hello").await;
    assert_eq!(hear(&mut before, 5).await, "hello");
    rig.proxy.cut_after_server_bytes(8);
    say(&mut before, "first").await;
    assert_eq!(hear(&mut before, 5).await, "first");
    let mut other = rig.connect().await;
    say(&mut other, "second").await;
    assert_eq!(hear_out(&mut other).await, ("sec".to_owned(), None));
    assert_eq!(rig.echo.heard(16).await, "hellofirstsecond");
    assert_eq!(rig.proxy.seen().cuts, 1);
    say(&mut before, "still there").await;
    assert_eq!(hear(&mut before, 11).await, "still there");
    passes(&rig).await;
}

#[tokio::test]
async fn a_server_gets_so_many_bytes_of_the_client_and_no_more() {
    let rig = rig().await;
    let mut client = rig.connect().await;
    rig.proxy.cut_after_client_bytes(3);
    say(&mut client, "commit").await;
    hear_out(&mut client).await;
    let seen = rig.proxy.until(|seen| seen.connections == 0).await;
    assert_eq!((seen.cuts, seen.client_bytes), (1, 3));
    // Bytes that the server reads after this were never part of the message that was cut.
    passes(&rig).await;
    assert_eq!(rig.echo.heard(16).await, "comdoes it pass?");
}

#[tokio::test]
async fn a_cut_after_no_byte_waits_for_the_next_one_and_lets_none_pass() {
    let rig = rig().await;
    let mut client = rig.connect().await;
    say(&mut client, "one").await;
    assert_eq!(hear(&mut client, 3).await, "one");
    rig.proxy.cut_after_server_bytes(0);
    rig.proxy.until(|seen| seen.connections == 1).await;
    say(&mut client, "two").await;
    assert_eq!(hear_out(&mut client).await.0, "");
    assert_eq!(rig.echo.heard(6).await, "onetwo");
    rig.proxy.cut_after_client_bytes(0);
    let mut client = rig.connect().await;
    say(&mut client, "three").await;
    assert_eq!(hear_out(&mut client).await.0, "");
    passes(&rig).await;
    assert_eq!(rig.echo.heard(19).await, "onetwodoes it pass?");
}

#[tokio::test]
async fn an_answer_is_lost_whole_though_the_request_was_carried_out() {
    let rig = rig().await;
    let mut client = rig.connect().await;
    rig.proxy.cut_before_answer(2);
    say(&mut client, "begin").await;
    assert_eq!(hear(&mut client, 5).await, "begin");
    say(&mut client, "commit").await;
    assert_eq!(hear_out(&mut client).await, (String::new(), None));
    assert_eq!(rig.echo.heard(11).await, "begincommit");
    assert_eq!(rig.proxy.seen().cuts, 1);
    passes(&rig).await;
}

#[tokio::test]
async fn a_greeting_is_no_answer_and_an_answer_in_pieces_is_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let proxy = Proxy::start(listener.local_addr().expect("it is bound"));
    proxy.cut_before_answer(2);
    let mut client = TcpStream::connect(proxy.address()).await.expect("accepted");
    let (mut server, _) = listener.accept().await.expect("carried on");
    say(&mut server, "welcome").await;
    assert_eq!(hear(&mut client, 7).await, "welcome");
    say(&mut client, "ask").await;
    assert_eq!(hear(&mut server, 3).await, "ask");
    for piece in ["well", "then"] {
        say(&mut server, piece).await;
        assert_eq!(hear(&mut client, 4).await, piece);
    }
    say(&mut client, "ask").await;
    assert_eq!(hear(&mut server, 3).await, "ask");
    say(&mut server, "lost").await;
    assert_eq!(hear_out(&mut client).await, (String::new(), None));
}

#[tokio::test]
async fn a_reset_is_an_error_where_a_close_is_an_end() {
    let rig = rig().await;
    rig.proxy.reset(true);
    rig.proxy.cut_before_answer(1);
    let mut client = rig.connect().await;
    say(&mut client, "commit").await;
    let end = hear_out(&mut client).await;
    assert_eq!(end, (String::new(), Some(ErrorKind::ConnectionReset)));
    rig.proxy.reset(false);
    rig.proxy.cut_before_answer(1);
    let mut client = rig.connect().await;
    say(&mut client, "commit").await;
    assert_eq!(hear_out(&mut client).await, (String::new(), None));
}

#[tokio::test]
async fn what_is_held_arrives_in_order_when_it_is_released() {
    let rig = rig().await;
    let mut client = rig.connect().await;
    say(&mut client, "one").await;
    assert_eq!(hear(&mut client, 3).await, "one");
    rig.proxy.hold();
    say(&mut client, "two").await;
    rig.proxy.until(|seen| seen.held == 1).await;
    say(&mut client, "three").await;
    let mut newcomer = rig.connect().await;
    rig.proxy.until(|seen| seen.held == 2).await;
    say(&mut newcomer, "four").await;
    assert_eq!(*rig.echo.heard.borrow(), b"one");
    assert_eq!(rig.proxy.seen().client_bytes, 3);
    rig.proxy.release();
    assert_eq!(hear(&mut client, 8).await, "twothree");
    assert_eq!(hear(&mut newcomer, 4).await, "four");
    rig.proxy.until(|seen| seen.held == 0).await;
}

#[tokio::test]
async fn held_answers_let_requests_be_carried_out() {
    let rig = rig().await;
    let mut client = rig.connect().await;
    rig.proxy.hold_answers();
    say(&mut client, "commit").await;
    assert_eq!(rig.echo.heard(6).await, "commit");
    let seen = rig.proxy.until(|seen| seen.held == 1).await;
    assert_eq!((seen.client_bytes, seen.server_bytes), (6, 0));
    rig.proxy.release();
    assert_eq!(hear(&mut client, 6).await, "commit");
}

#[tokio::test]
async fn all_open_connections_are_cut_at_once_held_ones_too() {
    let rig = rig().await;
    rig.proxy.hold_answers();
    let mut clients = [rig.connect().await, rig.connect().await];
    for client in &mut clients {
        say(client, "commit").await;
    }
    rig.proxy.until(|seen| seen.held == 2).await;
    rig.proxy.cut_now();
    for client in &mut clients {
        assert_eq!(hear_out(client).await, (String::new(), None));
    }
    let seen = rig.proxy.until(|seen| seen.connections == 0).await;
    assert_eq!((seen.cuts, seen.held), (2, 0));
    rig.proxy.heal();
    passes(&rig).await;
}

#[tokio::test]
async fn while_it_refuses_nobody_listens_and_open_connections_stay() {
    let rig = rig().await;
    let address = rig.proxy.address();
    let mut client = rig.connect().await;
    rig.proxy.until(|seen| seen.connections == 1).await;
    for _ in 0..3 {
        rig.proxy.refuse(true);
        let refused = TcpStream::connect(address)
            .await
            .expect_err("nobody listens");
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        say(&mut client, "still there").await;
        assert_eq!(hear(&mut client, 11).await, "still there");
        rig.proxy.refuse(false);
        assert_eq!(rig.proxy.address(), address);
        passes(&rig).await;
    }
}

#[tokio::test]
async fn a_lost_connection_stays_open_and_silent_and_new_ones_pass() {
    let rig = rig().await;
    let mut lost = rig.connect().await;
    say(&mut lost, "one").await;
    assert_eq!(hear(&mut lost, 3).await, "one");
    rig.proxy.lose_now();
    say(&mut lost, "two").await;
    passes(&rig).await;
    assert_eq!(rig.echo.heard(16).await, "onedoes it pass?");
    let answer = tokio::time::timeout(Duration::from_millis(20), hear(&mut lost, 1)).await;
    assert!(answer.is_err(), "{answer:?}");
    rig.proxy.cut_now();
    let seen = rig.proxy.until(|seen| seen.connections == 0).await;
    assert!(seen.cuts >= 1, "{seen:?}");
    // What it sent was never read, so its end is a reset.
    assert_eq!(hear_out(&mut lost).await.0, "");
}

#[tokio::test]
async fn healed_it_passes_everything_on_again() {
    let rig = rig().await;
    rig.proxy.cut_after_client_bytes(1);
    rig.proxy.cut_after_server_bytes(1);
    rig.proxy.cut_before_answer(1);
    rig.proxy.storm(1, 1);
    rig.proxy.delay(Duration::from_secs(3600));
    rig.proxy.hold();
    rig.proxy.refuse(true);
    rig.proxy.heal();
    passes(&rig).await;
    assert_eq!(rig.proxy.seen().cuts, 0);
}

#[tokio::test]
async fn a_storm_cuts_connection_after_connection_until_it_is_over() {
    let rig = rig().await;
    rig.proxy.storm(7, 40);
    for _ in 0..50 {
        let mut client = rig.connect().await;
        let mut heard = [0; 10];
        let broken = loop {
            let sent = client.write_all(b"ten bytes.").await;
            match sent.and(client.read_exact(&mut heard).await) {
                Ok(_) => {}
                Err(error) => break error.kind(),
            }
        };
        let ends = [
            ErrorKind::UnexpectedEof,
            ErrorKind::ConnectionReset,
            ErrorKind::BrokenPipe,
        ];
        assert!(ends.contains(&broken), "{broken:?}");
    }
    let seen = rig.proxy.until(|seen| seen.connections == 0).await;
    assert!(seen.cuts >= 50, "{seen:?}");
    rig.proxy.heal();
    passes(&rig).await;
}

#[tokio::test(start_paused = true)]
async fn answers_come_later_by_the_delay() {
    let rig = rig().await;
    let hour = Duration::from_secs(3600);
    rig.proxy.delay(hour);
    let mut client = rig.connect().await;
    let asked = tokio::time::Instant::now();
    say(&mut client, "later").await;
    assert_eq!(hear(&mut client, 5).await, "later");
    assert!(asked.elapsed() >= hour);
    rig.proxy.heal();
    let asked = tokio::time::Instant::now();
    passes(&rig).await;
    assert!(asked.elapsed() < hour);
}

#[tokio::test]
async fn new_connections_go_where_it_is_redirected() {
    let rig = rig().await;
    let mut old = rig.connect().await;
    say(&mut old, "one").await;
    assert_eq!(hear(&mut old, 3).await, "one");
    let other = Echo::start().await;
    rig.proxy.redirect(other.address);
    passes(&rig).await;
    assert_eq!(other.heard(13).await, "does it pass?");
    say(&mut old, "two").await;
    assert_eq!(rig.echo.heard(6).await, "onetwo");
}

#[tokio::test]
async fn without_a_server_a_connection_ends() {
    let nobody = TcpSocket::new_v4().expect("a socket");
    nobody.bind(([127, 0, 0, 1], 0).into()).expect("a port");
    let proxy = Proxy::start(nobody.local_addr().expect("it is bound"));
    let mut client = TcpStream::connect(proxy.address()).await.expect("accepted");
    assert_eq!(hear_out(&mut client).await, (String::new(), None));
    let seen = proxy.until(|seen| seen.connections == 0).await;
    assert_eq!(seen.cuts, 0, "it was the server that was missing");
}

#[tokio::test]
async fn dropped_it_leaves_nothing_open() {
    let rig = rig().await;
    let mut client = rig.connect().await;
    say(&mut client, "one").await;
    assert_eq!(hear(&mut client, 3).await, "one");
    let address = rig.proxy.address();
    drop(rig.proxy);
    assert_eq!(hear_out(&mut client).await.0, "");
    let refused = TcpStream::connect(address)
        .await
        .expect_err("nobody listens");
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
}

#[tokio::test]
async fn every_proxy_has_a_port_of_its_own() {
    let upstream = Echo::start().await.address;
    let proxies: Vec<_> = (0..50).map(|_| Proxy::start(upstream)).collect();
    proxies[0].refuse(true);
    let mut ports: Vec<_> = proxies.iter().map(|proxy| proxy.address().port()).collect();
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), proxies.len());
}

mod plan {
    use super::super::plan::{Fate, Piece, Plan, Side};

    fn piece(from: Side, length: u64) -> Piece {
        Piece {
            from,
            length,
            begins_answer: from == Side::Server,
        }
    }

    const fn closed(after: u64) -> Fate {
        Fate::Cut {
            after,
            reset: false,
        }
    }

    #[test]
    fn a_cut_falls_on_the_last_byte_of_a_piece_not_on_the_next_piece() {
        let mut plan = Plan::default();
        plan.client = Some(8);
        assert_eq!(plan.meet(piece(Side::Client, 5)), Fate::Passes);
        assert_eq!(plan.meet(piece(Side::Server, 100)), Fate::Passes);
        assert_eq!(plan.meet(piece(Side::Client, 3)), closed(3));
        assert_eq!(plan.meet(piece(Side::Client, 3)), Fate::Passes);
    }

    #[test]
    fn a_lost_answer_goes_before_a_cut_within_it() {
        let mut plan = Plan::default();
        plan.server = Some(10);
        plan.answers = Some(1);
        plan.reset = true;
        let lost = Fate::Cut {
            after: 0,
            reset: true,
        };
        assert_eq!(plan.meet(piece(Side::Server, 4)), lost);
        assert_eq!(plan.meet(piece(Side::Server, 6)), Fate::Passes);
    }

    #[test]
    fn the_same_seed_draws_the_same_storm_and_another_seed_another() {
        let storm = |seed| {
            let mut plan = Plan::default();
            plan.storm(seed, 100);
            let sides = [Side::Client, Side::Server].into_iter().cycle();
            let pieces = sides.map(|side| piece(side, 17)).take(400);
            pieces.map(|piece| plan.meet(piece)).collect::<Vec<_>>()
        };
        let cuts = storm(3);
        assert_eq!(cuts, storm(3));
        assert_ne!(cuts, storm(4));
        for side in 0..2 {
            let mut of_side = cuts.iter().skip(side).step_by(2);
            assert!(of_side.any(|fate| *fate != Fate::Passes), "side {side}");
        }
        for reset in [true, false] {
            let some = |fate: &Fate| matches!(fate, Fate::Cut { reset: r, .. } if *r == reset);
            assert!(cuts.iter().any(some), "some with reset: {reset}");
        }
        let within = |fate: &Fate| matches!(fate, Fate::Passes | Fate::Cut { after: 0..=17, .. });
        assert!(cuts.iter().all(within));
        let passed = cuts.iter().filter(|fate| **fate == Fate::Passes).count();
        assert!(passed > cuts.len() / 2, "cuts are up to 100 bytes apart");
    }
}
