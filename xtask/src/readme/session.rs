//! Runs the commands of a block in one shell, and compares the output of each.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use crate::failure::{Failure, Result};

use super::block::{Block, Step};
use super::expected;

/// The folder and the environment in which the blocks of one page run.
pub(crate) struct Session {
    folder: PathBuf,
    path: std::ffi::OsString,
    variables: Vec<(&'static str, OsString)>,
    patience: Duration,
}

/// The time that a block may take.
const PATIENCE: Duration = Duration::from_secs(180);
/// Definitions for the shell: pages say how to run Semel and the library's examples from a
/// checkout, but blocks run in a copy that is no checkout, and everything is built already.
const PRELUDE: &str = r#"cargo() {
  if [ "${*:1:6}" = "run --release --quiet --package semel-cli --" ]; then
    semel "${@:7}"
  elif [ "${*:1:6}" = "run --release --quiet --package semel --example" ]; then
    "$SEMEL_EXAMPLES/$7" "${@:8}"
  else
    command cargo "$@"
  fi
}
"#;
const TICK: Duration = Duration::from_millis(20);

impl Session {
    /// A session whose commands run in `folder` and find the programs of `bin` first.
    pub(crate) fn new(folder: &Path, bin: &Path) -> Self {
        let inherited = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(bin.to_owned()).chain(std::env::split_paths(&inherited));
        let path = std::env::join_paths(folders).unwrap_or(inherited);
        Self {
            folder: folder.to_owned(),
            path,
            variables: Vec::new(),
            patience: PATIENCE,
        }
    }

    /// Sets an environment variable.
    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<OsString>) {
        self.variables.push((name, value.into()));
    }

    /// Runs a block; returns the difference from the page, if there is one.
    pub(crate) fn run(&self, block: &Block) -> Result<Option<String>> {
        // A text that no command prints by chance.
        let mark = format!("-- {} {} --", std::process::id(), block.line);
        let output = self.shell(&script(&block.steps, &mark))?;
        let mut rest = output.as_str();
        for (index, step) in block.steps.iter().enumerate() {
            let Some((text, after)) = rest.split_once(&format!("\n{mark} ")) else {
                return Ok(Some(format!("`{}` did not end:\n{rest}", step.command)));
            };
            let (code, after) = after.split_once('\n').unwrap_or((after, ""));
            rest = after;
            if let Some(diff) = expected::differ(&step.expected, &text.lines().collect::<Vec<_>>())
            {
                return Ok(Some(format!(
                    "`{}` prints something else:\n{diff}",
                    step.command
                )));
            }
            let asked = block
                .steps
                .get(index + 1)
                .is_some_and(|next| next.command == "echo $?");
            if code != "0" && !asked {
                return Ok(Some(format!(
                    "`{}` exits with {code}, unseen by the reader",
                    step.command
                )));
            }
        }
        Ok(None)
    }

    /// The output of `script`. The script writes to a file, so that a program that it leaves in the
    /// background holds nothing up; such programs are ended afterwards.
    fn shell(&self, script: &str) -> Result<String> {
        let log = self.folder.with_extension("log");
        let file = File::create(&log)?;
        let mut bash = Command::new("bash");
        bash.args(["--noprofile", "--norc", "-c", script])
            .current_dir(&self.folder)
            .env("PATH", &self.path)
            .env("HOME", &self.folder)
            .env("LC_ALL", "C.UTF-8")
            .envs(
                self.variables
                    .iter()
                    .map(|(name, value)| (OsStr::new(name), value)),
            )
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0);
        let mut child = bash.spawn()?;
        let group = format!("-{}", child.id());
        let mut waited = Duration::ZERO;
        let ended = loop {
            if child.try_wait()?.is_some() {
                break true;
            }
            if waited >= self.patience {
                break false;
            }
            thread::sleep(TICK);
            waited += TICK;
        };
        // Fails when the group has no process left, which is just as good.
        let _nobody_left = Command::new("kill")
            .args(["-KILL", "--", &group])
            .stderr(Stdio::null())
            .status()?;
        if !ended {
            child.wait()?;
        }
        let output = fs::read(&log)?;
        fs::remove_file(&log)?;
        let output = String::from_utf8_lossy(&output).into_owned();
        if ended {
            return Ok(output);
        }
        let seconds = self.patience.as_secs();
        Err(Failure::no(format!(
            "a block ran for more than {seconds} s; so far it printed\n{output}"
        )))
    }
}

/// Every command, followed by the mark and its exit code; `$?` stays what it was.
fn script(steps: &[Step], mark: &str) -> String {
    let after = format!("\n__code=$?; printf '\\n{mark} %d\\n' \"$__code\"; (exit \"$__code\")\n");
    let steps = steps
        .iter()
        .flat_map(|step| [step.command.as_str(), after.as_str()]);
    std::iter::once(PRELUDE).chain(steps).collect()
}

#[cfg(test)]
mod tests {
    use super::super::block;
    use super::*;

    fn run(name: &str, inside: &str) -> Result<Option<String>> {
        let folder =
            std::env::temp_dir().join(format!("xtask-session-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder)?;
        let page = format!("<!-- check -->\n```console\n{inside}\n```\n");
        let block = block::read(&page).expect("well formed").remove(0);
        let mut session = Session::new(&folder, Path::new("/nowhere"));
        session.patience = Duration::from_secs(3);
        let result = session.run(&block);
        fs::remove_dir_all(&folder)?;
        result
    }

    #[test]
    fn a_block_is_one_session() {
        let inside = "$ mkdir a; cd a; x=1\n$ printf 'b\\nc'; echo d >&2\nb\ncd\n$ echo $x\n1\n\
            $ cat <<END\n> e\n> END\ne\n$ false\n$ echo $?\n1";
        assert_eq!(run("one", inside).expect("it ran"), None);
    }

    #[test]
    fn other_output_and_hidden_failures_are_found() {
        let fault = |name, inside| run(name, inside).expect("it ran").unwrap_or_default();
        assert!(fault("output", "$ echo a\nb").contains("    - b\n    + a"));
        assert!(fault("code", "$ echo a; false\na").contains("exits with 1"));
        assert!(fault("missing", "$ no-such-program-here\n...").contains("exits with 127"));
        assert!(fault("exit", "$ exit 0\n$ echo a\na").contains("did not end"));
    }

    #[test]
    fn a_program_left_in_the_background_is_ended_and_a_hanging_block_fails() {
        assert_eq!(
            run("background", "$ sleep 60 &\n$ echo a\na").expect("it ran"),
            None
        );
        assert!(run("hanging", "$ sleep 60").is_err());
    }
}
