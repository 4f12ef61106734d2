//! `semel completions`.

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell to complete in
    #[arg(value_enum)]
    pub(crate) shell: Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Shell {
    /// Bash, with or without bash-completion
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
}
