//! One process per message: the message on its standard input, the outcome on its standard output.

use std::io;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::time;

use semel_core::Result;
use semel_core::outcome::Gathering;
use semel_engine::effect::{Call, Effect, Verdict};

use super::MOST_OUTCOME_BYTES;
use super::child::{self, LAST_WORDS, Pipes, Running};
use super::excerpt::LastLine;

/// The command to start, and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// The time that a process may take before it is killed with all its helpers.
    pub timeout: Duration,
    /// True if an exit code that refuses speaks for the earlier attempts as well, because the command looks the key up
    /// before it does anything else.
    pub decisive: bool,
}

impl Settings {
    /// Settings for `command`, with a timeout of 30 seconds.
    pub fn new(command: Vec<String>) -> Self {
        Self {
            command,
            timeout: Duration::from_secs(30),
            decisive: false,
        }
    }
}

/// Starts a process for each message.
///
/// # Shape
///
/// Exit 0 → done with its output; 75 → not applied; other codes → dead with the last line of standard error, for the
/// earlier attempts as well only if [`Settings::decisive`] says so; a signal, a timeout → maybe applied; not started →
/// away
#[derive(Debug)]
pub struct ExecEffect {
    settings: Settings,
}

impl ExecEffect {
    /// An effect that starts `settings.command`.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: an empty command
    pub fn new(settings: Settings) -> Result<Self> {
        child::validate(&settings.command)?;
        Ok(Self { settings })
    }

    /// Looks for the program without starting it.
    ///
    /// # Errors
    ///
    /// `Unavailable` with code `target-unavailable`
    pub fn check(&self) -> Result<()> {
        inspect(&self.settings.command[0])
    }
}

/// Looks for a program without starting it.
///
/// # Errors
///
/// `Unavailable` with code `target-unavailable`
pub fn inspect(program: &str) -> Result<()> {
    child::find(program).map(|_| ())
}

impl Effect for ExecEffect {
    /// # Cancel safety
    ///
    /// The process is killed with all its helpers; it may have done its work
    async fn call(&self, call: Call) -> Verdict {
        let Settings {
            command,
            timeout,
            decisive,
        } = &self.settings;
        if call.claim.operation.key.as_bytes().contains(&0) {
            return Verdict::Dead {
                decisive: false,
                error: "the key contains a NUL character, which no environment can carry".into(),
            };
        }
        let running = match child::start(&mut prepare(command, &call)) {
            Ok(running) => running,
            Err(error) => {
                let cause = error.kind();
                let error = child::cannot_start(&command[0], &error);
                // This error is about this message's key; the others are about the program and the system.
                if cause == io::ErrorKind::ArgumentListTooLong {
                    return Verdict::NotApplied {
                        error: error.into(),
                        retry_after: None,
                    };
                }
                return Verdict::Away {
                    error: error.into(),
                };
            }
        };
        let Running {
            mut child,
            mut group,
            pipes,
        } = running;
        let mut output = Output {
            out: Gathering::new(MOST_OUTCOME_BYTES),
            err: LastLine::default(),
        };
        let ended = time::timeout(*timeout, output.listen(&mut child, pipes, &call.payload)).await;
        match ended {
            Ok(Ok(status)) => {
                group.has_ended();
                output.verdict(status, *decisive)
            }
            Ok(Err(error)) => maybe(format!("cannot wait for {}: {error}", command[0])),
            Err(_) => {
                group.kill();
                maybe(format!("no end after {timeout:?}; killed"))
            }
        }
    }

    fn quiet(&self) -> Duration {
        self.settings.timeout
    }
}

fn prepare(command: &[String], call: &Call) -> Command {
    let Call { claim, .. } = call;
    let id = call.idempotency_key();
    let mut prepared = Command::new(&command[0]);
    prepared
        .args(&command[1..])
        .env("SEMEL_KEY", claim.operation.key.as_str())
        .env("SEMEL_OPERATION", claim.operation.scope.operation())
        .env("SEMEL_OPERATION_ID", &id)
        .env("SEMEL_ATTEMPT", claim.attempt.to_string())
        .env("SEMEL_FENCING_TOKEN", claim.token.to_string())
        .env("SEMEL_IDEMPOTENCY_KEY", &id)
        // Those of the worker are about the worker, and not about this message.
        .env_remove("SEMEL_TENANT")
        .env_remove("TRACEPARENT")
        .env_remove("TRACESTATE");
    let tenant = claim.operation.scope.tenant();
    if !tenant.is_empty() {
        prepared.env("SEMEL_TENANT", tenant);
    }
    if let Some(trace) = call.trace() {
        prepared.env("TRACEPARENT", &*trace.parent);
        if let Some(state) = trace.state.as_deref() {
            prepared.env("TRACESTATE", state);
        }
    }
    prepared
}

/// The output of a process so far.
struct Output {
    out: Gathering,
    err: LastLine,
}

impl Output {
    /// Feeds the process and reads its output until it ends.
    async fn listen(
        &mut self,
        child: &mut Child,
        pipes: Pipes,
        message: &[u8],
    ) -> io::Result<ExitStatus> {
        let Self { out, err } = self;
        let mut talk = pin!(async {
            tokio::join!(
                feed(pipes.stdin, message),
                read(pipes.stdout, |bytes| out.push(bytes)),
                read(pipes.stderr, |bytes| err.take_in(bytes))
            );
        });
        let mut talking = true;
        let status = loop {
            tokio::select! {
                biased;
                status = child.wait() => break status,
                () = &mut talk, if talking => talking = false,
            }
        };
        if talking {
            let _ = time::timeout(LAST_WORDS, talk).await;
        }
        status
    }

    fn verdict(self, status: ExitStatus, decisive: bool) -> Verdict {
        let mut error = child::ending(status);
        let said = self.err.shown();
        if !said.is_empty() {
            error.push_str(": ");
            error.push_str(&said);
        }
        match status.code() {
            Some(0) => self.out.into(),
            Some(TRY_AGAIN) => Verdict::NotApplied {
                error: error.into(),
                retry_after: None,
            },
            Some(_) => Verdict::Dead {
                error: error.into(),
                decisive,
            },
            None => maybe(error),
        }
    }
}

/// Writes the message and closes the pipe. A process that does not read the message does not need it.
async fn feed(mut stdin: ChildStdin, message: &[u8]) {
    let _ = stdin.write_all(message).await;
}

async fn read(mut pipe: impl AsyncRead + Unpin, mut take_in: impl FnMut(&[u8])) {
    let mut buffer = vec![0; READ_BYTES];
    while let Ok(count @ 1..) = pipe.read(&mut buffer).await {
        take_in(&buffer[..count]);
    }
}

fn maybe(error: String) -> Verdict {
    Verdict::MaybeApplied {
        error: error.into(),
    }
}

/// The exit code by which a command asks for another attempt: `EX_TEMPFAIL` of `sysexits.h`.
const TRY_AGAIN: i32 = 75;
const READ_BYTES: usize = 16 << 10;
