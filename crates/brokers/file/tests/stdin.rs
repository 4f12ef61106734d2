//! Standard input: this test runs itself again, with one.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use semel_broker_file::{Options, StdinSource};
use semel_core::port::source::{Fetched, Source};

const INNER: &str = "SEMEL_TEST_STDIN";

/// Returns the output of the inner process between its marks, given `input`.
fn run(test: &str, stdin: Stdio, input: &[u8]) -> String {
    let mut child = Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", test, "--nocapture", "--include-ignored"])
        .env(INNER, "1")
        .stdin(stdin)
        .stdout(Stdio::piped())
        .spawn()
        .expect("started");
    if let Some(mut stdin) = child.stdin.take() {
        for piece in input.chunks(1 << 20) {
            stdin.write_all(piece).expect("read");
        }
    }
    let output = child.wait_with_output().expect("ended");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{printed}");
    printed.split('@').nth(1).unwrap_or_default().to_owned()
}

#[tokio::test]
#[expect(clippy::print_stdout, reason = "it tells the outer process")]
async fn lines_come_from_standard_input() {
    if std::env::var_os(INNER).is_none() {
        let name = "lines_come_from_standard_input";
        assert_eq!(
            run(name, Stdio::piped(), b"1\n\n2"),
            "stdin:1=1 stdin:3=2 None"
        );
        assert_eq!(run(name, Stdio::null(), b""), "None");
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "1\n2\n").expect("written");
        let reopened = file.reopen().expect("a file");
        assert_eq!(
            run(name, reopened.into(), b""),
            "stdin:1=1 stdin:2=2 Some(4)"
        );
        return;
    }
    let mut source = StdinSource::open(Options::default()).await.expect("opened");
    let mut told = String::new();
    while let Fetched::Deliveries(lines) = source.fetch(10).await.expect("fetched") {
        for line in lines {
            let payload = String::from_utf8_lossy(&line.payload);
            write!(told, "{}={payload} ", line.coordinates).expect("written");
        }
    }
    let total_bytes = source.progress().expect("known").total_bytes;
    println!("@{told}{total_bytes:?}@");
}
