//! MariaDB, durable: root without a password, on the loopback alone, and the database `semel`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::Result;
use crate::{packages, process};

use super::server::{self, Server};

pub(super) static SERVER: Server = Server {
    name: "mariadb",
    program: "mariadbd",
    package: "mariadb-server",
    find,
    variable: "SEMEL_TEST_MYSQL_URL",
    ports: 1,
    prepare,
    url: |ports| format!("mysql://root@127.0.0.1:{}/semel", ports[0]),
    answers,
    finish: |_, _| Ok(()),
    stop: "TERM",
};

/// A person's path often lacks it.
const SYSTEM: &str = "/usr/sbin";
/// A program that `mariadb-install-db` calls; a server alone can be installed without it.
const INSTALLER: &str = "my_print_defaults";

fn find(program: &str) -> Option<PathBuf> {
    super::on_path(INSTALLER)?;
    super::on_path(program).or_else(|| {
        let program = Path::new(SYSTEM).join(program);
        program.is_file().then_some(program)
    })
}

/// Settings that the machine's defaults may lack; `root` is known by an address, not by a name.
const SETTINGS: [&str; 7] = [
    "--bind-address=127.0.0.1",
    "--skip-name-resolve",
    "--innodb-flush-log-at-trx-commit=1",
    "--innodb-doublewrite=1",
    "--sync-binlog=1",
    "--character-set-server=utf8mb4",
    "--max-connections=300",
];

/// The statements that are carried out before the server accepts connections.
const FIRST: &str = "CREATE DATABASE IF NOT EXISTS semel;\n";

fn prepare(program: &Path, data: &Path, ports: &[u16]) -> Result<Vec<Command>> {
    // A server that starts removes files that it takes for temporary tables of a crashed one: in a
    // folder that servers share, those of another.
    let temporary = data.with_extension("tmp");
    fs::create_dir_all(&temporary)?;
    if !data.join("mysql").is_dir() {
        // A half-made folder would be taken for a complete one.
        let fresh = data.with_extension("fresh");
        if fresh.exists() {
            fs::remove_dir_all(&fresh)?;
        }
        let mut install = Command::new("mariadb-install-db");
        install.arg("--no-defaults").args(user()).args([
            "--auth-root-authentication-method=normal",
            "--skip-name-resolve",
            "--skip-test-db",
        ]);
        install
            .arg(option("--datadir=", &fresh))
            .env("TMPDIR", &temporary);
        process::log(&mut install, &data.with_extension("install.log"))?;
        fs::remove_dir_all(data)?;
        fs::rename(&fresh, data)?;
    }
    let first = data.with_extension("sql");
    fs::write(&first, FIRST)?;
    let mut command = Command::new(program);
    command
        .arg("--no-defaults")
        .args(user())
        .arg(option("--datadir=", data))
        .arg(option("--init-file=", &first))
        .arg(format!("--port={}", ports[0]))
        // Both in the data folder, where the server goes first: a longer path could be too long.
        .args(["--socket=mariadb.sock", "--pid-file=mariadb.pid"])
        .args(SETTINGS)
        .env("TMPDIR", &temporary);
    Ok(vec![command])
}

/// The user option: the server runs as root only with it.
fn user() -> Option<&'static str> {
    packages::is_root().then_some("--user=root")
}

fn option(name: &str, path: &Path) -> std::ffi::OsString {
    let mut option = std::ffi::OsString::from(name);
    option.push(path);
    option
}

/// Returns whether it is up. The server speaks first: the length of its greeting, the number 0, the
/// protocol's version 10.
fn answers(ports: &[u16]) -> bool {
    let said = server::ask(ports[0], b"", 5);
    said.is_some_and(|said| said[3..] == [0, 10])
}
