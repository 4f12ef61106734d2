//! The output file: appending, cutting back, and one writer. `full_disk`, which starts a child, is with `children`.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use bytes::Bytes;
use semel_core::{Certainty, Code};
use semel_engine::effect::Output;
use semel_worker::effect::FileOutput;

fn batch(messages: &[&'static str]) -> Vec<Bytes> {
    messages
        .iter()
        .map(|message| Bytes::from_static(message.as_bytes()))
        .collect()
}

#[tokio::test]
async fn messages_are_appended_and_cut_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    let mut output = FileOutput::open(&path).expect("opened");
    assert_eq!(output.len_bytes().await.expect("length"), 0);
    assert_eq!(
        output
            .append(&batch(&["one", "", "two"]))
            .await
            .expect("appended"),
        9
    );
    assert_eq!(
        output.append(&batch(&["three"])).await.expect("appended"),
        15
    );
    assert_eq!(fs::read(&path).expect("read"), b"one\n\ntwo\nthree\n");
    output.cut_back(9).await.expect("cut");
    output.cut_back(9).await.expect("nothing to cut");
    assert_eq!(output.len_bytes().await.expect("length"), 9);
    assert_eq!(
        output.append(&batch(&["four"])).await.expect("appended"),
        14
    );
    assert_eq!(fs::read(&path).expect("read"), b"one\n\ntwo\nfour\n");
    drop(output);
    let mut output = FileOutput::open(&path).expect("opened again");
    assert_eq!(
        output.len_bytes().await.expect("length"),
        14,
        "what is there stays"
    );
    assert_eq!(output.append(&[]).await.expect("nothing"), 14);
}

#[tokio::test]
async fn a_shorter_file_than_recorded_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut output = FileOutput::open(folder.path().join("out")).expect("opened");
    output.append(&batch(&["one"])).await.expect("appended");
    let error = output.cut_back(5).await.expect_err("shorter");
    assert_eq!(error.code(), Code::TargetShortened);
    assert!(
        error
            .to_string()
            .contains("has 4 bytes, but 5 were recorded"),
        "{error}"
    );
    assert_eq!(output.len_bytes().await.expect("length"), 4);
}

#[tokio::test]
async fn there_is_one_writer() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out");
    let first = FileOutput::open(&path).expect("opened");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).expect("linked");
    let error = FileOutput::open(&link).expect_err("locked");
    assert_eq!(error.code(), Code::TargetInUse);
    assert_eq!(error.certainty(), Certainty::NotApplied);
    assert!(
        error.to_string().contains(&*link.to_string_lossy()),
        "{error}"
    );
    let name = first.mark_name();
    drop(first);
    let second = FileOutput::open(&link).expect("free again");
    assert_eq!(second.mark_name(), name, "a link names the same target");
    let canonical = path.canonicalize().expect("a path");
    assert_eq!(name, format!("file:{}", canonical.display()));
}

#[test]
fn a_target_that_cannot_be_opened_says_why() {
    let folder = tempfile::tempdir().expect("a folder");
    let locked = folder.path().join("locked");
    fs::write(&locked, "").expect("written");
    fs::set_permissions(&locked, fs::Permissions::from_mode(0o444)).expect("locked");
    for (path, cause) in [
        (folder.path().join("missing/out"), "its folder is missing"),
        (folder.path().to_owned(), "it is a folder"),
        ("/dev/null".into(), "it is no regular file"),
        (locked, "permission denied"),
    ] {
        let Err(error) = FileOutput::open(&path) else {
            assert_eq!(
                cause, "permission denied",
                "only root may write what is locked"
            );
            continue;
        };
        assert_eq!(
            (error.code(), error.certainty()),
            (Code::TargetUnavailable, Certainty::NotApplied)
        );
        let message = error.to_string();
        assert!(
            message.contains(cause) && message.contains(&*path.to_string_lossy()),
            "{message}"
        );
    }
    assert!(!folder.path().join("missing").exists());
}
