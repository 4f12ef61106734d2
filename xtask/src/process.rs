//! Child processes: streamed, captured or logged to a file, and never left half read.

use std::fs;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use crate::failure::{Failure, Result};

/// Runs `command` with its stdout and stderr as one stream, in the order in which they were
/// written; every line is printed at once and passed to `each`.
pub(crate) fn stream(command: Command, mut each: impl FnMut(&str)) -> Result<ExitStatus> {
    stream_some(command, |line| {
        each(line);
        true
    })
}

/// The same, but prints only the lines for which `each` returns true.
pub(crate) fn stream_some(
    mut command: Command,
    mut each: impl FnMut(&str) -> bool,
) -> Result<ExitStatus> {
    if io::stdout().is_terminal() {
        command.env("CARGO_TERM_COLOR", "always");
    }
    lines(command, |line| {
        let text = String::from_utf8_lossy(line);
        if each(text.trim_end()) {
            // Not past the test harness: the stream of a test is not the output of the test run.
            print!("{text}");
            io::stdout().flush()?;
        }
        Ok(())
    })
}

/// Runs `command` and returns its status and all of its output, both streams as one.
pub(crate) fn gather(command: Command) -> Result<(ExitStatus, String)> {
    let mut said = Vec::new();
    let status = lines(command, |line| {
        said.extend_from_slice(line);
        Ok(())
    })?;
    Ok((status, String::from_utf8_lossy(&said).into_owned()))
}

/// Runs `command` and passes on each line of its stdout and stderr as it comes.
fn lines(
    mut command: Command,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<ExitStatus> {
    let (reader, writer) = io::pipe()?;
    command
        .stdin(Stdio::null())
        .stdout(writer.try_clone()?)
        .stderr(writer);
    let mut child = command
        .spawn()
        .map_err(|error| cannot_start(&command, &error))?;
    // The command holds the writing end; while it lives, the reader would never see the end.
    drop(command);
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        each(&line)?;
        line.clear();
    }
    Ok(child.wait()?)
}

/// Runs `command` and returns its stdout; a failure carries its stderr.
pub(crate) fn capture(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| cannot_start(command, &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    Err(Failure::environment(format!(
        "`{}` failed ({}): {}",
        shown(command),
        output.status,
        stderr.trim()
    )))
}

/// Runs `command` with all its output in the file `log`: package managers name hosts and paths
/// that belong in no report.
pub(crate) fn log(command: &mut Command, log: &Path) -> Result {
    if let Some(folder) = log.parent() {
        fs::create_dir_all(folder)?;
    }
    let file = fs::File::create(log)?;
    let status = command
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .status()
        .map_err(|error| cannot_start(command, &error))?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::environment(format!(
        "`{}` failed ({status}); its output is in {}",
        shown(command),
        log.display()
    )))
}

/// `command`, started by another program: `nice`, `timeout`.
pub(crate) fn by(program: &str, args: &[&str], command: &Command) -> Command {
    let mut by = Command::new(program);
    by.args(args)
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => by.env(name, value),
            None => by.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        by.current_dir(folder);
    }
    by
}

/// Returns whether a program of this name is on the path.
pub(crate) fn on_path(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
    })
}

/// The command as a person would have typed it.
fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy()];
    words.extend(command.get_args().map(|arg| arg.to_string_lossy()));
    words.join(" ")
}

fn cannot_start(command: &Command, error: &io::Error) -> Failure {
    Failure::environment(format!("cannot start `{}`: {error}", shown(command)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn both_streams_arrive_in_order_and_whole() {
        let mut lines = Vec::new();
        let script = "echo one; echo two >&2; echo three; printf four; exit 7";
        let status = stream(sh(script), |line| lines.push(line.to_owned())).expect("sh runs");
        assert_eq!(lines, ["one", "two", "three", "four"]);
        assert_eq!(status.code(), Some(7));
    }

    #[test]
    fn what_is_gathered_is_whole_and_in_order() {
        let (status, said) = gather(sh("echo one; echo two >&2; exit 7")).expect("sh runs");
        assert_eq!((status.code(), said.as_str()), (Some(7), "one\ntwo\n"));
        assert!(gather(Command::new("no-such-program-here")).is_err());
    }

    #[test]
    fn a_failed_capture_carries_what_the_program_said() {
        let failure = capture(&mut sh("echo because >&2; exit 1")).expect_err("it exits with 1");
        assert!(failure.to_string().contains("because"));
        assert!(capture(&mut Command::new("no-such-program-here")).is_err());
    }

    #[test]
    fn what_starts_a_command_hands_on_all_that_it_is_told() {
        let mut command = sh("pwd; echo $WORD; exec sleep 600");
        command.current_dir("/").env("WORD", "said");
        let mut lines = Vec::new();
        let limited = by("timeout", &["0.5"], &command);
        let status = stream(limited, |line| lines.push(line.to_owned())).expect("it ends");
        assert_eq!(
            (lines.join(" ").as_str(), status.code()),
            ("/ said", Some(124))
        );
    }

    #[test]
    fn a_program_is_found_on_the_path_or_not() {
        assert!(on_path("sh"));
        assert!(!on_path("no-such-program-here"));
    }
}
