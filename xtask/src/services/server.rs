//! The processes of one server: started, waited for, recognised later by their ids and start times,
//! stopped.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::failure::{Failure, Result};

/// A kind of server: how to find, start and stop it.
pub(super) struct Server {
    /// Its name on the command line.
    pub(super) name: &'static str,
    /// The program, and the Debian package that contains it.
    pub(super) program: &'static str,
    pub(super) package: &'static str,
    /// Finds the program, if it is installed.
    pub(super) find: fn(&str) -> Option<PathBuf>,
    /// The variable that carries its address.
    pub(super) variable: &'static str,
    /// The number of ports on which it listens.
    pub(super) ports: usize,
    /// Prepares the data folder and returns the commands that serve from it.
    pub(super) prepare: fn(program: &Path, data: &Path, ports: &[u16]) -> Result<Vec<Command>>,
    pub(super) url: fn(ports: &[u16]) -> String,
    /// Returns whether every process answers yet.
    pub(super) answers: fn(ports: &[u16]) -> bool,
    /// Does the rest of the work once they answer.
    pub(super) finish: fn(data: &Path, ports: &[u16]) -> Result,
    /// The signal on which it stops in an orderly way.
    pub(super) stop: &'static str,
}

/// The time that a server may take to answer, or to stop.
const PATIENCE: Duration = Duration::from_secs(180);
const TICK: Duration = Duration::from_millis(50);

/// Starts `server` with its data in `data`, in process groups of its own that outlive this one.
pub(super) fn start(server: &Server, program: &Path, data: &Path) -> Result<Running> {
    fs::create_dir_all(data)?;
    let ports = (0..server.ports)
        .map(|_| free_port::take())
        .collect::<io::Result<Vec<_>>>()?;
    let commands = (server.prepare)(program, data, &ports)?;
    let path = data.with_extension("log");
    let log = File::create(&path)?;
    let mut starting = Starting(Vec::new());
    for mut command in commands {
        command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log.try_clone()?)
            .process_group(0);
        let child = command.spawn().map_err(|error| {
            Failure::environment(format!("cannot start {}: {error}", server.name))
        })?;
        starting.0.push(child);
    }
    let answered = wait(|| starting.ended() || (server.answers)(&ports));
    if !answered || starting.ended() {
        let log = fs::read_to_string(&path).unwrap_or_default();
        let last = log.lines().last().unwrap_or("it said nothing");
        return Err(Failure::environment(format!(
            "{} does not come up: {last}",
            server.name
        )));
    }
    (server.finish)(data, &ports)?;
    let pids = starting.0.iter().map(Child::id).collect::<Vec<_>>();
    let running = Running::of(&pids, (server.url)(&ports));
    if running.is_some() {
        starting.0.clear();
    }
    running.ok_or_else(|| Failure::environment(format!("{} came up and died", server.name)))
}

/// Processes that are killed unless they all come up.
struct Starting(Vec<Child>);

impl Starting {
    /// Returns whether one of them has already ended.
    fn ended(&mut self) -> bool {
        self.0
            .iter_mut()
            .any(|child| !child.try_wait().is_ok_and(|status| status.is_none()))
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        for child in &mut self.0 {
            // A process that has already ended needs neither.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until `done`. Returns whether that happened in time.
pub(super) fn wait(mut done: impl FnMut() -> bool) -> bool {
    let mut waited = Duration::ZERO;
    while waited < PATIENCE {
        if done() {
            return true;
        }
        thread::sleep(TICK);
        waited += TICK;
    }
    false
}

/// The first `length` bytes that the server at `port` answers to `question`.
pub(super) fn ask(port: u16, question: &[u8], length: usize) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(1))).ok()?;
    stream.write_all(question).ok()?;
    let mut answer = vec![0; length];
    stream.read_exact(&mut answer).ok()?;
    Some(answer)
}

/// Processes that were started here. Its start time tells each from a later one with the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Running {
    pub(super) processes: Vec<Process>,
    pub(super) url: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    /// The start time in ticks since the machine came up, as the kernel counts them.
    pub(super) started: u64,
}

impl Running {
    /// The processes `pids`, if they live.
    pub(super) fn of(pids: &[u32], url: String) -> Option<Self> {
        let process = |pid: &u32| {
            Some(Process {
                pid: *pid,
                started: started(*pid)?,
            })
        };
        let processes = pids.iter().map(process).collect::<Option<_>>()?;
        Some(Self { processes, url })
    }

    /// Returns whether all of them live.
    pub(super) fn is_whole(&self) -> bool {
        self.processes.iter().all(Process::is_alive)
    }

    /// Returns whether any of them lives.
    pub(super) fn is_alive(&self) -> bool {
        self.processes.iter().any(Process::is_alive)
    }

    /// Asks those that live to stop, and waits until they have.
    pub(super) fn stop(&self, server: &Server) -> Result {
        for process in self.processes.iter().filter(|process| process.is_alive()) {
            Command::new("kill")
                .args(["-s", server.stop, "--", &process.pid.to_string()])
                .status()?;
        }
        if wait(|| !self.is_alive()) {
            return Ok(());
        }
        Err(Failure::environment(format!(
            "{} does not stop; its processes were {:?}",
            server.name,
            self.processes.iter().map(|one| one.pid).collect::<Vec<_>>()
        )))
    }

    pub(super) fn to_json(&self) -> String {
        let processes = self.processes.iter();
        let processes = processes.map(|one| json!({ "pid": one.pid, "started": one.started }));
        json!({ "processes": processes.collect::<Vec<_>>(), "url": self.url }).to_string()
    }

    pub(super) fn from_json(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let process = |value: &Value| {
            Some(Process {
                pid: value["pid"].as_u64()?.try_into().ok()?,
                started: value["started"].as_u64()?,
            })
        };
        let processes = value["processes"].as_array()?;
        Some(Self {
            processes: processes.iter().map(process).collect::<Option<_>>()?,
            url: value["url"].as_str()?.to_owned(),
        })
    }
}

impl Process {
    fn is_alive(&self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// The start time of the process `pid`; nothing if it is gone or only waits to be reaped.
fn started(pid: u32) -> Option<u64> {
    start_in(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The start time is the 22nd field; the second one, the program's name, may hold blanks and
/// brackets.
fn start_in(stat: &str) -> Option<u64> {
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let state = fields.next()?;
    (state != "Z" && state != "X")
        .then(|| fields.nth(18)?.parse().ok())
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_known_by_its_start() {
        let me = Running::of(&[std::process::id()], "x".to_owned()).expect("I live");
        assert!(me.is_whole());
        assert_eq!(Running::from_json(&me.to_json()), Some(me.clone()));
        assert_eq!(Running::from_json("{}"), None);
        let mut other = me;
        other.processes.push(Process {
            started: other.processes[0].started + 1,
            ..other.processes[0]
        });
        assert!(!other.is_whole(), "one of the two is gone");
    }

    #[test]
    fn a_zombie_is_not_alive_and_a_name_may_hold_anything() {
        let stat =
            |state| format!("7 (a) b) {state} 1 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 4242 9");
        assert_eq!(start_in(&stat("S")), Some(4242));
        assert_eq!(start_in(&stat("Z")), None);
        assert_eq!(start_in("nonsense"), None);
    }

    /// Shell scripts that run in the data folder.
    fn scripts(prepare: fn(&Path, &Path, &[u16]) -> Result<Vec<Command>>) -> Server {
        Server {
            name: "scripts",
            program: "sh",
            package: "dash",
            find: super::super::on_path,
            variable: "SEMEL_TEST_SCRIPTS_URL",
            ports: 1,
            prepare,
            url: |ports| format!("scripts:{}", ports.len()),
            answers: |_| true,
            finish: |data, _| {
                let written = wait(|| data.join("pid").is_file());
                written
                    .then_some(())
                    .ok_or_else(|| Failure::no("no process wrote its id"))
            },
            stop: "TERM",
        }
    }

    fn sh(data: &Path, script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(data);
        command
    }

    const SERVE: &str = "echo $$ > new; mv new pid; exec sleep 600";

    fn data(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("xtask-server-{}-{name}", std::process::id()))
    }

    #[test]
    fn every_process_of_a_server_is_stopped() {
        let data = data("two");
        let server = scripts(|_, data, _| Ok(vec![sh(data, SERVE), sh(data, "exec sleep 600")]));
        let running = start(&server, Path::new("sh"), &data).expect("it starts");
        assert_eq!(running.url, "scripts:1");
        assert_eq!(running.processes.len(), 2);
        assert!(running.is_whole());
        running.stop(&server).expect("it stops");
        assert!(!running.is_alive());
        fs::remove_dir_all(&data).expect("removed");
        fs::remove_file(data.with_extension("log")).expect("removed");
    }

    #[test]
    fn a_server_that_comes_up_by_half_leaves_nothing_behind() {
        let data = data("half");
        let server = Server {
            answers: |_| false,
            ..scripts(|_, data, _| {
                let late = "until [ -f pid ]; do sleep 0.01; done; echo no such door; exit 1";
                Ok(vec![sh(data, SERVE), sh(data, late)])
            })
        };
        let failure = start(&server, Path::new("sh"), &data).expect_err("one of them ends");
        assert_eq!(
            failure.to_string(),
            "scripts does not come up: no such door"
        );
        let pid = fs::read_to_string(data.join("pid")).expect("the other one was up");
        assert_eq!(started(pid.trim().parse().expect("a number")), None);
        fs::remove_dir_all(&data).expect("removed");
        fs::remove_file(data.with_extension("log")).expect("removed");
    }
}
