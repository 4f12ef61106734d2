//! `cargo xtask services`: real servers for tests, on free ports of this machine alone, with
//! their data below `target/services/`. Only what was started here is ever stopped.

mod postgres;
mod redis;
mod server;

use std::fs;
use std::path::PathBuf;

use crate::failure::{Failure, Result};
use crate::workspace::Workspace;
use crate::{ci, process};

use self::server::{Running, Server};

/// Every server that can be had.
const BUILT: [&Server; 2] = [&postgres::SERVER, &redis::SERVER];

/// Servers that tests will need, and that nobody can start yet.
const PLANNED: [&str; 12] = [
    "mariadb",
    "rabbitmq",
    "mosquitto",
    "nats",
    "kafka",
    "cassandra",
    "dynamodb",
    "sqs",
    "prometheus",
    "toxiproxy",
    "schemathesis",
    "nginx",
];

/// Starts, stops or lists the servers of these names, or all that can be had.
pub(crate) fn run(workspace: &Workspace, verb: &str, names: &[&str]) -> Result {
    let servers = choose(names)?;
    let home = Home(workspace.target.join("services"));
    match verb {
        "up" => {
            fs::create_dir_all(&home.0)?;
            for server in servers {
                home.up(workspace, server)?;
            }
        }
        "down" => {
            for server in servers {
                home.down(server)?;
            }
        }
        "status" => {
            for server in servers {
                match home.running(server)? {
                    Some(running) => println!("{:<10}{}", server.name, running.url),
                    None => println!("{:<10}down", server.name),
                }
            }
            return Ok(());
        }
        _ => {
            return Err(Failure::usage(format!(
                "services up|down|status, not `{verb}`"
            )));
        }
    }
    home.write_env()?;
    println!(
        "the addresses are in {}",
        workspace.relative(&home.0.join("env"))
    );
    Ok(())
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
struct Home(PathBuf);

impl Home {
    fn up(&self, workspace: &Workspace, server: &Server) -> Result {
        if let Some(running) = self.running(server)? {
            println!("{:<10}{} (already up)", server.name, running.url);
            return Ok(());
        }
        let package = (server.program, server.package);
        ci::install(
            workspace,
            &ci::missing(&[package], |program| (server.find)(program).is_some()),
        )?;
        let program = (server.find)(server.program).ok_or_else(|| {
            Failure::environment(format!("{} is installed, but where?", server.program))
        })?;
        let running = server::start(server, &program, &self.0.join(server.name))?;
        fs::write(self.record(server), running.to_json())?;
        println!("{:<10}{}", server.name, running.url);
        Ok(())
    }

    fn down(&self, server: &Server) -> Result {
        match self.running(server)? {
            Some(running) => {
                running.stop(server)?;
                println!("{:<10}stopped", server.name);
            }
            None => println!("{:<10}was not up", server.name),
        }
        match fs::remove_file(self.record(server)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// What was started here and still lives.
    fn running(&self, server: &Server) -> Result<Option<Running>> {
        match fs::read_to_string(self.record(server)) {
            Ok(text) => Ok(Running::from_json(&text).filter(Running::is_alive)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn record(&self, server: &Server) -> PathBuf {
        self.0.join(format!("{}.json", server.name))
    }

    /// A file for `source`, with the address of every server that is up.
    fn write_env(&self) -> Result {
        let mut text = String::new();
        for server in BUILT {
            if let Some(running) = self.running(server)? {
                text.extend(["export ", server.variable, "=", &running.url, "\n"]);
            }
        }
        fs::create_dir_all(&self.0)?;
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
        for (name, words) in [("kafka", "not built yet"), ("oracle", "no such service")] {
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
        let me = Running::of(std::process::id(), "redis://here".to_owned()).expect("I live");
        fs::write(home.record(&redis::SERVER), me.to_json()).expect("written");
        assert_eq!(
            home.running(&redis::SERVER).expect("read"),
            Some(me.clone())
        );
        home.write_env().expect("written");
        let env = fs::read_to_string(home.0.join("env")).expect("read");
        assert_eq!(env, "export SEMEL_TEST_REDIS_URL=redis://here\n");
        let other = Running {
            started: me.started + 1,
            ..me
        };
        fs::write(home.record(&redis::SERVER), other.to_json()).expect("written");
        assert!(home.running(&redis::SERVER).expect("read").is_none());
        fs::remove_dir_all(&home.0).expect("removed");
    }
}
