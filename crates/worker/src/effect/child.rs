//! Child processes, each with a process group of its own, so that none leaves helpers behind.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use rustix::fs::Access;
use rustix::process::{Pid, Signal};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

use semel_core::{Code, Error, ErrorKind, Result};

use super::excerpt::one_line;

/// A running child.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) child: Child,
    pub(super) group: Group,
    pub(super) pipes: Pipes,
}

/// Semel's ends of a child's pipes. Dropping a pipe closes it.
#[derive(Debug)]
pub(super) struct Pipes {
    pub(super) stdin: ChildStdin,
    pub(super) stdout: ChildStdout,
    pub(super) stderr: ChildStderr,
}

/// Starts `command` at the head of a new process group, with the environment of the worker but for its token, which
/// would let the command act as the operator who started the worker.
pub(super) fn start(command: &mut Command) -> io::Result<Running> {
    command
        .env_remove("SEMEL_TOKEN")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = command.spawn()?;
    let group = Group {
        leader: child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)),
    };
    match (child.stdin.take(), child.stdout.take(), child.stderr.take()) {
        (Some(stdin), Some(stdout), Some(stderr)) => Ok(Running {
            child,
            group,
            pipes: Pipes {
                stdin,
                stdout,
                stderr,
            },
        }),
        _ => Err(io::Error::other("the child came without its pipes")),
    }
}

/// The process group of a child. If it is dropped while the child may run, it kills the whole group.
#[derive(Debug)]
pub(super) struct Group {
    leader: Option<Pid>,
}

impl Group {
    /// Kills every process of the group.
    pub(super) fn kill(&mut self) {
        if let Some(leader) = self.leader.take() {
            let _ = rustix::process::kill_process_group(leader, Signal::KILL);
        }
    }

    /// Notes that the child was waited for: from now on its number may belong to another process.
    pub(super) fn has_ended(&mut self) {
        self.leader = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The reason why a program could not be started, in the words of [`find`] if the program is at
/// fault.
pub(super) fn cannot_start(program: &str, error: &io::Error) -> String {
    let cause = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied => match find(program) {
            Err(fault) => return fault.to_string(),
            // The program is there, but the interpreter that its first line names is not.
            Ok(_) if error.kind() == io::ErrorKind::NotFound => {
                "there is no such interpreter".into()
            }
            Ok(_) => "permission denied".into(),
        },
        _ => one_line(error.to_string().as_bytes()),
    };
    format!("cannot start {program}: {cause}")
}

/// The way in which a child ended, in a few words.
pub(super) fn ending(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".into(),
    }
}

/// Refuses a command that is empty or contains a NUL character.
///
/// # Errors
///
/// `InvalidConfig`
pub(super) fn validate(command: &[String]) -> Result<()> {
    let fault = if command.first().is_none_or(String::is_empty) {
        "command: it is empty; write the program and its arguments as a list"
    } else if command.iter().any(|part| part.contains('\0')) {
        "command: it contains a NUL character; leave it out"
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::InvalidConfig, fault))
}

/// Looks for the program as the operating system will when it starts it.
///
/// # Errors
///
/// `Unavailable` with code `target-unavailable`
pub(super) fn find(program: &str) -> Result<PathBuf> {
    let fault = if program.contains('/') {
        let path = Path::new(program);
        if is_executable(path) {
            return Ok(path.to_owned());
        }
        if path.exists() {
            "it is not an executable file"
        } else {
            "there is no such file"
        }
    } else {
        let folders = env::var_os("PATH").unwrap_or_else(|| OsStr::new("/bin:/usr/bin").into());
        let found = env::split_paths(&folders).map(|folder| folder.join(program));
        if let Some(path) = found.into_iter().find(|path| is_executable(path)) {
            return Ok(path);
        }
        "it is in no folder of PATH"
    };
    Err(Error::new(
        ErrorKind::Unavailable,
        format!("cannot start {program}: {fault}"),
    )
    .with_code(Code::TargetUnavailable)
    .not_applied())
}

fn is_executable(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

/// The time to go on reading after the end: the output is in the pipes by then, and a helper that
/// lives on may keep them open.
pub(super) const LAST_WORDS: std::time::Duration = std::time::Duration::from_millis(200);
