use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use semel_core::decide::{Directed, Directive, Order, Refusal, Verdict};
use semel_core::port::store::ListQuery;
use semel_core::port::transfer::{AnyTransferStore, Item, TransferStore};
use semel_core::{
    Admission, AnyStore, Audited, Certainty, ClaimId, ClaimRequest, Code, Fingerprint, Key,
    Members, Note, Operation, Outcome, Parked, Recovery, Renewal, Renewed, Scope, Settled,
    Settlement, Start, StateKind, Step, Store, Timestamp, VersionGate, Window,
};
use semel_engine::system::SystemClock;
use semel_store_memory::MemoryStore;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use super::wire::{Answer, Greeting, Request};
use super::{ControlStore, SOCKET, connect, serve};

/// A folder with a store that is served there.
struct Site {
    folder: TempDir,
    store: Arc<MemoryStore>,
    served: JoinSet<()>,
}

impl Site {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
        let mut served = JoinSet::new();
        served.spawn(served_in(folder.path(), &store));
        Self {
            folder,
            store,
            served,
        }
    }

    async fn client(&self) -> ControlStore {
        let client = connect(self.folder.path(), "embedded").await;
        client.expect("a connection").expect("a worker")
    }

    /// A connection that has sent nothing yet.
    async fn stranger(&self) -> UnixStream {
        let stream = UnixStream::connect(self.folder.path().join(SOCKET)).await;
        stream.expect("a connection")
    }
}

fn served_in(folder: &Path, store: &Arc<MemoryStore>) -> impl Future<Output = ()> + Send + 'static {
    let (store, trail) = (
        AnyStore::new(Arc::clone(store)),
        AnyTransferStore::new(Arc::clone(store)),
    );
    serve(folder, store, trail).expect("a socket")
}

fn operation(key: &str) -> Operation {
    let scope = Scope::new("", "pay").expect("a scope");
    Operation::new(scope, Key::new(key).expect("a key"))
}

fn claim_request(key: &str, number: u128) -> ClaimRequest {
    let Operation { scope, key } = operation(key);
    ClaimRequest {
        fingerprint: Some(Fingerprint {
            scheme: 3,
            digest: [7; 16],
        }),
        members: Members::from_bytes(&[1, 0, 255, 7, 9]),
        transport: Some(Bytes::from_static(b"\xff\x00 id")),
        birth: Some(Timestamp::from_millis(5)),
        start: Start::Marked(Recovery::Park),
        ..ClaimRequest::new(scope, key, ClaimId::from_u128(number))
    }
}

fn message(key: &str) -> Parked {
    let Operation { scope, key } = operation(key);
    Parked {
        scope,
        key: Some(key),
        reason: "in-doubt".into(),
        detail: "two\nlines".into(),
        transport: None,
        coordinates: "in:3".into(),
        headers: vec![("trace".into(), Bytes::from_static(b"\x80"))],
        payload: Bytes::from_static(b"{\"id\":\n1}"),
        since: Timestamp::EPOCH,
    }
}

fn note() -> Note {
    Note {
        by: "ann".into(),
        reason: "seen".into(),
    }
}

#[tokio::test]
#[expect(
    clippy::too_many_lines,
    reason = "each call once, in the order of one life"
)]
async fn every_call_is_made_by_the_worker_and_answered_as_it_answered() {
    let site = Site::new();
    let client = site.client().await;
    assert_eq!(client.process(), std::process::id());
    let asked = ClaimRequest {
        birth: None,
        ..claim_request("a", 1)
    };
    let admissions = client
        .claim([asked.clone(), asked].into())
        .await
        .expect("claims");
    let [Admission::Granted(claim), Admission::Granted(again)] = &admissions[..] else {
        panic!("{admissions:?}");
    };
    assert!(!claim.resumed && again.resumed && claim.token == again.token);
    let other_request = ClaimRequest {
        birth: None,
        fingerprint: Some(Fingerprint {
            scheme: 3,
            digest: [8; 16],
        }),
        ..claim_request("a", 2)
    };
    let kept = other_request.members.clone();
    let conflict = client
        .claim([other_request].into())
        .await
        .expect("a conflict");
    assert!(
        matches!(&conflict[..], [Admission::Conflict { first, .. }] if *first == kept),
        "{conflict:?}"
    );
    let renewal = Renewal {
        operation: operation("a"),
        claim_id: claim.claim_id,
        lease: std::time::Duration::from_millis(1_500),
    };
    let other = Renewal {
        claim_id: ClaimId::from_u128(9),
        ..renewal.clone()
    };
    let renewed = client
        .renew([renewal, other].into())
        .await
        .expect("renewals");
    assert!(
        matches!(
            renewed[..],
            [
                Renewed::Until(_),
                Renewed::Lost {
                    found: Some(StateKind::Started)
                }
            ]
        ),
        "{renewed:?}"
    );
    let release = Settlement {
        operation: operation("a"),
        claim_id: claim.claim_id,
        step: Step::Release {
            error: "no answer".into(),
            certainty: Certainty::MaybeApplied,
            after: std::time::Duration::ZERO,
            counted: true,
            limits: semel_core::AttemptLimits::default(),
            window: Window::DEFAULT,
        },
    };
    let settled = client.settle([release].into()).await.expect("settlements");
    assert!(
        matches!(settled[..], [Settled::Now(StateKind::InDoubt)]),
        "{settled:?}"
    );
    let batch = [operation("a"), operation("b")];
    let direct = site.store.get(batch.clone().into()).await.expect("records");
    assert_eq!(
        client.get(batch.clone().into()).await.expect("records"),
        direct
    );
    assert!(direct[0].is_some() && direct[1].is_none());
    let query = ListQuery {
        state: Some(StateKind::InDoubt),
        limit: 10,
        ..ListQuery::in_scope(&batch[0].scope)
    };
    let direct = site.store.list(&query).await.expect("a page");
    assert_eq!(
        (
            direct.items.len(),
            client.list(&query).await.expect("a page")
        ),
        (1, direct)
    );
    assert_eq!(
        client.park([message("a")].into()).await.expect("parked"),
        [true]
    );
    let query = ListQuery {
        reasons: vec!["in-doubt".into()],
        limit: 10,
        ..ListQuery::default()
    };
    let direct = site.store.list_parked(&query).await.expect("a page");
    assert_eq!(client.list_parked(&query).await.expect("a page"), direct);
    let order = |key: &str, order| Directive {
        operation: operation(key),
        order,
        note: Some(note()),
    };
    let verdict = Verdict::Applied {
        outcome: Outcome::raw(Bytes::from_static(b"\xfe"), 10),
        window: Window::DEFAULT,
    };
    let orders = [
        order("a", Order::Resolve(verdict)),
        order("b", Order::Hold(true)),
        order("a", Order::Requeue),
    ];
    let directed = client.operate(orders.clone().into()).await.expect("orders");
    assert!(
        matches!(
            directed[..],
            [
                Directed::Now(Some(StateKind::Completed)),
                Directed::Refused(Refusal::Absent),
                Directed::Refused(Refusal::State(StateKind::Completed)),
            ]
        ),
        "{directed:?}"
    );
    let dropped = client
        .drop_parked([message("a").id()].into(), Some(&note()))
        .await;
    assert_eq!(dropped.expect("dropped"), [true]);
    let entry = Audited {
        at: Timestamp::from_millis(77),
        note: note(),
        action: "sweep".into(),
        scope: None,
        key: None,
        before: "".into(),
        after: "".into(),
    };
    let imported = client.import([Item::Audited(Box::new(entry))].into()).await;
    assert_eq!(imported.expect("an entry"), [true]);
    let all = ListQuery {
        limit: 10,
        ..ListQuery::default()
    };
    let direct = site.store.list_audit(&all).await.expect("a page");
    assert_eq!(direct.items.len(), 3);
    assert_eq!(client.list_audit(&all).await.expect("a page"), direct);
    let direct = site.store.stats().await.expect("stats");
    assert_eq!(client.stats().await.expect("stats"), direct);
    assert_eq!(client.sweep(10).await.expect("a sweep").removed, 0);
    let found = client.preflight().await.expect("capabilities");
    assert_eq!((found.kind, found.shared), ("embedded", false));
    let (direct, _) = exported(&site.store).await;
    let (items, pages) = exported(&client).await;
    assert!(pages > 2, "{pages}");
    assert_eq!(items, direct);
    // Nothing but entries of the audit trail goes in.
    let token = direct.into_iter().next().expect("the token");
    let refused = client.import([token].into()).await.expect_err("in use");
    assert_eq!(refused.code(), Code::StoreInUse);
}

/// Everything that a store hands over in pages of two items, and the number of pages.
async fn exported(store: &impl TransferStore) -> (Vec<Item>, usize) {
    let (mut items, mut after, mut pages) = (Vec::new(), None::<Bytes>, 0);
    loop {
        let page = store.export(after.as_deref(), 2).await.expect("a page");
        items.extend(page.items);
        pages += 1;
        after = page.next;
        if after.is_none() {
            return (items, pages);
        }
    }
}

#[test]
fn a_request_is_read_as_it_was_asked() {
    let gated = ClaimRequest {
        gate: Some(VersionGate {
            entity: Key::new("cart 1").expect("a key"),
            version: u64::MAX,
        }),
        start: Start::Marked(Recovery::RerunWithin(std::time::Duration::new(1, 1))),
        ..claim_request("json:7", 2)
    };
    let settle = |step| Settlement {
        operation: operation("a"),
        claim_id: ClaimId::from_u128(3),
        step,
    };
    let order = |order| Directive {
        operation: operation("a"),
        order,
        note: None,
    };
    for request in [
        Request::Claim([gated, claim_request("a", 1)].into()),
        Request::Settle(
            [
                settle(Step::Start {
                    recovery: Recovery::Rerun,
                    has_begun: true,
                }),
                settle(Step::Complete {
                    outcome: Outcome::TooLarge {
                        len_bytes: 9,
                        digest: [1; 32],
                    },
                    window: Window::DEFAULT.with_margin(std::time::Duration::from_millis(3)),
                }),
            ]
            .into(),
        ),
        Request::Park([message("a"), message("b")].into()),
        Request::DropParked([message("a").id()].into(), None),
        Request::Operate(
            [
                Order::Release,
                Order::Requeue,
                Order::Retry,
                Order::Hold(false),
                Order::Forget,
                Order::Extend(std::time::Duration::from_secs(7)),
                Order::Resolve(Verdict::Abandon {
                    window: Window::DEFAULT,
                }),
                Order::Resolve(Verdict::NotApplied {
                    quiet: std::time::Duration::from_secs(1),
                    asked: Some(Timestamp::from_millis(4)),
                }),
            ]
            .map(order)
            .into(),
        ),
        Request::List(ListQuery {
            tenant: Some("acme".into()),
            ..ListQuery::default()
        }),
        Request::ListAudit(ListQuery {
            operation: Some("payments".into()),
            ..ListQuery::default()
        }),
        Request::List(ListQuery {
            after: Some(Bytes::from_static(b"\x00\xff")),
            repeated: true,
            ..ListQuery::default()
        }),
        Request::Sweep(3),
        Request::Stats,
        Request::Preflight,
        Request::Export(None, 7),
        Request::Export(Some(Bytes::from_static(b"\x00\xff")), usize::MAX),
    ] {
        let bytes = request.to_bytes().expect("bytes");
        let read = Request::from_bytes(&bytes).expect("a request");
        assert_eq!(format!("{read:?}"), format!("{request:?}"));
        for end in 0..bytes.len().min(200) {
            // A message that is cut off is refused, or is one with fewer messages; it never panics.
            let _ = Request::from_bytes(&bytes[..end]);
        }
    }
}

#[test]
fn an_answer_to_another_question_is_refused() {
    let flags = Answer::Flags(vec![true]).to_bytes().expect("bytes");
    let read = || Answer::from_bytes(&flags).expect("an answer");
    assert!(read().flags(1).is_ok());
    assert!(read().flags(2).is_err(), "one too few");
    assert!(read().records(1).is_err() && read().listed().is_err() && read().swept().is_err());
    for garbage in [
        &b""[..],
        b"{}",
        b"null",
        b"\n\n\n",
        b"{\"flags\":[1]}",
        b"\xff\xff",
    ] {
        assert!(Answer::from_bytes(garbage).is_err());
        assert!(Request::from_bytes(garbage).is_err());
    }
}

#[tokio::test]
async fn whoever_sends_what_is_no_request_is_told_and_hurts_nobody() {
    let site = Site::new();
    let client = site.client().await;
    let greeting = Greeting::own().to_bytes();
    let framed = |message: &[u8]| {
        let len = u32::try_from(message.len()).expect("short");
        [&len.to_le_bytes(), message].concat()
    };
    let hello = framed(&greeting);
    for sent in [
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        framed(b"{}"),
        framed(b"\xff\xfe"),
        [&hello[..], &framed(b"nonsense")].concat(),
        [
            &hello[..],
            &framed(b"{\"get\":[{\"operation\":\"\",\"key\":\"\"}]}"),
        ]
        .concat(),
        [&hello[..], &framed(b"\"park\"\n{\"token\":1}")].concat(),
        [&hello[..], &u32::MAX.to_le_bytes()].concat(),
    ] {
        let mut stranger = site.stranger().await;
        stranger.write_all(&sent).await.expect("a write");
        let mut told = Vec::new();
        // The stranger gets the reason and is disconnected, whatever it does.
        let _ = stranger.read_to_end(&mut told).await;
        let told = String::from_utf8_lossy(&told).into_owned();
        assert!(told.contains("no message of semel"), "{told}");
    }
    // Sends half of a message, and disconnects.
    let mut stranger = site.stranger().await;
    stranger.write_all(&hello[..7]).await.expect("a write");
    drop(stranger);
    let mut stranger = site.stranger().await;
    stranger.write_all(&hello).await.expect("a write");
    stranger
        .write_all(&9_u32.to_le_bytes())
        .await
        .expect("a write");
    drop(stranger);
    assert!(client.stats().await.is_ok(), "others are served on");
    assert!(site.client().await.stats().await.is_ok());
}

#[tokio::test]
async fn another_version_is_told_which_is_which() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = tokio::net::UnixListener::bind(folder.path().join(SOCKET)).expect("a socket");
    let mut other = JoinSet::new();
    other.spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a verb");
        let greeting = Greeting {
            semel_control: super::VERSION + 1,
            semel: "9.9.9".to_owned(),
            ..Greeting::own()
        };
        super::frame::write(&mut stream, &greeting.to_bytes())
            .await
            .expect("a write");
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    });
    let error = connect(folder.path(), "embedded")
        .await
        .expect_err("another");
    let told = error.to_string();
    assert!(
        told.contains("is semel 9.9.9") && told.contains("use the same version"),
        "{told}"
    );
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::StoreInUse, Certainty::NotApplied)
    );
}

#[tokio::test]
async fn a_worker_that_ends_leaves_nobody_waiting() {
    let mut site = Site::new();
    let client = site.client().await;
    assert!(client.stats().await.is_ok());
    site.served.shutdown().await;
    let error = client.stats().await.expect_err("it is gone");
    assert!(
        error.to_string().contains("ended before it answered"),
        "{error}"
    );
    assert_eq!(error.certainty(), Certainty::MaybeApplied);
    let error = client.stats().await.expect_err("it was never asked");
    assert_eq!(error.certainty(), Certainty::NotApplied);
    assert!(
        !site.folder.path().join(SOCKET).exists(),
        "the socket is removed"
    );
    let nobody = connect(site.folder.path(), "embedded")
        .await
        .expect("no error");
    assert!(nobody.is_none());
}

#[tokio::test]
async fn there_are_no_more_connections_than_a_few() {
    let site = Site::new();
    let mut clients = Vec::new();
    for _ in 0..16 {
        clients.push(site.client().await);
    }
    let error = connect(site.folder.path(), "embedded")
        .await
        .expect_err("too many");
    assert!(error.to_string().contains("too many others"), "{error}");
    clients.clear();
    while connect(site.folder.path(), "embedded").await.is_err() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn the_socket_is_its_owners_and_replaces_one_that_was_left() {
    let site = Site::new();
    let path = site.folder.path().join(SOCKET);
    let found = std::fs::symlink_metadata(&path).expect("a socket");
    assert!(found.file_type().is_socket());
    assert_eq!(found.permissions().mode() & 0o777, 0o600);
    let others: Vec<_> = std::fs::read_dir(site.folder.path())
        .expect("a folder")
        .collect();
    assert_eq!(others.len(), 1, "{others:?}");
    // A worker that was killed removes nothing; the next one takes its place.
    let left = tempfile::tempdir().expect("a folder");
    drop(std::os::unix::net::UnixListener::bind(left.path().join(SOCKET)).expect("a socket"));
    assert!(
        connect(left.path(), "embedded")
            .await
            .expect("no error")
            .is_none()
    );
    let mut served = JoinSet::new();
    served.spawn(served_in(left.path(), &site.store));
    assert!(
        connect(left.path(), "embedded")
            .await
            .expect("no error")
            .is_some()
    );
    // A file that is no socket belongs to someone, and stays.
    let foreign = tempfile::tempdir().expect("a folder");
    std::fs::write(foreign.path().join(SOCKET), "mine").expect("a file");
    let store = AnyStore::new(Arc::clone(&site.store));
    let trail = AnyTransferStore::new(Arc::clone(&site.store));
    let error = serve(foreign.path(), store, trail).err().expect("refused");
    assert!(error.to_string().contains("is no socket"), "{error}");
    let text = std::fs::read_to_string(foreign.path().join(SOCKET));
    assert_eq!(text.expect("a file"), "mine");
}

#[tokio::test]
async fn a_folder_may_be_farther_away_than_a_socket_may() {
    let folder = tempfile::tempdir().expect("a folder");
    let deep = folder.path().join("d".repeat(100)).join("e".repeat(100));
    std::fs::create_dir_all(&deep).expect("folders");
    let store = Arc::new(MemoryStore::new(Arc::new(SystemClock::new())));
    let mut served = JoinSet::new();
    served.spawn(served_in(&deep, &store));
    let client = connect(&deep, "embedded").await.expect("a connection");
    assert!(client.expect("a worker").stats().await.is_ok());
    served.shutdown().await;
    assert!(!deep.join(SOCKET).exists());
}
