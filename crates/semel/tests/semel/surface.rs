//! The surface: what a handle is, what is refused, and with which words.

use std::sync::Arc;
use std::time::Duration;

use semel::embedded::EmbeddedStore;
use semel::{Code, Failure, Happened, OnceError, Pending, Receipt, Semel, SystemClock, Window};

fn is_shared<T: Clone + Send + Sync + 'static>(_: &T) {}
fn is_sent<T: Send + 'static>(_: &T) {}

#[tokio::test]
async fn a_handle_is_cheap_to_share_and_a_call_can_be_spawned() {
    let semel = Semel::open("memory:").await.expect("memory");
    let operation = semel.operation("charge");
    is_shared(&semel);
    is_shared(&operation);
    let key = String::from("a");
    // Nothing of the caller is borrowed.
    let call = semel.once("charge", &key, async |_| Ok(1_u64));
    drop(key);
    is_sent(&call);
    let call: Pending<Result<Receipt<u64>, OnceError>> = call;
    let spawned = tokio::spawn(call).await.expect("no panic");
    assert!(spawned.is_ok());
    is_sent(&operation.once_retrying("b", |_| async { Ok(()) }));
    is_sent(&operation.batch([("c", ())]).each(async |_, ()| Ok(())));
    // The same verb on both.
    let batches = [
        semel.once_batch("charge", [("d", 4)], async |_, item| Ok(item)),
        operation.once_batch([("d", 4)], async |_, _| Ok(0)),
    ];
    for batch in batches {
        let value = batch.await.remove(0).map(Receipt::into_value);
        assert_eq!(value.expect("a value"), 4);
    }
    let error = semel
        .once("", "a", async |_| Ok(()))
        .await
        .expect_err("no name");
    is_sent(&error);
    is_shared(&Arc::new(error));
}

#[tokio::test]
async fn a_call_that_is_not_awaited_does_nothing() {
    let semel = Semel::open("memory:").await.expect("memory");
    let effect = async |_| -> Result<(), Failure> { panic!("this effect must not run") };
    drop(semel.once("charge", "a", effect));
    let record = semel.operation("charge").record("a").await;
    assert!(record.expect("the store answers").is_none());
}

#[tokio::test]
async fn urls_are_refused_with_what_would_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "not a store").expect("a file");
    for (url, code, words) in [
        ("", Code::InvalidConfig, "a url is `embedded:DIR`"),
        ("semel-data", Code::InvalidConfig, "a url is `embedded:DIR`"),
        (
            "dynamodb://user:secret@host/db",
            Code::InvalidConfig,
            "`dynamodb` is no store",
        ),
        (
            "postgres://user:secret@host/db?wrong=secret",
            Code::InvalidConfig,
            "a parameter `wrong`",
        ),
        (
            "embedded:",
            Code::InvalidConfig,
            "needs a path, as in `embedded:./data`",
        ),
        ("memory:x", Code::InvalidConfig, "has no path"),
        (
            &format!("embedded:{}", file.display()),
            Code::StoreForeign,
            "not a folder",
        ),
        (
            &format!("sqlite:{}", file.display()),
            Code::StoreForeign,
            "",
        ),
    ] {
        let error = Semel::open(url).await.expect_err(url);
        assert_eq!(error.code(), code, "{url}");
        let message = error.to_string();
        assert!(message.contains(words), "{url}: {message}");
        assert!(!message.contains("secret"), "{message}");
    }
}

#[tokio::test]
async fn a_store_in_use_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("embedded:{}", folder.path().join("data").display());
    let first = Semel::open(&url).await.expect("it opens");
    let second = Semel::open(&url).await.expect_err("one process at a time");
    assert_eq!(second.code(), Code::StoreInUse);
    first.close().await;
    assert!(Semel::open(&url).await.is_ok());
}

#[tokio::test]
async fn settings_that_cannot_hold_are_refused_at_once() {
    let builder = Semel::builder().settings(|settings| settings.concurrency = 0);
    let error = builder.open("memory:").await.expect_err("no concurrency");
    assert_eq!(error.code(), Code::InvalidInput);
}

#[tokio::test]
async fn a_route_begins_with_the_settings_of_the_handle() {
    let hour = Duration::from_secs(3_600);
    let semel = Semel::builder()
        .settings(|settings| settings.window = Window::new(hour))
        .open("memory:")
        .await
        .expect("memory");
    let mut begun = None;
    let changed = semel.http(|route| {
        begun = Some(route.window);
        route.window = hour * 2;
    });
    assert_eq!(begun, Some(hour));
    let changed = format!("{:?}", changed.expect("settings that hold"));
    assert!(changed.contains("window: 7200s"), "{changed}");
}

#[tokio::test]
async fn an_error_reads_as_one_line_and_its_cause_is_the_source() {
    let semel = Semel::open("memory:").await.expect("memory");
    let secret = "payment-4711";
    let refused = async |_| -> Result<(), _> { Err(Failure::dead("card declined")) };
    let error = semel
        .once("charge", secret, refused)
        .await
        .expect_err("dead");
    let line = error.to_string();
    assert_eq!(
        line,
        "the operation is dead: it did not happen and never will"
    );
    assert!(!format!("{error:?}").contains(secret), "no key in a log");
    let source = std::error::Error::source(&error).expect("a cause");
    assert_eq!(source.to_string(), "card declined");
    assert_eq!((error.code(), error.happened()), ("dead", Happened::No));
}

/// A store may keep less than the caller allows: the effect happened, and the record says so.
#[tokio::test]
async fn an_outcome_that_the_store_refuses_is_recorded_without_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut options = semel::embedded::Options::default();
    options.max_outcome_bytes = 100;
    let clock = Arc::new(SystemClock::new());
    let store = EmbeddedStore::open(folder.path(), clock, options).expect("it opens");
    let semel = Semel::with_store(store);
    let items = [("short", 1), ("long", 1_000), ("other", 2)];
    let results = semel
        .once_batch("render", items, async |_, len| Ok("x".repeat(len)))
        .await;
    let kept: Vec<_> = results
        .iter()
        .map(|result| result.as_ref().map(Receipt::is_kept).ok())
        .collect();
    assert_eq!(kept, [Some(true), Some(false), Some(true)]);
    let replay = semel
        .once("render", "long", async |_| Ok(String::new()))
        .await;
    let replay = replay.expect_err("it was not kept");
    assert!(
        matches!(&replay, OnceError::Unreadable { .. }),
        "{replay:?}"
    );
    assert_eq!(replay.happened(), Happened::Yes);
}

/// A thread cannot be taken back, but no caller has to wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn an_effect_that_blocks_its_thread_is_given_up_in_time() {
    let semel = Semel::open("memory:").await.expect("memory");
    let limit = Duration::from_millis(50);
    let charge = semel.operation("charge").timeout(limit);
    let (release, blocked) = std::sync::mpsc::sync_channel::<()>(0);
    let call = charge.once("a", async move |op| {
        // Until the test lets go.
        let _ = blocked.recv();
        Ok(op.is_cancelled())
    });
    let error = call.await.expect_err("it is given up");
    assert!(error.is_timeout());
    assert!(matches!(error, OnceError::InDoubt { .. }));
    release
        .send(())
        .expect("the effect still blocks its thread");
    semel.close().await;
}

/// Another version of a driver than an inbox takes does not even build, so the page has to be right.
#[test]
fn the_versions_of_the_drivers_are_named() {
    let manifest = include_str!("../../../../Cargo.toml");
    let page = include_str!("../../README.md");
    for driver in ["rusqlite", "tokio-postgres", "mysql_async"] {
        let line = manifest
            .lines()
            .find(|line| line.starts_with(&format!("{driver} = ")));
        let version = line.and_then(|line| line.split('"').nth(1));
        let version: Vec<_> = version.expect("a version").split('.').take(2).collect();
        let named = format!("`{driver}` {}", version.join("."));
        assert!(page.contains(&named), "{named}");
    }
}
