//! The two sources: hand out lines, and keep them to be handed out again.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;
use std::vec;

use semel_core::port::source::{Acknowledgement, Delivery, DeliveryId, Fetched, Progress, Source};
use semel_core::{ByteString, Error, Result};
use tokio::sync::mpsc::error::TryRecvError;

use crate::Options;
use crate::lines::Line;
use crate::reader::{self, Block, Reader};

/// A file, from its start to the end that it has when that is reached.
#[derive(Debug)]
pub struct FileSource(LineSource);

impl FileSource {
    /// Opens `path`. For a named pipe, waits until another process opens it to write.
    ///
    /// # Errors
    ///
    /// `Unavailable` with code `source-unavailable`: missing, a folder, no permission
    ///
    /// # Cancel safety
    ///
    /// Safe
    pub async fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = path.as_ref().to_owned();
        let name = path.to_string_lossy();
        let prefix = format!("{name}:");
        let reader = Reader::start(name.into(), options, move || reader::open_file(&path));
        Ok(Self(LineSource::new(prefix, reader.await?)))
    }
}

/// Standard input, up to its end. There is one, so it is to be opened once.
#[derive(Debug)]
pub struct StdinSource(LineSource);

impl StdinSource {
    /// Begins to read standard input.
    ///
    /// # Errors
    ///
    /// `Unavailable` with code `source-unavailable`: it is closed
    ///
    /// # Cancel safety
    ///
    /// Safe, but the lines read ahead are lost
    pub async fn open(options: Options) -> Result<Self> {
        // Another handle on the same stream: the one of `std` would buffer the bytes once more.
        let open = || io::stdin().as_fd().try_clone_to_owned().map(File::from);
        let reader = Reader::start("standard input".into(), options, open);
        Ok(Self(LineSource::new("stdin:".into(), reader.await?)))
    }
}

/// Forwards every method; `missing_trait_methods` proves it.
macro_rules! impl_source {
    ($source:ty) => {
        #[deny(clippy::missing_trait_methods)]
        impl Source for $source {
            async fn fetch(&mut self, max: usize) -> Result<Fetched> {
                self.0.fetch(max).await
            }

            async fn acknowledge(&mut self, batch: &[Acknowledgement]) -> Result<()> {
                self.0.acknowledge(batch);
                Ok(())
            }

            async fn requeue(&mut self, batch: &[DeliveryId]) -> Result<()> {
                self.0.requeue(batch);
                Ok(())
            }

            async fn extend(&mut self, _batch: &[DeliveryId]) -> Result<()> {
                Ok(())
            }

            /// Does nothing: any number of lines is handed over before one is acknowledged.
            async fn prefetch_more(&mut self, _unsettled: usize) -> Result<()> {
                Ok(())
            }

            /// Takes back everything that was not acknowledged. Whoever keeps the source may fetch it again.
            async fn close(&mut self) -> Result<()> {
                self.0.take_back();
                Ok(())
            }

            fn progress(&self) -> Option<Progress> {
                Some(self.0.progress())
            }

            fn hold(&self) -> Option<Duration> {
                None
            }
        }
    };
}

impl_source!(FileSource);
impl_source!(StdinSource);

#[derive(Debug)]
struct LineSource {
    /// Prefix of coordinates: the name and a colon.
    prefix: String,
    reader: Reader,
    /// Lines that were read, but not handed out yet.
    ready: vec::IntoIter<Line>,
    /// Lines to be handed out again, before anything new.
    again: VecDeque<Line>,
    /// Lines that were handed out and neither acknowledged nor given back.
    out: HashMap<DeliveryId, Line>,
    next_id: u64,
    handed_bytes: u64,
    /// Result of the reading, once it ended. Deliveries that are given back later are handed out
    /// all the same.
    ended: Option<Result<(), Error>>,
}

impl LineSource {
    fn new(prefix: String, reader: Reader) -> Self {
        Self {
            prefix,
            reader,
            ready: Vec::new().into_iter(),
            again: VecDeque::new(),
            out: HashMap::new(),
            next_id: 0,
            handed_bytes: 0,
            ended: None,
        }
    }

    async fn fetch(&mut self, max: usize) -> Result<Fetched> {
        let max = max.max(1);
        if self.again.is_empty() && self.ready.len() == 0 && self.ended.is_none() {
            let block = self.reader.blocks.recv().await;
            self.take_in(block.unwrap_or_else(|| Err(reader::stopped())));
        }
        let mut deliveries = Vec::with_capacity(max.min(self.again.len() + self.ready.len()));
        let mut bytes = 0;
        while deliveries.len() < max && bytes < MOST_FETCHED_BYTES {
            match self.again.pop_front().or_else(|| self.ready.next()) {
                Some(line) => {
                    bytes += line.payload.len();
                    deliveries.push(self.hand_out(line));
                }
                None if self.ended.is_some() => break,
                None => match self.reader.blocks.try_recv() {
                    Ok(block) => self.take_in(block),
                    Err(TryRecvError::Empty) => break,
                    Err(TryRecvError::Disconnected) => self.take_in(Err(reader::stopped())),
                },
            }
        }
        match &self.ended {
            _ if !deliveries.is_empty() => Ok(Fetched::Deliveries(deliveries)),
            Some(Err(error)) => Err(error.clone()),
            _ => Ok(Fetched::Ended),
        }
    }

    fn take_in(&mut self, block: Result<Block>) {
        match block {
            Ok(Block::Lines(lines)) => self.ready = lines.into_iter(),
            Ok(Block::End(taken_bytes)) => {
                self.handed_bytes = taken_bytes;
                self.ended = Some(Ok(()));
            }
            Err(error) => self.ended = Some(Err(error)),
        }
    }

    fn hand_out(&mut self, line: Line) -> Delivery {
        let id = DeliveryId(self.next_id);
        self.next_id += 1;
        self.handed_bytes = self.handed_bytes.max(line.end_bytes);
        let coordinates = coordinates(&self.prefix, line.number);
        let mut delivery = Delivery::new(id, line.payload.clone(), coordinates);
        delivery.oversize_bytes = line.oversize_bytes;
        self.out.insert(id, line);
        delivery
    }

    fn acknowledge(&mut self, batch: &[Acknowledgement]) {
        for told in batch {
            self.out.remove(&told.delivery);
        }
    }

    fn requeue(&mut self, batch: &[DeliveryId]) {
        self.again
            .extend(batch.iter().filter_map(|id| self.out.remove(id)));
    }

    /// Takes back every line that is out, and puts all that are to be handed out again in the order of the file: those
    /// that were given back before may be behind one that is out.
    fn take_back(&mut self) {
        self.again.extend(self.out.drain().map(|(_, line)| line));
        let again = self.again.make_contiguous();
        again.sort_unstable_by_key(|line| line.number);
    }

    fn progress(&self) -> Progress {
        Progress {
            read_bytes: self.handed_bytes,
            total_bytes: self.reader.total_bytes,
        }
    }
}

/// Builds the coordinates of a line, in one allocation of just their length.
fn coordinates(prefix: &str, number: u64) -> ByteString {
    let digits = number.checked_ilog10().unwrap_or_default() as usize + 1;
    let mut text = String::with_capacity(prefix.len() + digits);
    text.push_str(prefix);
    let _ = write!(text, "{number}");
    text.into()
}

/// Bytes that one fetch hands over at the most, a last message apart: 8 MiB.
const MOST_FETCHED_BYTES: usize = 8 << 20;

#[cfg(test)]
mod tests;
