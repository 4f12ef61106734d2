use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use semel_core::port::store::{Listed, Page};
use semel_core::{
    AttemptEnd, Audited, ClaimId, Code, EntityRecord, FencingToken, Fingerprint, Key, Mark,
    Members, Note, Operation, Outcome, Parked, PastAttempt, Record, Recovery, Scope, State,
    StateKind, VersionGate, Window,
};

use super::*;

#[test]
fn every_kind_of_item_comes_back_as_it_was() {
    let items = everything();
    let text = written(&items);
    let (head, back) = read(&text).expect("an export");
    assert_eq!(
        (&*head.created, &*head.store),
        ("1970-01-01T00:00:01.000Z", "memory")
    );
    for (at, (back, item)) in back.iter().zip(&items).enumerate() {
        assert_eq!(back, item, "item {at}");
    }
    assert_eq!(back.len(), items.len());
    assert!(std::str::from_utf8(&text).is_ok_and(|text| text.lines().count() == items.len() + 2));
    assert_eq!(written(&back), text);
}

#[test]
fn an_export_that_was_cut_off_is_refused() {
    let text = written(&one_of_each());
    for end in 0..text.len() {
        let error = read(&text[..end]).expect_err("a part of an export");
        assert_eq!(error.code(), Code::ExportDamaged, "cut at {end}: {error}");
    }
}

#[test]
fn a_changed_byte_is_refused_with_its_line() {
    let text = written(&one_of_each());
    let mut line = 1;
    for at in 0..text.len() {
        let mut changed = text.clone();
        changed[at] ^= 1;
        let error = read(&changed).expect_err("a changed export");
        let is_named = error.to_string().contains(&format!("line {line}: "))
            || (text[at] == b'\n' && error.to_string().contains("was cut off"))
            || error.code() == Code::StoreNewer;
        assert!(is_named, "byte {at} of line {line}: {error}");
        line += u64::from(text[at] == b'\n');
    }
}

#[test]
fn lines_that_are_missing_doubled_or_moved_are_refused() {
    let text = written(&one_of_each());
    let lines: Vec<_> = text.split_inclusive(|&byte| byte == b'\n').collect();
    let refused = |lines: Vec<&[u8]>, named: usize| {
        let error = read(&lines.concat()).expect_err("another export");
        let named = format!("line {named}: ");
        assert!(error.to_string().contains(&named), "{named}{error}");
    };
    for at in 1..lines.len() {
        let mut missing = lines.clone();
        missing.remove(at);
        if at + 1 < lines.len() {
            refused(missing, at + 1);
        }
        let mut doubled = lines.clone();
        doubled.insert(at, lines[at]);
        refused(doubled, at + 2);
        if at + 1 < lines.len() {
            let mut moved = lines.clone();
            moved.swap(at, at + 1);
            refused(moved, at + 1);
        }
    }
    refused([lines.clone(), lines.clone()].concat(), lines.len() + 1);
}

#[test]
fn what_is_no_export_says_so() {
    for text in [
        "",
        "\n",
        "pay-1\n",
        "{\"id\":1}\n",
        "\u{1f}\u{8b}\u{8}",
        "[1]\n",
    ] {
        let error = read(text.as_bytes()).expect_err("no export");
        assert_eq!(error.code(), Code::ExportDamaged, "{text:?}");
        assert!(
            error.to_string().starts_with("the export is refused: "),
            "{error}"
        );
    }
}

#[test]
fn a_later_version_is_refused_by_its_number() {
    let text = "{\"semel_export\":3,\"created\":\"x\",\"shape\":[],\"crc32c\":\"0\"}\n";
    let error = read(text.as_bytes()).expect_err("a later version");
    assert_eq!(error.code(), Code::StoreNewer);
    assert!(error.to_string().contains("format 3"), "{error}");
}

#[test]
fn an_item_that_does_not_make_sense_is_refused_without_its_contents() {
    for (body, line) in [
        (r#"{"token":"secret""#, 2),
        (r#"{"secret":1"#, 2),
        (r#"{"mark":{"name":"secret"}"#, 2),
        (r#"{"mark":{"name":"secret","value":1,"secret":2}"#, 2),
        (
            r#"{"audited":{"at":1,"by":"secret","reason":"","action":"","tenant":"secret","before":"","after":""}"#,
            2,
        ),
        (
            r#"{"entity":{"operation":"secret","entity":"secret","holder":"00000000000000000000000000000001"}"#,
            2,
        ),
        (r#"{"entity":{"operation":"","entity":"secret"}"#, 2),
        (
            r#"{"parked":{"operation":"p","reason":"secret","detail":"","coordinates":"","since":1}"#,
            2,
        ),
        (
            r#"{"parked":{"operation":"p","reason":"secret","detail":"","coordinates":"","since":1,"payload":"","payload_base64":""}"#,
            2,
        ),
        (
            r#"{"parked":{"operation":"p","reason":"secret","detail":"","coordinates":"","since":1,"payload_base64":"secret"}"#,
            2,
        ),
        (
            r#"{"record":{"operation":"p","key":"secret","state":"secret","claim":"00000000000000000000000000000001","token":1,"claimed_at":1,"created_at":1,"attempts":1}"#,
            2,
        ),
        (
            r#"{"record":{"operation":"p","key":"secret","state":"completed","claim":"00000000000000000000000000000001","token":1,"claimed_at":1,"created_at":1,"attempts":1}"#,
            2,
        ),
        (
            r#"{"record":{"operation":"p","key":"secret","state":"claimed","claim":"secret","lease_until":1,"token":1,"claimed_at":1,"created_at":1,"attempts":1}"#,
            2,
        ),
        (
            r#"{"end":{"tokens":0,"records":1,"entities":0,"marks":0,"parked":0,"audited":0}"#,
            2,
        ),
        (r#"{"end":{"secret":0}"#, 2),
    ] {
        let error = read(&summed(&[HEAD, body])).expect_err(body);
        let text = error.to_string();
        assert!(text.contains(&format!("line {line}: ")), "{body}: {text}");
        assert!(!text.contains("secret"), "{text}");
        assert!(std::error::Error::source(&error).is_none(), "{error:?}");
    }
    let end = r#"{"end":{"tokens":0,"records":0,"entities":0,"marks":0,"parked":0,"audited":0}"#;
    assert!(
        read(&summed(&[HEAD, end])).is_ok(),
        "the head and the checksums are good"
    );
}

#[test]
fn a_batch_ends_at_its_limits() {
    let marks: Vec<_> = (0..100).map(mark).collect();
    let text = written(&marks);
    let mut reader = Reader::open(&text[..]).expect("an export");
    assert_eq!(reader.next_batch(7, u64::MAX).expect("a batch").len(), 7);
    assert_eq!(reader.next_batch(usize::MAX, 1).expect("a batch").len(), 1);
    assert_eq!(
        reader
            .next_batch(usize::MAX, u64::MAX)
            .expect("a batch")
            .len(),
        92
    );
    assert_eq!(reader.next_batch(1, 1).expect("the end").len(), 0);
    assert_eq!(reader.len_bytes(), text.len() as u64);
}

#[test]
fn a_line_may_be_longer_than_a_block() {
    let payload = Bytes::from(vec![b'x'; 3 << 20]);
    let binary = Bytes::from(vec![0xFF; 3 << 20]);
    let items: Vec<_> = [payload, binary, Bytes::new()].map(message).into();
    let (_, back) = read(&written(&items)).expect("an export");
    assert!(back == items, "the payloads come back whole");
}

#[test]
fn the_example_of_the_specification_is_an_export() {
    let page = include_str!("../../../../docs/spec/export.md");
    let example = page
        .split("```jsonl\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next());
    let example = example.expect("an example");
    let (_, items) = read(example.as_bytes()).expect("an export");
    let mut writer = Writer::begin(
        Vec::new(),
        "embedded",
        Timestamp::from_millis(1_795_257_180_000),
    )
    .expect("a vector");
    for item in &items {
        writer.item(item).expect("a vector");
    }
    let (text, counts) = writer.end().expect("a vector");
    assert_eq!(String::from_utf8_lossy(&text), example);
    for (kind, count) in [
        ("tokens", counts.tokens),
        ("records", counts.records),
        ("entities", counts.entities),
        ("marks", counts.marks),
        ("parked", counts.parked),
        ("audited", counts.audited),
    ] {
        assert!(count > 0, "no {kind}");
    }
}

#[test]
fn what_version_1_wrote_is_read_without_members() {
    let text = include_str!("../../../../proof/corpus/export/example");
    assert!(text.starts_with("{\"semel_export\":1,"), "{text}");
    let (_, items) = read(text.as_bytes()).expect("an export");
    let records = items.iter().filter_map(|item| match item {
        Item::Record(listed) => Some(&listed.record),
        _ => None,
    });
    let members: Vec<_> = records.map(|record| record.members.clone()).collect();
    assert_eq!(members, [None, None]);
}

fn written(items: &[Item]) -> Vec<u8> {
    let created = Timestamp::from_millis(1_000);
    let mut writer = Writer::begin(Vec::new(), "memory", created).expect("a vector");
    for item in items {
        writer.item(item).expect("a vector");
    }
    writer.end().expect("a vector").0
}

fn read(text: &[u8]) -> Result<(Head, Vec<Item>)> {
    let mut reader = Reader::open(text)?;
    let mut items = Vec::new();
    loop {
        let batch = reader.next_batch(3, u64::MAX)?;
        if batch.is_empty() {
            return Ok((reader.head().clone(), items));
        }
        items.extend(batch);
    }
}

/// The lines of these bodies, with their ends and checksums.
fn summed(bodies: &[&str]) -> Vec<u8> {
    let mut text = Vec::new();
    for body in bodies {
        text.extend_from_slice(body.as_bytes());
        let sum = crc32fast::hash(&text);
        text.extend_from_slice(format!(",\"crc\":\"{sum:08x}\"}}\n").as_bytes());
    }
    text
}

const HEAD: &str = r#"{"semel_export":1,"created":"1970-01-01T00:00:01.000Z","store":"memory""#;

fn one_of_each() -> Vec<Item> {
    vec![
        Item::Token(FencingToken::new(1)),
        full(1, state(StateKind::Started, Recovery::Park), Recovery::Park),
        bare(2, state(StateKind::Completed, Recovery::Park)),
        mark(1),
        message(Bytes::from_static(b"\x80")),
        audited(None, None),
    ]
}

fn everything() -> Vec<Item> {
    let mut items = vec![Item::Token(FencingToken::new(u64::MAX))];
    for (at, kind) in StateKind::ALL.into_iter().enumerate() {
        for recovery in [
            Recovery::Rerun,
            Recovery::Park,
            Recovery::RerunWithin(Duration::from_millis(9)),
            Recovery::RerunWithin(Duration::new(9, 1)),
        ] {
            items.push(full(at as u64, state(kind, recovery), recovery));
        }
        items.push(bare(at as u64, state(kind, Recovery::Park)));
    }
    for window in [
        Window::new(Duration::MAX),
        Window::new(Duration::from_micros(1)),
        Window::new(Duration::from_secs(9)).with_margin(Duration::ZERO),
        Window::new(Duration::from_secs(9)).with_margin(Duration::from_nanos(3)),
    ] {
        let at = Timestamp::from_millis(u64::MAX);
        items.push(bare(99, State::Dead { at, window }));
    }
    for outcome in [
        Outcome::empty(),
        Outcome::Kept {
            codec: u16::MAX,
            bytes: Bytes::from_static(b"\xff\x00\n"),
        },
        Outcome::TooLarge {
            len_bytes: u64::MAX,
            digest: [0xAB; 32],
        },
    ] {
        let Item::Record(mut listed) = bare(7, state(StateKind::Completed, Recovery::Park)) else {
            unreachable!("a record");
        };
        listed.record.outcome = Some(outcome);
        items.push(Item::Record(listed));
    }
    let entity = |record| Item::Entity(scope("t", "p"), key("e\u{0}\n\"\\é支"), record);
    items.push(entity(EntityRecord::default()));
    items.push(entity(EntityRecord {
        applied: Some(u64::MAX),
        holder: Some((ClaimId::from_u128(u128::MAX), Timestamp::from_millis(5))),
    }));
    items.extend([mark(0), mark(u64::MAX)]);
    items.push(message(Bytes::from_static(b"{\"id\":\"pay-1\"}")));
    items.push(message(Bytes::from_static(b"\x80")));
    items.push(audited(Some(scope("", "p")), Some(key("json:1"))));
    items.push(audited(None, None));
    items
}

fn full(number: u64, state: State, recovery: Recovery) -> Item {
    let Item::Record(mut listed) = bare(number, state) else {
        unreachable!("a record");
    };
    listed.operation.scope = scope("tenant \"é\"", &format!("operation {number}"));
    let past = |end, error: Option<&str>| PastAttempt {
        attempt: 3,
        claim_id: ClaimId::from_u128(1 << 80),
        token: FencingToken::new(3),
        claimed_at: Timestamp::from_millis(4),
        ended_at: Timestamp::from_millis(5),
        end,
        error: error.map(Into::into),
    };
    listed.record = Record {
        fingerprint: Some(Fingerprint {
            scheme: 0x0123_4567,
            digest: *b"0123456789abcdef",
        }),
        members: Members::from_bytes(&[1, 0, 255]),
        transport: Some(Bytes::from_static(match number % 2 {
            0 => b"evt_1",
            _ => b"\xfe\xff",
        })),
        vanished: 2,
        possible_repeats: 3,
        doubt: Some(recovery),
        past: AttemptEnd::ALL
            .map(|end| past(end, Some("no\nluck")))
            .into_iter()
            .chain([past(AttemptEnd::Failed, None)])
            .collect(),
        first_started_at: Some(Timestamp::from_millis(7)),
        last_error: Some("card declined".into()),
        gate: Some(VersionGate {
            entity: key("acct-1"),
            version: 17,
        }),
        held: true,
        outcome: Some(Outcome::Kept {
            codec: 0,
            bytes: Bytes::from_static(b"{\"ok\":true}"),
        }),
        ..listed.record
    };
    Item::Record(listed)
}

fn bare(number: u64, state: State) -> Item {
    Item::Record(Box::new(Listed {
        operation: Operation::new(scope("", "payments"), key(&format!("pay-{number}"))),
        record: Record {
            state,
            fingerprint: None,
            members: None,
            transport: None,
            claim_id: ClaimId::from_u128(u128::from(number)),
            token: FencingToken::new(number),
            claimed_at: Timestamp::from_millis(number),
            attempts: 1,
            vanished: 0,
            possible_repeats: 0,
            doubt: None,
            past: Vec::new(),
            created_at: Timestamp::EPOCH,
            first_started_at: None,
            last_error: None,
            gate: None,
            held: false,
            outcome: None,
        },
    }))
}

fn state(kind: StateKind, recovery: Recovery) -> State {
    let (at, window) = (Timestamp::from_millis(1_795_257_180_123), Window::DEFAULT);
    match kind {
        StateKind::Claimed => State::Claimed { lease_until: at },
        StateKind::Started => State::Started {
            lease_until: at,
            recovery,
        },
        StateKind::Released => State::Released { not_before: at },
        StateKind::Completed => State::Completed { at, window },
        StateKind::Dead => State::Dead { at, window },
        StateKind::InDoubt => State::InDoubt { since: at },
    }
}

fn mark(value: u64) -> Item {
    let name = format!("output:/tmp/out {value}").into();
    Item::Mark(Mark { name, value })
}

fn message(payload: Bytes) -> Item {
    let is_bare = payload.is_empty();
    Item::Parked(Box::new(Parked {
        scope: scope("", "p"),
        key: (!is_bare).then(|| key("pay-1")),
        reason: "dead".into(),
        detail: "exit code 1".into(),
        transport: (!is_bare).then(|| payload.slice(..1)),
        coordinates: "in:1".into(),
        headers: if is_bare {
            Vec::new()
        } else {
            vec![
                ("event-id".into(), Bytes::from_static(b"evt_1")),
                ("event-id".into(), Bytes::from_static(b"\xff")),
                ("".into(), Bytes::new()),
            ]
        },
        payload,
        since: Timestamp::from_millis(1_795_257_180_123),
    }))
}

fn audited(scope: Option<Scope>, key: Option<Key>) -> Item {
    Item::Audited(Box::new(Audited {
        at: Timestamp::from_millis(9),
        note: Note {
            by: "ann@host".into(),
            reason: "refunded \"by hand\"".into(),
        },
        action: "forget".into(),
        scope,
        key,
        before: "completed".into(),
        after: "absent".into(),
    }))
}

fn scope(tenant: &str, operation: &str) -> Scope {
    Scope::new(tenant, operation).expect("a scope")
}

fn key(text: &str) -> Key {
    Key::from_canonical(Bytes::copy_from_slice(text.as_bytes())).expect("a key")
}

#[tokio::test]
async fn a_store_goes_through_a_file_into_another() {
    let from = memory();
    let _ = from.import(everything().into()).await.expect("an import");
    let (text, counts) = exported(&from).await.expect("an export");
    let (_, items) = read(&text).expect("an export");
    assert_eq!(counts.items(), items.len() as u64);
    let checked = check(&text[..], &unwatched()).expect("an export");
    assert_eq!((checked.1, &*checked.0.store), (counts, "memory"));
    let to = memory();
    let imported = imported(&to, &text).await;
    imported.result.expect("an import");
    assert_eq!((imported.read, imported.new), (counts, counts));
    let again = self::imported(&to, &text).await;
    again.result.expect("an import");
    assert_eq!((again.read, again.new), (counts, Counts::default()));
    assert_eq!(exported(&to).await.expect("an export").0, text);
}

#[tokio::test]
async fn an_export_that_the_store_broke_off_does_not_look_whole() {
    let store = AnyTransferStore::new(Broken);
    let written = Shared::default();
    let error = export(
        &store,
        ("broken", Use::Work),
        Timestamp::EPOCH,
        written.clone(),
        unwatched(),
    )
    .await;
    let error = error.expect_err("a broken store");
    assert_eq!(error.to_string(), "the disk is gone");
    let text = written.0.lock().expect("a lock").clone();
    assert!(read(&text).is_err(), "{}", String::from_utf8_lossy(&text));
}

#[tokio::test]
async fn an_import_grants_no_token_that_an_export_beside_claims_has() {
    for in_use in [Use::Work, Use::Rest] {
        let store = AnyTransferStore::new(Granting::default());
        let (text, counts) = exported_in(in_use, &store).await.expect("an export");
        assert_eq!((counts.tokens, counts.records), (2, 3));
        let to = memory();
        imported(&to, &text).await.result.expect("an import");
        let first = to.export(None, 1).await.expect("a page").items;
        // The last record has this one, which was granted behind the first page.
        let highest = Granting::FIRST + 2;
        assert!(
            matches!(first[..], [Item::Token(token)] if token.get() >= highest),
            "{first:?}"
        );
    }
}

#[tokio::test]
async fn an_export_that_nobody_takes_says_so() {
    let error = export(
        &memory(),
        ("memory", Use::Rest),
        Timestamp::EPOCH,
        Full,
        unwatched(),
    )
    .await;
    let error = error.map(|(_, counts)| counts).expect_err("a full disk");
    assert_eq!(error.code(), Code::TargetUnavailable);
}

#[tokio::test]
async fn an_import_that_fails_says_how_far_it_came() {
    let mut items = vec![Item::Token(FencingToken::new(1))];
    items.extend((0..BATCH as u64 * 2).map(mark));
    let mut text = written(&items);
    let cut = text.len() - 10;
    text.truncate(cut);
    let store = memory();
    let imported = imported(&store, &text).await;
    let error = imported.result.expect_err("a part of an export");
    assert_eq!(error.code(), Code::ExportDamaged);
    let (_, there) = exported_in(Use::Rest, &store).await.expect("an export");
    assert_eq!(imported.new.items(), there.items());
    assert!(
        imported.new.items() >= BATCH as u64,
        "what precedes the damage is there"
    );
    let broken = AnyTransferStore::new(Broken);
    let imported = self::imported(&broken, &written(&items)).await;
    let error = imported.result.expect_err("a broken store");
    assert_eq!(error.to_string(), "the disk is gone");
    assert_eq!(imported.read, Counts::default());
}

fn memory() -> AnyTransferStore {
    let clock = Arc::new(semel_engine::system::SystemClock::new());
    AnyTransferStore::new(semel_store_memory::MemoryStore::new(clock))
}

fn unwatched() -> OnTransfer {
    Arc::new(|_, _| {})
}

async fn exported(store: &AnyTransferStore) -> Result<(Vec<u8>, Counts)> {
    exported_in(Use::Work, store).await
}

async fn exported_in(in_use: Use, store: &AnyTransferStore) -> Result<(Vec<u8>, Counts)> {
    export(
        store,
        ("memory", in_use),
        Timestamp::EPOCH,
        Vec::new(),
        unwatched(),
    )
    .await
}

async fn imported(store: &AnyTransferStore, text: &[u8]) -> Imported {
    let reader = Reader::open(std::io::Cursor::new(text.to_vec())).expect("an export");
    import(store, reader, unwatched()).await
}

/// A store that hands over one page and then fails.
struct Broken;

impl TransferStore for Broken {
    async fn export(&self, after: Option<&[u8]>, _: usize) -> Result<Page<Item>> {
        match after {
            None => Ok(Page {
                items: vec![mark(1)],
                next: Some(Bytes::from_static(b"1")),
            }),
            Some(_) => Err(gone()),
        }
    }

    async fn import(&self, _: Arc<[Item]>) -> Result<Vec<bool>> {
        Err(gone())
    }
}

/// A store that grants a claim with each page of three, which has its record.
#[derive(Default)]
struct Granting(AtomicU64);

impl Granting {
    const FIRST: u64 = 100;
}

impl TransferStore for Granting {
    async fn export(&self, after: Option<&[u8]>, limit: usize) -> Result<Page<Item>> {
        let token = |number| Item::Token(FencingToken::new(Self::FIRST + number));
        let granted = self.0.load(Ordering::Relaxed);
        if limit == 1 {
            let items = vec![token(granted.saturating_sub(1))];
            return Ok(Page { items, next: None });
        }
        let lease_until = Timestamp::from_millis(1);
        let record = bare(Self::FIRST + granted, State::Claimed { lease_until });
        let first = after.is_none().then(|| token(0));
        self.0.store(granted + 1, Ordering::Relaxed);
        Ok(Page {
            items: first.into_iter().chain([record]).collect(),
            next: (granted < 2).then(|| Bytes::from_static(b"on")),
        })
    }

    async fn import(&self, _: Arc<[Item]>) -> Result<Vec<bool>> {
        Err(gone())
    }
}

fn gone() -> Error {
    Error::new(ErrorKind::Unavailable, "the disk is gone")
}

/// The written bytes, also after the writer is gone.
#[derive(Clone, Debug, Default)]
struct Shared(Arc<std::sync::Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("a lock").write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Accepts no bytes.
#[derive(Debug)]
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
        Err(std::io::ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
