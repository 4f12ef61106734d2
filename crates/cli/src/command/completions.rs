//! `semel completions SHELL`: prints a shell's script that completes our commands, from the same source as
//! `--help`.

use clap::CommandFactory;
use clap_complete::Shell as Generator;
use semel_core::Result;

use crate::Exit;
use crate::args::{Arguments, Completions, Shell};
use crate::output::Stream;

/// Prints the script.
pub(crate) fn completions(arguments: &Completions) -> Result<Exit> {
    let mut command = Arguments::command();
    let mut script = Vec::new();
    let generator = match arguments.shell {
        Shell::Bash => Generator::Bash,
        Shell::Zsh => Generator::Zsh,
        Shell::Fish => Generator::Fish,
    };
    clap_complete::generate(generator, &mut command, "semel", &mut script);
    let mut stdout = Stream::stdout();
    if stdout.write(&script)?.is_continue() {
        let _ = stdout.flush()?;
    }
    Ok(Exit::Done)
}
