//! The failures of an automation, and their exit codes.

use std::fmt;
use std::process::ExitCode;

/// The result of every verb.
pub(crate) type Result<T = ()> = std::result::Result<T, Failure>;

/// A message for people and an exit code for programs: 1 answered "no", 2 usage, 3 environment.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
}

impl Failure {
    /// The check ran, and its answer is "no".
    pub(crate) fn no(message: impl Into<String>) -> Self {
        Self {
            code: 1,
            message: message.into(),
        }
    }

    /// The command line asks for something that does not exist.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self {
            code: 2,
            message: message.into(),
        }
    }

    /// A program, a file or the network is missing.
    pub(crate) fn environment(message: impl Into<String>) -> Self {
        Self {
            code: 3,
            message: message.into(),
        }
    }

    /// The exit code of the process.
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.code)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::environment(error.to_string())
    }
}
