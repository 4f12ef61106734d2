//! The life of one child: its requests, its answers, and its end.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use rustix::event::{PollFd, PollFlags, Timespec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{self, Instant};

use semel_core::Certainty;
use semel_core::json::Tape;
use semel_engine::effect::Verdict;

use super::super::MOST_OUTCOME_BYTES;
use super::super::child::{self, LAST_WORDS, Pipes, Running};
use super::super::excerpt::LastLines;
use super::liveness::Liveness;
use super::{Request, frame};

/// The reason why a session is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The effect is being closed.
    Closed,
    /// The child ended or stopped talking.
    Gone,
    /// The child broke the protocol in this way.
    Fault(String),
    /// The child sent this, which is no answer.
    Nonsense(String),
}

/// The state of one child.
#[derive(Debug)]
pub(super) struct Session<'p> {
    program: &'p str,
    liveness: &'p Liveness,
    in_flight: HashMap<u64, InFlight>,
    /// Lines that are not written yet, the first of them perhaps half.
    out: BytesMut,
    queued_bytes: u64,
    written_bytes: u64,
    /// Bytes from the child that are no whole line yet.
    input: BytesMut,
    /// The number of them that have been searched for a terminator.
    searched: usize,
    tape: Tape,
    has_answered: bool,
    /// The reason why the child is taken for broken, once it has ended so.
    broken: Option<Box<str>>,
    /// The number of requests in flight from which on those that were given up are counted.
    count_at: usize,
}

/// A request that the child has, or will have once it is written.
#[derive(Debug)]
struct InFlight {
    answer: oneshot::Sender<Verdict>,
    /// The number of bytes to be written until the child can know all of it.
    end: u64,
}

impl<'p> Session<'p> {
    pub(super) fn new(program: &'p str, liveness: &'p Liveness) -> Self {
        Self {
            program,
            liveness,
            in_flight: HashMap::new(),
            out: BytesMut::new(),
            queued_bytes: 0,
            written_bytes: 0,
            input: BytesMut::new(),
            searched: 0,
            tape: Tape::default(),
            has_answered: false,
            broken: None,
            count_at: MOST_GIVEN_UP,
        }
    }

    pub(super) fn has_answered(&self) -> bool {
        self.has_answered
    }

    /// The reason why the child is taken for broken: it ended before its first answer, or its
    /// answer was none.
    pub(super) fn broken(&self) -> Option<Box<str>> {
        self.broken.clone()
    }

    /// Hands requests to the child until it ends or the effect is closed. Answers all of them; the
    /// requests left in `waiting` and `queue` are for the next child.
    pub(super) async fn run(
        &mut self,
        running: Running,
        waiting: &mut Vec<Request>,
        queue: &mut mpsc::Receiver<Request>,
        closed: &mut watch::Receiver<bool>,
    ) -> End {
        let Running {
            mut child,
            mut group,
            pipes,
        } = running;
        let Pipes {
            mut stdin,
            mut stdout,
            stderr,
        } = pipes;
        let mut log = JoinSet::new();
        let said = Said::default();
        log.spawn(pass_on(self.program, stderr, said.clone()));
        self.enqueue(waiting);
        let mut last_words = CLOSE_TIMEOUT;
        let mut watch = time::interval(WATCH_EVERY);
        let mut end = loop {
            tokio::select! {
                biased;
                read = stdout.read_buf(&mut self.input) => match read {
                    Ok(1..) => if let Err(fault) = self.take_answers() { break End::Nonsense(fault) },
                    Ok(0) | Err(_) => break End::Gone,
                },
                count = queue.recv_many(waiting, MOST_AT_ONCE),
                    if self.out.len() < MOST_UNWRITTEN_BYTES =>
                {
                    if count == 0 { break End::Closed }
                    self.enqueue(waiting);
                    if let Err(fault) = self.count_given_up() { break End::Fault(fault) }
                }
                written = stdin.write(&self.out), if !self.out.is_empty() => match written {
                    Ok(count @ 1..) => {
                        self.out.advance(count);
                        self.written_bytes += count as u64;
                    }
                    Ok(0) | Err(_) => break End::Gone,
                },
                _ = closed.wait_for(|closed| *closed) => break End::Closed,
                _ = watch.tick(), if !self.out.is_empty() => {
                    if self.is_given_up() {
                        break End::Fault("did not read its requests in time".into());
                    }
                }
                _ = child.wait() => {
                    last_words = LAST_WORDS;
                    break End::Gone;
                }
            }
        };
        // A child that is to end by itself needs to see the end of its input.
        let stdin = (end != End::Closed).then_some(stdin);
        if end == End::Closed && self.is_given_up() {
            last_words = Duration::ZERO;
        }
        let since = Instant::now();
        if !matches!(end, End::Fault(_) | End::Nonsense(_))
            && let Err(fault) = self.listen(&mut stdout, last_words).await
        {
            end = End::Nonsense(fault);
        }
        let patience = match end {
            End::Closed => last_words.saturating_sub(since.elapsed()),
            End::Gone => LAST_WORDS,
            End::Fault(_) | End::Nonsense(_) => Duration::ZERO,
        };
        let ended = time::timeout(patience, child.wait()).await;
        let how = match (&end, ended) {
            (End::Fault(fault) | End::Nonsense(fault), _) => format!("the child {fault}; killed"),
            (_, Ok(Ok(status))) => format!("the child is gone: {}", child::ending(status)),
            (End::Closed, _) => "the child did not end in time; killed".into(),
            (End::Gone, _) => "the child closed its standard input or output; killed".into(),
        };
        if child.id().is_some() {
            group.kill();
            let _ = time::timeout(LAST_WORDS, child.wait()).await;
        }
        group.has_ended();
        self.written_bytes -= stdin.as_ref().map_or(0, never_read).min(self.written_bytes);
        let _ = time::timeout(LAST_WORDS, log.join_next()).await;
        let is_broken = match end {
            End::Nonsense(_) => true,
            End::Gone | End::Fault(_) => !self.has_answered,
            End::Closed => false,
        };
        if is_broken {
            self.broken = Some(said.after(&how));
        }
        self.give_up(&how);
        end
    }

    fn enqueue(&mut self, waiting: &mut Vec<Request>) {
        for request in waiting.drain(..) {
            if request.take() {
                self.queued_bytes += request.line.len() as u64;
                self.out.extend_from_slice(&request.line);
                // Counted without the terminator: at the end of input a child may take it for a
                // line.
                let in_flight = InFlight {
                    answer: request.answer,
                    end: self.queued_bytes - 1,
                };
                self.in_flight.insert(request.id, in_flight);
            }
        }
    }

    /// Answers the requests whose answers are complete.
    fn take_answers(&mut self) -> Result<(), String> {
        while let Some(end) = memchr::memchr(b'\n', &self.input[self.searched..]) {
            let line = self.input.split_to(self.searched + end + 1);
            self.searched = 0;
            let line = line.strip_suffix(b"\n").unwrap_or(&line);
            check_length(line.len())?;
            let answer = frame::answer(line, &mut self.tape)
                .map_err(|fault| format!("sent an answer {fault}"))?;
            let Some(in_flight) = self.in_flight.remove(&answer.id) else {
                return Err("sent an answer to a request that it does not have".into());
            };
            if self.written_bytes < in_flight.end {
                return Err("sent an answer to a request that it cannot know yet".into());
            }
            self.has_answered = true;
            self.liveness.answered(answer.id, Instant::now());
            // A late answer has no receiver.
            let _ = in_flight.answer.send(answer.verdict);
        }
        self.searched = self.input.len();
        check_length(self.searched)
    }

    /// Takes the answers that still come until the child closes its output.
    async fn listen(&mut self, stdout: &mut ChildStdout, patience: Duration) -> Result<(), String> {
        let all = async {
            while let Ok(1..) = stdout.read_buf(&mut self.input).await {
                self.take_answers()?;
            }
            Ok(())
        };
        time::timeout(patience, all).await.unwrap_or(Ok(()))
    }

    /// Returns whether it has requests, and all of them were given up.
    fn is_given_up(&self) -> bool {
        let mut in_flight = self.in_flight.values();
        !self.in_flight.is_empty() && in_flight.all(|in_flight| in_flight.answer.is_closed())
    }

    /// Counts the requests that were given up, which take up memory until they are answered.
    fn count_given_up(&mut self) -> Result<(), String> {
        if self.in_flight.len() < self.count_at {
            return Ok(());
        }
        let given_up = self
            .in_flight
            .values()
            .filter(|in_flight| in_flight.answer.is_closed())
            .count();
        if given_up >= MOST_GIVEN_UP {
            return Err(format!("left {given_up} requests without an answer"));
        }
        self.count_at = self.in_flight.len() + MOST_GIVEN_UP / 2;
        Ok(())
    }

    /// Answers all callers that still wait that no answer will come, and why. `written_bytes`
    /// counts the bytes that the child may have read.
    fn give_up(&mut self, why: &str) {
        for (_, InFlight { answer, end }) in self.in_flight.drain() {
            let is_unread = self.written_bytes < end;
            let error = why.into();
            let _ = answer.send(match &self.broken {
                Some(error) => Verdict::Broken {
                    error: error.clone(),
                    certainty: if is_unread {
                        Certainty::NotApplied
                    } else {
                        Certainty::MaybeApplied
                    },
                },
                None if is_unread => Verdict::NotApplied {
                    error,
                    retry_after: None,
                },
                None => Verdict::MaybeApplied { error },
            });
        }
    }
}

/// The number of written bytes that the child has not read and can no longer read.
fn never_read(stdin: &ChildStdin) -> u64 {
    let mut ends = [PollFd::new(stdin, PollFlags::OUT)];
    let has_reader = rustix::event::poll(&mut ends, Some(&Timespec::default())).is_err()
        || !ends[0].revents().contains(PollFlags::ERR);
    if has_reader {
        return 0;
    }
    rustix::io::ioctl_fionread(stdin).unwrap_or(0)
}

fn check_length(len: usize) -> Result<(), String> {
    if len > MOST_ANSWER_BYTES {
        return Err(format!("sent an answer of over {MOST_ANSWER_BYTES} bytes"));
    }
    Ok(())
}

/// Copies the child's standard error, line by line with its name before each.
fn pass_on(program: &str, mut stderr: ChildStderr, said: Said) -> impl Future<Output = ()> + use<> {
    let name = program.rsplit('/').next().unwrap_or(program);
    let mut lines = Prefixed {
        prefix: format!("{name}: "),
        within_line: false,
    };
    async move {
        let mut buffer = vec![0; LOG_BYTES];
        while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
            said.take_in(&buffer[..count]);
            let _ = io::stderr().write_all(&lines.of(&buffer[..count]));
        }
    }
}

/// The last lines of standard error, shared with the task that copies them.
#[derive(Clone, Default)]
struct Said(Arc<Mutex<LastLines>>);

impl Said {
    fn take_in(&self, bytes: &[u8]) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.take_in(bytes);
    }

    /// `what`, followed by the lines, if there are any.
    fn after(&self, what: &str) -> Box<str> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let said = lines.shown();
        if said.is_empty() {
            return what.into();
        }
        format!("{what}; it said: {said}").into()
    }
}

/// Puts a prefix before every line of a stream that comes in pieces.
struct Prefixed {
    prefix: String,
    within_line: bool,
}

impl Prefixed {
    fn of(&mut self, piece: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(piece.len() + self.prefix.len());
        for line in piece.split_inclusive(|byte| *byte == b'\n') {
            if !self.within_line {
                out.extend_from_slice(self.prefix.as_bytes());
            }
            out.extend_from_slice(line);
            self.within_line = !line.ends_with(b"\n");
        }
        out
    }
}

/// The longest line of an answer: the longest outcome and the text around it.
const MOST_ANSWER_BYTES: usize = MOST_OUTCOME_BYTES + (64 << 10);
/// The time that the child may take to end once its standard input is closed.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval at which to check whether a child still reads.
const WATCH_EVERY: Duration = Duration::from_secs(1);
const MOST_AT_ONCE: usize = 256;
/// The most unwritten bytes: with more, the child is not keeping up, and callers wait.
const MOST_UNWRITTEN_BYTES: usize = 1 << 20;
/// The most requests that may stay unanswered past their timeout; a child with more is stuck.
const MOST_GIVEN_UP: usize = 1_000;
const LOG_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_on_standard_error_has_its_prefix() {
        let text = b"one\n\ntwo\nhalf";
        for size in 1..=text.len() {
            let mut lines = Prefixed {
                prefix: "p: ".into(),
                within_line: false,
            };
            let out: Vec<u8> = text
                .chunks(size)
                .flat_map(|piece| lines.of(piece))
                .collect();
            assert_eq!(out, b"p: one\np: \np: two\np: half");
        }
    }
}
