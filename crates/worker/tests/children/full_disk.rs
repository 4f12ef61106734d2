//! The output file on a disk that is full.

use std::fs;
use std::process::Command;

use semel_core::{Certainty, Code};
use semel_engine::effect::Output;
use semel_worker::effect::FileOutput;

/// Runs itself again in a process whose files may not grow beyond a block.
#[tokio::test]
async fn what_was_half_written_on_a_full_disk_is_cut_off() {
    const FOLDER: &str = "SEMEL_TEST_FULL_DISK";
    let Some(folder) = std::env::var_os(FOLDER) else {
        let folder = tempfile::tempdir().expect("a folder");
        let status = Command::new("sh")
            .args([
                "-c",
                "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact \"$1\" > /dev/null",
            ])
            .arg(std::env::current_exe().expect("this test"))
            .arg(NAME)
            .env(FOLDER, folder.path())
            .status()
            .expect("started");
        assert!(status.success());
        let written = fs::read(folder.path().join("out")).expect("that the child ran");
        assert_eq!(written, b"one\ntwo\n");
        return;
    };
    let path = std::path::Path::new(&folder).join("out");
    let mut output = FileOutput::open(&path).expect("opened");
    output.append(&["one".into()]).await.expect("appended");
    let error = output
        .append(&[vec![b'x'; 100_000].into()])
        .await
        .expect_err("too much");
    assert_eq!(
        (error.code(), error.certainty()),
        (Code::TargetUnavailable, Certainty::NotApplied)
    );
    assert!(error.to_string().contains("File too large"), "{error}");
    assert_eq!(fs::read(&path).expect("read"), b"one\n");
    assert_eq!(output.append(&["two".into()]).await.expect("goes on"), 8);
}

/// The test that is the child where its environment says so.
const NAME: &str = "full_disk::what_was_half_written_on_a_full_disk_is_cut_off";
