//! The thread that reads ahead, so that a slow pipe blocks no task.
//!
//! A thread of its own and not one of the runtime's: a read of a silent pipe cannot be broken off,
//! and the runtime would wait for it at shutdown. It ends with its source, at the next read.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::thread;

use semel_core::{Code, Error, ErrorKind, Result};
use tokio::sync::{mpsc, oneshot};

use crate::Options;
use crate::lines::{Line, Splitter};

/// Result of a read of the thread.
#[derive(Debug)]
pub(crate) enum Block {
    /// Lines, in order; at least one.
    Lines(Vec<Line>),
    /// Nothing more, after this many bytes.
    End(u64),
}

/// The receiving end, which hands out the blocks.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) blocks: mpsc::Receiver<Result<Block>>,
    /// Length of a regular file.
    pub(crate) total_bytes: Option<u64>,
}

impl Reader {
    /// Starts to read the file that `open` opens.
    ///
    /// # Errors
    ///
    /// `Unavailable` with code `source-unavailable`; its message calls the source `name`
    pub(crate) async fn start(
        name: Box<str>,
        options: Options,
        open: impl FnOnce() -> io::Result<File> + Send + 'static,
    ) -> Result<Self> {
        let (opened, answer) = oneshot::channel();
        let (sender, blocks) = mpsc::channel(BLOCKS_AHEAD);
        let run = move || {
            let file = match open().and_then(regular_length) {
                Ok((file, total_bytes)) => {
                    let _ = opened.send(Ok(total_bytes));
                    file
                }
                Err(error) => {
                    let _ = opened.send(Err(unavailable("open", &name, error)));
                    return;
                }
            };
            read(file, &name, options, &sender);
        };
        thread::Builder::new()
            .name("semel-source".into())
            .spawn(run)
            .map_err(|error| unavailable("start", "a thread to read the source", error))?;
        let total_bytes = answer.await.unwrap_or_else(|_| Err(stopped()))?;
        Ok(Self {
            blocks,
            total_bytes,
        })
    }
}

/// Opens `path`, which must not be a folder: that would be noticed only at the first read.
pub(crate) fn open_file(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if file.metadata()?.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(file)
}

/// Error for a thread that is gone, which only a panic in it can bring about.
pub(crate) fn stopped() -> Error {
    Error::new(
        ErrorKind::Internal,
        "the thread that reads the source has stopped",
    )
    .not_applied()
}

fn read(mut file: File, name: &str, options: Options, sender: &mpsc::Sender<Result<Block>>) {
    let mut splitter = Splitter::new(options);
    let mut lines = Vec::new();
    loop {
        let block = match file.read(splitter.space()) {
            Ok(0) => {
                splitter.finish(&mut lines);
                if !lines.is_empty() && sender.blocking_send(Ok(Block::Lines(lines))).is_err() {
                    return;
                }
                let _ = sender.blocking_send(Ok(Block::End(splitter.taken_bytes())));
                return;
            }
            Ok(count) => {
                splitter.filled(count, &mut lines);
                if lines.is_empty() {
                    continue;
                }
                let next = Vec::with_capacity(lines.len());
                Ok(Block::Lines(std::mem::replace(&mut lines, next)))
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(unavailable("read", name, error)),
        };
        let failed = block.is_err();
        if sender.blocking_send(block).is_err() || failed {
            return;
        }
    }
}

fn regular_length(file: File) -> io::Result<(File, Option<u64>)> {
    let metadata = file.metadata()?;
    let length = metadata.is_file().then_some(metadata.len());
    Ok((file, length))
}

fn unavailable(verb: &str, name: &str, error: io::Error) -> Error {
    let cause = match error.kind() {
        io::ErrorKind::NotFound => "there is no such file".into(),
        io::ErrorKind::PermissionDenied => "permission denied".into(),
        io::ErrorKind::IsADirectory => "it is a folder, not a file".into(),
        _ => error.to_string(),
    };
    Error::new(
        ErrorKind::Unavailable,
        format!("cannot {verb} {name}: {cause}"),
    )
    .with_code(Code::SourceUnavailable)
    .not_applied()
    .with_source(error)
}

/// Blocks that the thread reads ahead before it waits until more are wanted.
const BLOCKS_AHEAD: usize = 2;
