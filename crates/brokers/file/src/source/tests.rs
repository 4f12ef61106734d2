use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use semel_core::{Certainty, Code, Fate};

use super::*;

async fn open(text: &[u8]) -> (FileSource, String) {
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().write_all(text).expect("written");
    let source = FileSource::open(file.path(), Options::default())
        .await
        .expect("opened");
    (source, file.path().display().to_string())
}

async fn next(source: &mut FileSource, max: usize) -> Option<Vec<Delivery>> {
    match source.fetch(max).await.expect("fetched") {
        Fetched::Deliveries(deliveries) => Some(deliveries),
        Fetched::Ended => None,
        Fetched::Revoked(_) | Fetched::Elsewhere { .. } => panic!("nobody else reads a file"),
        Fetched::Away(error) => panic!("{error}"),
        Fetched::Back => panic!("a file is never away"),
    }
}

#[tokio::test]
async fn coordinates_are_the_name_as_given_and_the_line() {
    let (mut source, name) = open(b"1\n\n2\n3").await;
    assert_eq!(
        source.progress(),
        Some(Progress {
            read_bytes: 0,
            total_bytes: Some(6)
        })
    );
    let first = next(&mut source, 2).await.expect("lines");
    assert_eq!(first.len(), 2);
    assert_eq!(*first[1].coordinates, *format!("{name}:3"));
    assert_eq!(source.progress().expect("known").read_bytes, 5);
    assert_eq!(next(&mut source, 2).await.expect("a line")[0].payload, "3");
    assert!(next(&mut source, 2).await.is_none());
    assert!(next(&mut source, 2).await.is_none(), "it stays ended");
    assert_eq!(
        source.progress(),
        Some(Progress {
            read_bytes: 6,
            total_bytes: Some(6)
        })
    );
}

#[tokio::test]
async fn what_was_not_acknowledged_when_it_was_closed_comes_again_in_its_order() {
    let (mut source, _) = open(b"1\n2\n3\n4\n5\n6\n").await;
    let lines = next(&mut source, 5).await.expect("lines");
    let id = |at: usize| lines[at].id;
    source
        .acknowledge(&[Acknowledgement::new(id(1), Fate::Applied)])
        .await
        .expect("told");
    source.requeue(&[id(0)]).await.expect("given back");
    source.close().await.expect("closed");
    let again = next(&mut source, 10).await.expect("lines");
    let payloads: Vec<_> = again.iter().map(|it| it.payload.clone()).collect();
    assert_eq!(payloads, ["1", "3", "4", "5", "6"]);
    assert!(next(&mut source, 1).await.is_none());
}

#[tokio::test]
async fn what_was_handed_over_again_in_part_before_it_was_closed_comes_in_the_order_of_the_file() {
    let (mut source, _) = open(b"1\n2\n3\n4\n5\n6\n").await;
    // Two runs are recalled, the second one before it has had all that the first one gave back.
    for (max, is_requeued) in [(5, true), (2, false), (3, true)] {
        let lines = next(&mut source, max).await.expect("lines");
        if is_requeued {
            let ids: Vec<_> = lines.iter().map(|it| it.id).collect();
            source.requeue(&ids).await.expect("given back");
        }
        source.close().await.expect("closed");
    }
    let again = next(&mut source, 10).await.expect("lines");
    let payloads: Vec<_> = again.iter().map(|it| it.payload.clone()).collect();
    assert_eq!(payloads, ["1", "2", "3", "4", "5", "6"]);
}

#[tokio::test]
async fn what_is_given_back_comes_again_first_under_a_new_id() {
    let (mut source, _) = open(b"1\n2\n3\n4\n").await;
    let first = next(&mut source, 2).await.expect("lines");
    let ids: Vec<_> = first.iter().map(|delivery| delivery.id).collect();
    source
        .acknowledge(&[Acknowledgement::new(ids[0], Fate::Applied)])
        .await
        .expect("acknowledged");
    source.requeue(&ids).await.expect("given back");
    source.requeue(&ids).await.expect("a stale id is ignored");
    let second = next(&mut source, 9).await.expect("lines");
    let payloads: Vec<_> = second
        .iter()
        .map(|delivery| &delivery.payload[..])
        .collect();
    assert_eq!(payloads, [b"2", b"3", b"4"]);
    assert_eq!(second[0].coordinates, first[1].coordinates);
    assert!(!ids.contains(&second[0].id));
    assert!(next(&mut source, 9).await.is_none());
    source.requeue(&[second[2].id]).await.expect("given back");
    assert_eq!(
        next(&mut source, 9).await.expect("again")[0].payload,
        "4",
        "after the end too"
    );
}

#[tokio::test]
async fn a_source_that_cannot_be_opened_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing");
    let locked = folder.path().join("locked");
    std::fs::write(&locked, "1").expect("written");
    std::fs::set_permissions(&locked, PermissionsExt::from_mode(0o000)).expect("locked");
    let cases = [
        (missing, "there is no such file"),
        (folder.path().to_owned(), "it is a folder"),
        (locked, "permission denied"),
    ];
    for (path, cause) in cases {
        let Err(error) = FileSource::open(&path, Options::default()).await else {
            assert_eq!(
                cause, "permission denied",
                "only root may read what is locked"
            );
            continue;
        };
        assert_eq!(error.code(), Code::SourceUnavailable);
        assert_eq!(error.certainty(), Certainty::NotApplied);
        assert!(
            error.to_string().contains(&*path.to_string_lossy()),
            "{error}"
        );
        assert!(error.to_string().contains(cause), "{error}");
    }
}

#[tokio::test]
async fn a_fetch_that_was_dropped_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo")
        .arg(&path)
        .status()
        .expect("mkfifo");
    assert!(made.success());
    let (reading, writing) = (path.clone(), path);
    let writer = std::thread::spawn(move || {
        let mut pipe = File::options().write(true).open(writing).expect("opened");
        for line in 0..20 {
            std::thread::sleep(Duration::from_millis(5));
            pipe.write_all(format!("{line}\n").as_bytes())
                .expect("written");
        }
    });
    let mut source = FileSource::open(reading, Options::default())
        .await
        .expect("opened");
    assert_eq!(
        source.progress().expect("some").total_bytes,
        None,
        "a pipe has no length"
    );
    let mut seen = Vec::new();
    loop {
        let fetch = tokio::time::timeout(Duration::from_millis(1), source.fetch(100));
        match fetch.await.map(|fetched| fetched.expect("fetched")) {
            Ok(Fetched::Deliveries(more)) => seen.extend(more),
            Ok(_) => break,
            Err(_) => {}
        }
    }
    writer.join().expect("written");
    let numbers: Vec<String> = seen
        .iter()
        .map(|line| String::from_utf8_lossy(&line.payload).into_owned())
        .collect();
    assert_eq!(
        numbers,
        (0..20).map(|line| line.to_string()).collect::<Vec<_>>()
    );
}
