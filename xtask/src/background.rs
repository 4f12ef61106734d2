//! A command that runs beside others at the lowest priority, in the time that they leave, and is waited for
//! in the end.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::failure::{Failure, Result};
use crate::process;

/// The running command; dropping this ends it.
pub(crate) struct Background {
    child: Child,
    log: PathBuf,
}

impl Background {
    /// Starts `command`, with its output in the file `log`.
    pub(crate) fn start(command: &Command, log: PathBuf) -> Result<Self> {
        if let Some(folder) = log.parent() {
            fs::create_dir_all(folder)?;
        }
        let file = File::create(&log)?;
        let child = process::by("nice", &["-n", "19"], command)
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .spawn()
            .map_err(|error| Failure::environment(format!("cannot start `nice`: {error}")))?;
        Ok(Self { child, log })
    }

    /// Waits for its end; returns its output.
    pub(crate) fn wait(mut self) -> Result<(ExitStatus, String)> {
        let status = self.child.wait()?;
        let said = fs::read(&self.log)?;
        Ok((status, String::from_utf8_lossy(&said).into_owned()))
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // For a process that has ended, both return an error and do nothing.
        let ended = self.child.kill().and_then(|()| self.child.wait());
        if let Err(error) = ended {
            eprintln!("xtask: cannot stop what runs beside the tests: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn start(script: &str, name: &str) -> Background {
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir("/");
        let log = format!("xtask-background-{}/{name}", std::process::id());
        Background::start(&command, std::env::temp_dir().join(log)).expect("sh runs")
    }

    #[test]
    fn it_runs_at_the_lowest_priority_and_what_it_said_is_kept() {
        let background = start("nice; pwd; echo why >&2; exit 7", "said");
        let log = background.log.clone();
        let (status, said) = background.wait().expect("it ends");
        assert_eq!((status.code(), said.as_str()), (Some(7), "19\n/\nwhy\n"));
        fs::remove_file(log).expect("the log");
    }

    #[test]
    fn it_ends_with_whoever_wanted_it() {
        let background = start("exec sleep 600", "ends");
        let (log, id) = (background.log.clone(), background.child.id());
        drop(background);
        assert!(!PathBuf::from(format!("/proc/{id}")).exists());
        fs::remove_file(log).expect("the log");
    }
}
