//! A Redis Cluster of three masters and no replicas, made anew at every start: its nodes remember
//! the ports of one another, and those change.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::process;

use super::redis;
use super::server::{self, Server};

pub(super) static SERVER: Server = Server {
    name: "redis-cluster",
    program: redis::PROGRAM,
    package: redis::PACKAGE,
    find: super::on_path,
    variable: "SEMEL_TEST_REDIS_CLUSTER_URL",
    // The second half is for the bus between the nodes.
    ports: 2 * MASTERS,
    prepare,
    url: |ports| format!("redis+cluster://{}", addresses(ports).join(",")),
    answers: |ports| redis::answers(&ports[..MASTERS]),
    finish: join,
    stop: "TERM",
};

/// A cluster has at least three.
const MASTERS: usize = 3;

fn addresses(ports: &[u16]) -> Vec<String> {
    let masters = ports.iter().take(MASTERS);
    masters.map(|port| format!("127.0.0.1:{port}")).collect()
}

fn prepare(program: &Path, data: &Path, ports: &[u16]) -> Result<Vec<Command>> {
    fs::remove_dir_all(data)?;
    let (masters, buses) = ports.split_at(MASTERS);
    let serve = |(port, bus): (&u16, &u16)| {
        let folder = data.join(format!("node-{port}"));
        fs::create_dir_all(&folder)?;
        let mut command = redis::serve(program, &folder, *port);
        command.args(["--cluster-enabled", "yes"]);
        command.args(["--cluster-port", &bus.to_string()]);
        Ok(command)
    };
    masters.iter().zip(buses).map(serve).collect()
}

/// Divides the slots among the nodes, and waits until each of them sees every slot served.
fn join(data: &Path, ports: &[u16]) -> Result {
    let mut create = Command::new("redis-cli");
    create
        .args(["--cluster", "create"])
        .args(addresses(ports))
        .args(["--cluster-replicas", "0", "--cluster-yes"]);
    process::log(&mut create, &data.with_extension("create.log"))?;
    if server::wait(|| ports[..MASTERS].iter().all(|port| is_whole(*port))) {
        return Ok(());
    }
    Err(Failure::environment("the nodes of the cluster do not meet"))
}

/// Returns whether the node sees every slot served. The first words of a bulk string: its length,
/// then `cluster_state:ok`.
fn is_whole(port: u16) -> bool {
    let said = server::ask(port, b"CLUSTER INFO\r\n", 24).unwrap_or_default();
    String::from_utf8_lossy(&said).contains("cluster_state:ok")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_is_named_by_its_masters_alone() {
        let url = (SERVER.url)(&[1, 2, 3, 11, 12, 13]);
        assert_eq!(url, "redis+cluster://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3");
    }

    #[test]
    fn every_node_has_ports_and_a_fresh_folder_of_its_own() {
        let data = std::env::temp_dir().join(format!("xtask-cluster-{}", std::process::id()));
        fs::create_dir_all(&data).expect("created");
        fs::write(data.join("old"), "").expect("written");
        let ports = [1, 2, 3, 11, 12, 13];
        let commands = prepare(Path::new("redis-server"), &data, &ports).expect("prepared");
        let last: Vec<_> = commands[2]
            .get_args()
            .filter_map(|arg| arg.to_str())
            .collect();
        assert_eq!(commands.len(), 3);
        for pair in [
            ["--port", "3"],
            ["--cluster-port", "13"],
            ["--cluster-enabled", "yes"],
            ["--appendonly", "yes"],
        ] {
            assert!(
                last.windows(2).any(|args| args == pair),
                "{pair:?}: {last:?}"
            );
        }
        assert!(data.join("node-3").is_dir());
        assert!(!data.join("old").exists());
        fs::remove_dir_all(&data).expect("removed");
    }
}
