//! A Redis Cluster of a test's own, whose masters are killed one after the other.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use tempfile::TempDir;

/// Three masters without replicas, each on a port of its own, which have everything on their disks before they
/// answer; killed and removed when dropped.
#[derive(Debug)]
pub struct RedisCluster {
    masters: Vec<Master>,
    /// The number of kills: the masters take turns.
    kills: usize,
}

#[derive(Debug)]
struct Master {
    folder: TempDir,
    port: u16,
    /// The port of the bus between the masters.
    bus: u16,
    process: Child,
}

impl RedisCluster {
    /// Starts the masters and divides the slots among them.
    ///
    /// # Panics
    ///
    /// If Redis is not installed, or the masters do not agree.
    pub fn start() -> Self {
        let masters = (0..MASTERS).map(|_| Master::start()).collect();
        let this = Self { masters, kills: 0 };
        this.wait_until("PONG", &["ping"]);
        let made = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(this.addresses().iter().map(SocketAddr::to_string))
            .args(["--cluster-replicas", "0", "--cluster-yes"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .status();
        let made = made.expect("redis-cli is installed");
        assert!(made.success(), "the masters make no cluster");
        this.wait_until_whole();
        this
    }

    /// The addresses at which its masters listen.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        let ports = self.masters.iter().map(|master| master.port);
        ports
            .map(|port| (Ipv4Addr::LOCALHOST, port).into())
            .collect()
    }

    /// Kills one of its masters, and starts it again on the data it has kept. Meanwhile no slot is served.
    ///
    /// # Panics
    ///
    /// If it does not come up again.
    pub fn kill_and_restart(&mut self) {
        let place = self.kills % self.masters.len();
        self.kills += 1;
        let master = &mut self.masters[place];
        master.process.kill().expect("a process");
        master.process.wait().expect("a process");
        master.process = server(master.folder.path(), master.port, master.bus);
        self.wait_until_whole();
    }

    /// Waits until every master sees every slot served.
    fn wait_until_whole(&self) {
        self.wait_until("cluster_state:ok", &["cluster", "info"]);
    }

    fn wait_until(&self, said: &str, command: &[&str]) {
        for _ in 0..6_000 {
            if self
                .masters
                .iter()
                .all(|it| it.says(command).contains(said))
            {
                return;
            }
            sleep(Duration::from_millis(20));
        }
        panic!("not every master of the cluster said {said} within two minutes");
    }
}

impl Master {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = free_port::take().expect("a free port");
        let bus = free_port::take().expect("a free port");
        let process = server(folder.path(), port, bus);
        Self {
            folder,
            port,
            bus,
            process,
        }
    }

    fn says(&self, command: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string()])
            .args(command)
            .output()
            .expect("redis-cli is installed");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn server(folder: &Path, port: u16, bus: u16) -> Child {
    Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--port", &port.to_string()])
        .args(["--cluster-enabled", "yes"])
        .args(["--cluster-port", &bus.to_string()])
        .args(["--appendonly", "yes", "--appendfsync", "always"])
        .args(["--save", "", "--dir"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server is installed")
}

/// A cluster has at least three.
const MASTERS: usize = 3;
