//! PostgreSQL, durable, with connections for many tests at once. It refuses to run as root, so a root process runs it
//! as the user that its package made.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::failure::{Failure, Result};
use crate::packages;
use crate::process;

use super::server::Server;

pub(super) static SERVER: Server = Server {
    name: "postgres",
    program: "postgres",
    package: "postgresql",
    find,
    variable: "SEMEL_TEST_POSTGRES_URL",
    ports: 1,
    prepare,
    url: |ports| format!("postgres://semel@127.0.0.1:{}/postgres", ports[0]),
    answers,
    finish: |_, _| Ok(()),
    stop: "INT",
};

/// The folder in which Debian puts every version's programs.
const VERSIONS: &str = "/usr/lib/postgresql";

/// The newest version installed; its programs are not on the path.
fn find(program: &str) -> Option<PathBuf> {
    let versions = fs::read_dir(VERSIONS).ok()?;
    versions
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter_map(|version| Some((version.parse::<u32>().ok()?, version)))
        .filter(|(_, version)| program_of(version, program).is_file())
        .max()
        .map(|(_, version)| program_of(&version, program))
}

fn program_of(version: &str, program: &str) -> PathBuf {
    Path::new(VERSIONS).join(version).join("bin").join(program)
}

/// Settings that the machine's defaults may lack.
const SETTINGS: [&str; 4] = [
    "fsync=on",
    "full_page_writes=on",
    "synchronous_commit=on",
    "max_connections=300",
];

/// The users that may connect: everyone on this machine. One role needs its password, so that tests can give a wrong
/// one.
const WHO: &str = "host all semel_guarded 127.0.0.1/32 scram-sha-256\n\
                   host all all 127.0.0.1/32 trust\n\
                   host replication all 127.0.0.1/32 trust\n";

fn prepare(program: &Path, data: &Path, ports: &[u16]) -> Result<Vec<Command>> {
    let owner = owner()?;
    if !data.join("PG_VERSION").is_file() {
        if let Some((user, group)) = owner {
            chown(data, Some(user), Some(group))?;
        }
        let mut initdb = unprivileged(Command::new(program.with_file_name("initdb")), owner, data);
        initdb.arg("--pgdata").arg(data).args([
            "--username=semel",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-locale",
        ]);
        process::log(&mut initdb, &data.with_extension("initdb.log"))?;
    }
    fs::write(data.join("pg_hba.conf"), WHO)?;
    let mut command = unprivileged(Command::new(program), owner, data);
    command
        .arg("-D")
        .arg(data)
        .args(["-p", &ports[0].to_string(), "-k", "", "-h", "127.0.0.1"])
        .args(SETTINGS.iter().flat_map(|setting| ["-c", setting]));
    Ok(vec![command])
}

/// The user and group to run as, if this process is root.
fn owner() -> Result<Option<(u32, u32)>> {
    if !packages::is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    match user(&users, "postgres") {
        Some(user) => Ok(Some(user)),
        None => Err(Failure::environment(
            "there is no user `postgres` to run the server as",
        )),
    }
}

fn user(users: &str, name: &str) -> Option<(u32, u32)> {
    let fields = users
        .lines()
        .map(|line| line.split(':').collect::<Vec<_>>());
    fields
        .filter(|fields| fields.first() == Some(&name))
        .find_map(|fields| Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?)))
}

/// The command as that user, in a folder that the user may read.
fn unprivileged(mut command: Command, owner: Option<(u32, u32)>, data: &Path) -> Command {
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
    command.current_dir(data);
    command
}

fn answers(ports: &[u16]) -> bool {
    let Some(program) = find("pg_isready") else {
        return false;
    };
    Command::new(program)
        .args([
            "--quiet",
            "--host",
            &Ipv4Addr::LOCALHOST.to_string(),
            "--port",
            &ports[0].to_string(),
        ])
        .stdout(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let users = "root:x:0:0\npostgres2:x:8:8\npostgres:x:105:110:P:/:/bin/sh\n";
        assert_eq!(user(users, "postgres"), Some((105, 110)));
        assert_eq!(user(users, "nobody"), None);
    }
}
