//! `cargo xtask services`: real servers for tests, on free ports of this machine alone, with their
//! data below `target/services/`. Only servers that were started here are ever stopped.

mod kafka;
mod mariadb;
mod nats;
mod postgres;
mod rabbitmq;
mod redis;
mod redis_cluster;
mod server;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{FlockOperation, flock};

use crate::failure::{Failure, Result};
use crate::workspace::Workspace;
use crate::{packages, process};

use self::server::{Running, Server};

/// Every server that can be started; the tests need them all.
const BUILT: [&Server; 7] = [
    &postgres::SERVER,
    &redis::SERVER,
    &redis_cluster::SERVER,
    &mariadb::SERVER,
    &kafka::SERVER,
    &rabbitmq::SERVER,
    &nats::SERVER,
];

/// The other things that a test needs to start a server of its own.
const PARTS: [Part; 2] = [
    (&kafka::SERVER, kafka::JARS, kafka::jars),
    (&nats::SERVER, nats::PROGRAM, nats::program),
];

/// The server, the variable, and the place of the part, beside the data.
type Part = (&'static Server, &'static str, fn(&Path) -> PathBuf);

/// Servers that tests will need, and that cannot be started yet.
const PLANNED: [&str; 7] = [
    "mosquitto",
    "cassandra",
    "dynamodb",
    "sqs",
    "toxiproxy",
    "schemathesis",
    "nginx",
];

/// Starts, stops or lists the servers of these names, or all.
pub(crate) fn run(workspace: &Workspace, verb: &str, names: &[&str]) -> Result {
    let servers = choose(names)?;
    let home = Home::of(workspace);
    let _lock = home.lock()?;
    let done = match verb {
        "up" => {
            packages::install(workspace, &missing(&servers))?;
            servers.iter().try_for_each(|one| home.up(one).map(drop))
        }
        "down" => servers.iter().try_for_each(|one| home.down(one)),
        "status" => {
            for server in servers {
                match home.running(server)? {
                    Some(running) => say(server, &running.url),
                    None => say(server, "down"),
                }
            }
            return Ok(());
        }
        _ => {
            return Err(Failure::usage(format!(
                "services up|down|status, not `{verb}`"
            )));
        }
    };
    // The file lists those that came up, even if another did not.
    home.write_env()?;
    done?;
    println!(
        "the addresses are in {}",
        workspace.relative(&home.0.join("env"))
    );
    Ok(())
}

/// The packages of all servers that are not installed.
pub(crate) fn packages() -> Vec<&'static str> {
    missing(&BUILT)
}

/// The servers that a run of the tests needs: those that were up, and those that it started and
/// stops when it ends, however it ends.
pub(crate) struct Borrowed {
    home: Home,
    started: Vec<&'static Server>,
    /// The number of servers that are up.
    up: usize,
    /// The variables with their addresses and parts.
    variables: Vec<(&'static str, String)>,
}

impl Borrowed {
    /// No servers yet.
    pub(crate) fn none(workspace: &Workspace) -> Self {
        Self {
            home: Home::of(workspace),
            started: Vec::new(),
            up: 0,
            variables: Vec::new(),
        }
    }

    /// Does `work` beside the servers of these names, or all, and fails if one cannot be started.
    pub(crate) fn beside<T>(
        workspace: &Workspace,
        names: &[&str],
        work: impl FnOnce(&Self) -> Result<T>,
    ) -> Result<T> {
        let chosen = choose(names)?;
        let mut servers = Self::none(workspace);
        if let Some(fault) = servers.these(workspace, &chosen).into_iter().next() {
            return Err(fault);
        }
        let done = work(&servers);
        let stopped = servers.stop();
        let done = done?;
        stopped.map(|()| done)
    }

    /// Starts every server that is not up; returns why the missing ones cannot be started.
    pub(crate) fn all(&mut self, workspace: &Workspace) -> Vec<Failure> {
        self.these(workspace, &BUILT)
    }

    fn these(&mut self, workspace: &Workspace, servers: &[&'static Server]) -> Vec<Failure> {
        let installed = packages::install(workspace, &missing(servers));
        let mut faults = self.up(servers);
        faults.extend(installed.err());
        faults
    }

    fn up(&mut self, servers: &[&'static Server]) -> Vec<Failure> {
        let mut faults = Vec::new();
        let _lock = match self.home.lock() {
            Ok(lock) => lock,
            Err(failure) => return vec![failure],
        };
        for server in servers {
            match self.home.up(server) {
                Ok(up) => {
                    if up.fresh {
                        self.started.push(server);
                    }
                    self.variables.extend(self.home.parts(server));
                    self.variables.push((server.variable, up.url));
                    self.up += 1;
                }
                Err(failure) => faults.push(failure),
            }
        }
        faults.extend(self.home.write_env().err());
        faults
    }

    /// Passes their addresses to `command`, and removes all others that it may have: an old address
    /// must not stand for a server that cannot be started.
    pub(crate) fn lend(&self, command: &mut Command) {
        for server in BUILT {
            command.env_remove(server.variable);
        }
        for (_, variable, _) in PARTS {
            command.env_remove(variable);
        }
        command.envs(self.variables.iter().map(|(name, url)| (name, url)));
    }

    /// The variables with the addresses and parts of those that are up.
    pub(crate) fn variables(&self) -> &[(&'static str, String)] {
        &self.variables
    }

    /// The number of them that are up.
    pub(crate) fn count(&self) -> usize {
        self.up
    }

    /// Stops the servers that were started, all of them even if some do not stop.
    pub(crate) fn stop(&mut self) -> Result {
        self.variables.clear();
        self.up = 0;
        let started = std::mem::take(&mut self.started);
        if started.is_empty() {
            return Ok(());
        }
        let _lock = self.home.lock()?;
        let ends: Vec<Result> = started
            .into_iter()
            .map(|server| self.home.down(server))
            .collect();
        self.home.write_env()?;
        ends.into_iter().collect()
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Err(failure) = self.stop() {
            eprintln!("xtask: {failure}");
        }
    }
}

/// The packages of those that are not installed, each once.
fn missing(servers: &[&Server]) -> Vec<&'static str> {
    let absent = servers
        .iter()
        .filter(|server| (server.find)(server.program).is_none());
    let mut packages: Vec<_> = absent.map(|server| server.package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn say(server: &Server, words: &str) {
    println!("{:<15}{words}", server.name);
}

fn choose(names: &[&str]) -> Result<Vec<&'static Server>> {
    if names.is_empty() {
        return Ok(BUILT.to_vec());
    }
    let choose = |name: &&str| match BUILT.iter().find(|server| server.name == *name) {
        Some(server) => Ok(*server),
        None if PLANNED.contains(name) => Err(Failure::usage(format!("{name}: not built yet"))),
        None => {
            let known: Vec<&str> = BUILT.iter().map(|server| server.name).collect();
            Err(Failure::usage(format!(
                "{name}: no such service; there are {}",
                known.join(", ")
            )))
        }
    };
    names.iter().map(choose).collect()
}

/// The folder with the data, logs and records of all servers.
#[derive(Clone)]
struct Home(PathBuf);

/// A server that is up.
struct Up {
    url: String,
    /// True if it was not up before.
    fresh: bool,
}

impl Home {
    fn of(workspace: &Workspace) -> Self {
        Self(workspace.target.join("services"))
    }

    /// Waits until no other process starts or stops servers here; none does while the lock lives.
    fn lock(&self) -> Result<File> {
        fs::create_dir_all(&self.0)?;
        let lock = File::create(self.0.join("lock"))?;
        flock(&lock, FlockOperation::LockExclusive).map_err(std::io::Error::from)?;
        Ok(lock)
    }

    fn up(&self, server: &Server) -> Result<Up> {
        if let Some(running) = self.running(server)? {
            say(server, &format!("{} (already up)", running.url));
            return Ok(Up {
                url: running.url,
                fresh: false,
            });
        }
        if let Some(rest) = self.recorded(server)? {
            rest.stop(server)?;
        }
        let program = (server.find)(server.program).ok_or_else(|| {
            Failure::environment(format!(
                "{}: {} of the package {} is not installed",
                server.name, server.program, server.package
            ))
        })?;
        let running = server::start(server, &program, &self.0.join(server.name))?;
        fs::write(self.record(server), running.to_json())?;
        say(server, &running.url);
        Ok(Up {
            url: running.url,
            fresh: true,
        })
    }

    fn down(&self, server: &Server) -> Result {
        match self.recorded(server)? {
            Some(running) if running.is_alive() => {
                running.stop(server)?;
                say(server, "stopped");
            }
            _ => say(server, "was not up"),
        }
        match fs::remove_file(self.record(server)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The processes of this server that were started here, if all of them still live.
    fn running(&self, server: &Server) -> Result<Option<Running>> {
        Ok(self.recorded(server)?.filter(Running::is_whole))
    }

    /// The processes of this server that were started here last.
    fn recorded(&self, server: &Server) -> Result<Option<Running>> {
        match fs::read_to_string(self.record(server)) {
            Ok(text) => Ok(Running::from_json(&text)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn record(&self, server: &Server) -> PathBuf {
        self.0.join(format!("{}.json", server.name))
    }

    /// The variables with the parts from which a test starts such a server of its own.
    fn parts(&self, server: &Server) -> Vec<(&'static str, String)> {
        PARTS
            .iter()
            .filter(|(of, _, _)| of.name == server.name)
            .map(|(_, variable, of)| (*variable, of(&self.0.join(server.name))))
            .map(|(variable, part)| (variable, part.display().to_string()))
            .collect()
    }

    /// Writes a file for `source`, with the address and parts of every server that is up.
    fn write_env(&self) -> Result {
        let mut text = String::new();
        for server in BUILT {
            if let Some(running) = self.running(server)? {
                text.extend(["export ", server.variable, "=", &running.url, "\n"]);
                for (variable, part) in self.parts(server) {
                    text.extend(["export ", variable, "='", &part, "'\n"]);
                }
            }
        }
        Ok(fs::write(self.0.join("env"), text)?)
    }
}

/// A program on the path.
fn on_path(program: &str) -> Option<PathBuf> {
    process::on_path(program).then(|| PathBuf::from(program))
}

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use super::*;

    #[test]
    fn services_are_chosen_by_name() {
        assert_eq!(choose(&[]).expect("all").len(), BUILT.len());
        assert_eq!(choose(&["redis"]).expect("one")[0].name, "redis");
        for (name, words) in [
            ("cassandra", "not built yet"),
            ("oracle", "no such service"),
        ] {
            let failure = choose(&[name]).err().expect("it cannot be had");
            assert!(failure.to_string().contains(words), "{failure}");
            assert_eq!(failure.exit_code(), ExitCode::from(2));
        }
    }

    #[test]
    fn a_server_that_died_is_not_running() {
        let home =
            Home(std::env::temp_dir().join(format!("xtask-services-{}", std::process::id())));
        fs::create_dir_all(&home.0).expect("created");
        assert!(home.running(&redis::SERVER).expect("read").is_none());
        let me = Running::of(&[std::process::id()], "redis://here".to_owned()).expect("I live");
        fs::write(home.record(&redis::SERVER), me.to_json()).expect("written");
        assert_eq!(
            home.running(&redis::SERVER).expect("read"),
            Some(me.clone())
        );
        home.write_env().expect("written");
        let env = fs::read_to_string(home.0.join("env")).expect("read");
        assert_eq!(env, "export SEMEL_TEST_REDIS_URL=redis://here\n");
        let mut other = me;
        other.processes[0].started += 1;
        fs::write(home.record(&redis::SERVER), other.to_json()).expect("written");
        assert!(home.running(&redis::SERVER).expect("read").is_none());
        fs::remove_dir_all(&home.0).expect("removed");
    }

    #[test]
    fn what_a_test_builds_a_server_of_is_told_with_its_address() {
        let home = Home(std::env::temp_dir().join(format!("xtask-parts-{}", std::process::id())));
        fs::create_dir_all(&home.0).expect("created");
        let me = Running::of(&[std::process::id()], "here".to_owned()).expect("I live");
        fs::write(home.record(&kafka::SERVER), me.to_json()).expect("written");
        home.write_env().expect("written");
        let env = fs::read_to_string(home.0.join("env")).expect("read");
        let jars = kafka::jars(&home.0.join("kafka"));
        let expected = format!(
            "export SEMEL_TEST_KAFKA_URL=here\nexport SEMEL_TEST_KAFKA_JARS='{}'\n",
            jars.display()
        );
        assert_eq!(env, expected);
        assert_eq!(home.parts(&redis::SERVER), []);
        fs::remove_dir_all(&home.0).expect("removed");
    }

    static ONE: Server = sleeper("one", "SEMEL_TEST_ONE_URL");
    static OTHER: Server = sleeper("other", "SEMEL_TEST_OTHER_URL");
    static ABSENT: Server = Server {
        find: |_| None,
        ..sleeper("absent", "SEMEL_TEST_ABSENT_URL")
    };

    const fn sleeper(name: &'static str, variable: &'static str) -> Server {
        Server {
            name,
            program: "sleep",
            package: "coreutils",
            find: on_path,
            variable,
            ports: 0,
            prepare: |program, _, _| {
                let mut command = Command::new(program);
                command.arg("600");
                Ok(vec![command])
            },
            url: |_| "sleep:".to_owned(),
            answers: |_| true,
            finish: |_, _| Ok(()),
            stop: "TERM",
        }
    }

    #[test]
    fn a_run_of_the_tests_stops_what_it_started_and_nothing_else() {
        let target = std::env::temp_dir().join(format!("xtask-borrowed-{}", std::process::id()));
        let workspace = Workspace {
            root: target.clone(),
            target: target.clone(),
            metadata: serde_json::Value::Null,
        };
        let home = Home::of(&workspace);
        drop(home.lock().expect("locked"));
        home.up(&ONE).expect("it starts");
        let mut borrowed = Borrowed::none(&workspace);
        let faults = borrowed.up(&[&ONE, &ABSENT, &OTHER]);
        let faults: Vec<_> = faults.iter().map(Failure::to_string).collect();
        assert_eq!(
            faults,
            ["absent: sleep of the package coreutils is not installed"]
        );
        assert_eq!(borrowed.count(), 2);
        let mut told = Command::new("true");
        borrowed.lend(&mut told);
        for old in [redis::SERVER.variable, kafka::JARS] {
            let old = std::ffi::OsStr::new(old);
            assert!(told.get_envs().any(|told| told == (old, None)));
        }
        let told = told.get_envs().filter(|(_, url)| url.is_some());
        let names: Vec<_> = told.map(|(name, _)| name).collect();
        assert_eq!(names, ["SEMEL_TEST_ONE_URL", "SEMEL_TEST_OTHER_URL"]);
        let other = home.recorded(&OTHER).expect("read").expect("it was up");
        drop(borrowed);
        assert!(!other.is_alive());
        assert!(home.running(&ONE).expect("read").is_some());
        home.down(&ONE).expect("it stops");
        fs::remove_dir_all(&target).expect("removed");
    }
}
