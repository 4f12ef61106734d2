//! Preflight's report on a server's settings, and a disk that is full.

use std::process::Command;

use semel_core::port::store::Durability;
use semel_core::{
    Admission, Advice, Certainty, Code, Error, ErrorKind, Outcome, StateKind, Step, Store, Window,
};
use semel_store_postgres::{Options, inspect};

use crate::lab::{connect, report, request, settle, state, take};
use crate::server::{Server, folder, give};

#[tokio::test]
async fn preflight_says_what_the_servers_settings_are_worth() {
    let server = Server::start(&[]);
    let store = connect(&server.url(), Options::default()).await;
    for (name, value, durability, words) in [
        ("fsync", "on", Durability::PowerCut, ""),
        ("fsync", "off", Durability::Kill, "fsync is off"),
        (
            "full_page_writes",
            "off",
            Durability::Kill,
            "full_page_writes is off",
        ),
        // Every connection of a store asks for more than this.
        ("synchronous_commit", "off", Durability::PowerCut, ""),
        ("synchronous_commit", "local", Durability::PowerCut, ""),
    ] {
        server.set(name, value).await;
        let store = connect(&server.url(), Options::default()).await;
        let found = store.preflight().await.expect("an answer");
        assert_eq!(found.durability, durability, "{name} {value}: {found:?}");
        assert!(found.shared);
        match words {
            "" => assert!(found.warnings.is_empty(), "{name} {value}: {found:?}"),
            words => assert!(found.warnings[0].contains(words), "{found:?}"),
        }
        let inspection = inspect(&server.url(), Options::default(), &[]).await;
        assert_eq!(inspection.expect("an inspection").capabilities, found);
        let reset = format!("ALTER SYSTEM RESET {name}");
        let user = server.client().await;
        user.batch_execute(&reset).await.expect("a setting");
        server.reload().await;
    }
    let user = server.client().await;
    user.batch_execute("ALTER TABLE semel.records SET UNLOGGED")
        .await
        .expect("a table that a crash empties");
    let found = store.preflight().await.expect("an answer");
    assert_eq!(found.durability, Durability::Process);
    assert!(found.warnings[0].contains("unlogged"), "{found:?}");
    user.batch_execute("ALTER TABLE semel.records SET LOGGED")
        .await
        .expect("a table");

    // With a standby that is waited for, and one that is not.
    server.set("synchronous_standby_names", "other").await;
    for (value, durability, warnings) in [
        ("on", Durability::NodeLoss, 0),
        ("remote_apply", Durability::NodeLoss, 0),
        ("local", Durability::PowerCut, 1),
    ] {
        server.set("synchronous_commit", value).await;
        let inspection = inspect(&server.url(), Options::default(), &[]).await;
        let found = inspection.expect("an inspection").capabilities;
        assert_eq!(
            (found.durability, found.warnings.len()),
            (durability, warnings),
            "{value}: {found:?}"
        );
    }
}

#[tokio::test]
async fn a_full_disk_is_told_and_nothing_is_half_written() {
    let small = Small::mount(48 << 20);
    let server = Server::start(&[]);
    let user = server.client().await;
    for order in [
        format!(
            "CREATE TABLESPACE small LOCATION '{}'",
            small.path().display()
        ),
        "CREATE DATABASE shop TABLESPACE small".to_owned(),
    ] {
        user.batch_execute(&order).await.expect("a place");
    }
    let url = server.url_of("semel", "shop");
    let store = connect(&url, Options::default()).await;
    take(&store, &request("before", 1)).await;
    std::fs::write(
        small.path().join("filler"),
        vec![7; small.free() - (1 << 20)],
    )
    .expect("room for it");

    // Outcomes of a megabyte that cannot be compressed, until there is no room.
    let full: Error = 'full: {
        for n in 0..10 {
            let key = format!("key-{n}");
            let answers = match store.claim([request(&key, 1)].into()).await {
                Ok(answers) => answers,
                Err(error) => break 'full error,
            };
            assert!(matches!(answers[..], [Admission::Granted(_)]));
            if let Err(error) = store.settle([large(&key, n)].into()).await {
                assert_eq!(state(&store, &key).await, Some(StateKind::Claimed));
                break 'full error;
            }
        }
        panic!("the disk is never full");
    };
    assert_eq!(
        (full.kind(), full.code(), full.certainty()),
        (
            ErrorKind::Unavailable,
            Code::StoreFull,
            Certainty::NotApplied
        ),
        "{full:?}"
    );
    assert!(matches!(full.advice(), Advice::Retry { .. }), "{full:?}");
    assert!(full.to_string().contains("full"), "{full}");

    // There is room again, and it goes on.
    std::fs::remove_file(small.path().join("filler")).expect("the filler");
    take(&store, &request("after", 1)).await;
    settle(&store, &large("after", 99)).await;
    assert_eq!(state(&store, "after").await, Some(StateKind::Completed));
    drop(store);
    drop(server);
}

fn large(key: &str, seed: u32) -> semel_core::Settlement {
    let mut bytes = Vec::with_capacity(1 << 20);
    let mut random = u64::from(seed) + 1;
    while bytes.len() < 1 << 20 {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        bytes.extend_from_slice(&(random >> 16).to_le_bytes());
    }
    let step = Step::Complete {
        outcome: Outcome::raw(bytes.into(), usize::MAX),
        window: Window::DEFAULT,
    };
    report(key, 1, step)
}

/// A small file system in memory, unmounted when dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn mount(size_bytes: u64) -> Self {
        let small = Self(folder());
        let size = format!("size={size_bytes}");
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "tmpfs"])
            .arg(small.0.path())
            .output()
            .expect("the program mount");
        assert!(
            output.status.success(),
            "a small disk cannot be mounted, which takes root: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        std::fs::create_dir(small.path()).expect("a folder");
        give(&small.path());
        small
    }

    /// Returns the folder that the server may use.
    fn path(&self) -> std::path::PathBuf {
        self.0.path().join("place")
    }

    /// Returns the bytes that are left.
    fn free(&self) -> usize {
        let stat = rustix::fs::statvfs(self.0.path()).expect("a file system");
        usize::try_from(stat.f_bavail * stat.f_frsize).expect("a small disk")
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily, so that it goes even while a server still has it open.
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}
