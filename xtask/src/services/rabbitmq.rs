//! RabbitMQ: one node with the management plugin, which answers on a port of its own, and an epmd
//! that no other program uses. It runs as the user that its package made if this process is root.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::packages;

use super::server::{self, Server};

pub(super) static SERVER: Server = Server {
    name: "rabbitmq",
    program: "rabbitmq-server",
    package: "rabbitmq-server",
    find,
    variable: "SEMEL_TEST_AMQP_URL",
    // AMQP, management, distribution, epmd.
    ports: 4,
    prepare,
    url: |ports| {
        let [amqp, management, ..] = ports else {
            return String::new();
        };
        // A client ignores the parameter; the tests find the management plugin's port in it.
        format!("amqp://guest:guest@127.0.0.1:{amqp}/%2f?management_port={management}")
    },
    answers,
    finish: |_, _| Ok(()),
    stop: "TERM",
};

/// The folder in which Debian puts the program itself; the one on the path insists on the system's
/// folders.
const BIN: &str = "/usr/lib/rabbitmq/bin";
/// A program of Erlang.
const EPMD: &str = "epmd";

fn find(program: &str) -> Option<PathBuf> {
    super::on_path(EPMD)?;
    let program = Path::new(BIN).join(program);
    program.is_file().then_some(program)
}

fn prepare(program: &Path, data: &Path, ports: &[u16]) -> Result<Vec<Command>> {
    let &[amqp, management, distribution, epmd] = ports else {
        return Err(Failure::no("four ports are needed"));
    };
    let owner = owner()?;
    let settings = format!(
        "listeners.tcp.1 = 127.0.0.1:{amqp}\n\
         management.tcp.ip = 127.0.0.1\n\
         management.tcp.port = {management}\n\
         loopback_users = none\n\
         vm_memory_high_watermark.absolute = 1GiB\n\
         disk_free_limit.absolute = 100MB\n"
    );
    fs::write(data.join("rabbitmq.conf"), settings)?;
    fs::write(data.join("enabled_plugins"), "[rabbitmq_management].\n")?;
    if let Some((user, group)) = owner {
        chown(data, Some(user), Some(group))?;
    }
    let mut names = unprivileged(Command::new(EPMD), owner, data);
    names.args(["-port", &epmd.to_string(), "-address", "127.0.0.1"]);
    let mut node = unprivileged(Command::new(program), owner, data);
    node.env("HOME", data)
        .env("ERL_EPMD_PORT", epmd.to_string())
        .env("RABBITMQ_NODENAME", "semel@localhost")
        .env("RABBITMQ_DIST_PORT", distribution.to_string())
        .env("RABBITMQ_MNESIA_BASE", data.join("mnesia"))
        .env("RABBITMQ_LOG_BASE", data.join("log"))
        .env("RABBITMQ_LOGS", "-")
        .env(
            "RABBITMQ_ENABLED_PLUGINS_FILE",
            data.join("enabled_plugins"),
        )
        .env("RABBITMQ_CONFIG_FILE", data.join("rabbitmq.conf"))
        .env("RABBITMQ_CONF_ENV_FILE", data.join("none"))
        // With this setting the script becomes the node, so that its id is the node's.
        .env("RABBITMQ_ALLOW_INPUT", "1")
        .env(
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
            "-noinput -kernel inet_dist_use_interface {127,0,0,1}",
        );
    Ok(vec![names, node])
}

/// The user and group to run as, if this process is root.
fn owner() -> Result<Option<(u32, u32)>> {
    if !packages::is_root() {
        return Ok(None);
    }
    let users = fs::read_to_string("/etc/passwd")?;
    match user(&users, "rabbitmq") {
        Some(user) => Ok(Some(user)),
        None => Err(Failure::environment(
            "there is no user `rabbitmq` to run the server as",
        )),
    }
}

fn user(users: &str, name: &str) -> Option<(u32, u32)> {
    let line = users
        .lines()
        .find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// The command as that user, in a folder that the user may read.
fn unprivileged(mut command: Command, owner: Option<(u32, u32)>, data: &Path) -> Command {
    if let Some((user, group)) = owner {
        command.uid(user).gid(group);
    }
    command.current_dir(data);
    command
}

/// Returns whether it is up: to the header of the protocol the server answers with a method of
/// channel 0, which begins 1, 0, 0.
fn answers(ports: &[u16]) -> bool {
    let said = server::ask(ports[0], b"AMQP\x00\x00\x09\x01", 3);
    said.is_some_and(|said| said == [1, 0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_found_by_its_whole_name() {
        let users = "root:x:0:0\nrabbitmq2:x:8:8\nrabbitmq:x:105:108:R:/:/bin/sh\n";
        assert_eq!(user(users, "rabbitmq"), Some((105, 108)));
        assert_eq!(user(users, "nobody"), None);
    }

    #[test]
    fn the_address_says_where_the_management_plugin_is() {
        let url = (SERVER.url)(&[1, 2, 3, 4]);
        assert_eq!(url, "amqp://guest:guest@127.0.0.1:1/%2f?management_port=2");
    }
}
