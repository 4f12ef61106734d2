//! `semel completions`.

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub struct Completions {
    /// The shell to complete in
    #[arg(value_enum)]
    pub shell: Shell,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// Bash, with or without bash-completion
    Bash,
    /// Zsh
    Zsh,
    /// Fish
    Fish,
}
