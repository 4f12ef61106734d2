//! The log of one producer: a header, and frames that are synced one after the other.
//!
//! ```text
//! header: magic "SLPJ" · version u32 · generation u64 · checksum u32
//! frame:  magic "SLPF" · length u32 · checksum u32 · record
//! ```
//!
//! The checksum of a frame goes over generation, offset and record. Nothing follows a frame that is not synced: a bad
//! frame with a good one behind it is damage, one with nothing behind it was never promised. An opening writes the whole
//! state into a new file, of the next generation, which takes the name of the old one.

use bytes::Bytes;
use semel_core::ingest::SENDERS_TARGET;
use semel_core::producer::ledger::{Ledger, Stream};
use semel_core::producer::{Opened, Opening, ProducerName};
use semel_core::{Error, ErrorKind, Result, Timestamp};

use super::frame::{
    FRAME_LEN, GROUPED_VERSION, HEADER_LEN, NextLog, TIMED_VERSION, VERSION, Window, generation,
    put_frame, unwritten,
};
use super::name::{log_name, next_name};
use super::record::{Location, Record, apply};
use crate::error;
use crate::files::{File, Files, copied};

/// The log as far as it was read.
#[derive(Default)]
pub(super) struct JournalFile {
    name: String,
    generation: u64,
    /// The version of the log; 0 if there is none.
    version: u32,
    /// The end of what was read, which is that of the last good frame.
    end: u64,
    /// The state; none if there is no log.
    pub(super) ledger: Option<Ledger<Location>>,
    /// The end from which on the log is looked through for what is of no use in it.
    looked_at_end: u64,
    /// Set once a write failed, so that nobody knows what is on the disk.
    is_poisoned: bool,
    /// True if some of what was read is of another process, which may have died before it was on the disk.
    is_inherited: bool,
}

impl JournalFile {
    /// Reads what is new.
    pub(super) fn refresh(&mut self, files: &dyn Files, name: &ProducerName) -> Result<()> {
        if self.is_poisoned {
            return Err(error::poisoned());
        }
        self.name = log_name(name);
        let file = match files.open(&self.name) {
            Ok(file) => file,
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => {
                *self = Self {
                    name: std::mem::take(&mut self.name),
                    ..Self::default()
                };
                return Ok(());
            }
            Err(why) => return Err(error::unreadable(&self.name, why)),
        };
        let mut header = [0; HEADER_LEN];
        let read = self.read(&*file, &mut header, 0)?;
        let header = generation(&header[..read]).map_err(|what| self.damaged(0, what))?;
        let header = header.map_err(|version| error::newer(version, GROUPED_VERSION))?;
        let (version, generation) = header;
        if self.generation != generation || self.ledger.is_none() {
            // Whoever renamed it may have died before the folder was synced: what rests on the new log must not go back
            // to the old one with the power.
            if let Err(why) = files.sync_dir() {
                self.is_poisoned = true;
                return Err(error::unknown("syncing the folder of the producers", why));
            }
            self.generation = generation;
            self.version = version;
            self.end = HEADER_LEN as u64;
            self.looked_at_end = 0;
            self.ledger = None;
            self.is_inherited = false;
        }
        let file_end = file.len_bytes();
        let file_end = file_end.map_err(|why| error::unreadable(&self.name, why))?;
        if file_end == self.end && self.ledger.is_some() {
            return Ok(());
        }
        let log = self.name.clone();
        self.take_frames(&mut Window::of(&*file, &log, file_end))?;
        match &self.ledger {
            Some(ledger) if ledger.name == *name => Ok(()),
            Some(_) => Err(self.damaged(HEADER_LEN as u64, "the log of another producer")),
            None => Err(self.damaged(self.end, "no producer")),
        }
    }

    /// Takes the frames behind what was read.
    fn take_frames(&mut self, window: &mut Window<'_>) -> Result<()> {
        while let Some(len) = window.frame(self.end, self.generation)? {
            let record_at = self.end + FRAME_LEN as u64;
            let record = window.slice(record_at, len)?.unwrap_or_default();
            if apply(&mut self.ledger, record, record_at).is_none() {
                return Err(self.damaged(self.end, "no such record"));
            }
            self.end = record_at + len as u64;
            self.is_inherited = true;
        }
        for at in self.end + 1..window.end {
            if window.frame(at, self.generation)?.is_some() {
                return Err(self.damaged(self.end, "a frame does not check out"));
            }
        }
        Ok(())
    }

    /// Tells whether the log is of a version that has times.
    pub(super) const fn has_times(&self) -> bool {
        self.version >= TIMED_VERSION
    }

    /// Tells whether appends may be together in a record of the log.
    pub(super) const fn has_groups(&self) -> bool {
        self.version >= GROUPED_VERSION
    }

    /// Returns the state of a log that is there.
    pub(super) fn ledger(&self) -> Result<&Ledger<Location>> {
        self.ledger.as_ref().ok_or_else(not_there)
    }

    /// Returns the state as it is written anew. A log without times has none of them: nobody knows when the messages of a
    /// stream were settled.
    pub(super) fn renewed(&self) -> Option<Ledger<Location>> {
        let mut ledger = self.ledger.clone()?;
        if !self.has_times() {
            for stream in ledger.streams.values_mut() {
                stream.heard = Timestamp::EPOCH;
            }
        }
        Some(ledger)
    }

    /// Opens the producer, in a log of the next generation.
    pub(super) fn open(&mut self, files: &dyn Files, opening: &Opening) -> Result<Opened> {
        let ledger = self.ledger.clone();
        let mut ledger = ledger.unwrap_or_else(|| Ledger::new(opening));
        let opened = ledger.open(opening)?;
        self.rewrite(files, &ledger)?;
        Ok(opened)
    }

    /// Makes durable what another process wrote, before anybody is told of it and before anything is written behind it.
    ///
    /// Works by way of a copy, as the recovery of the store's own log: what was read may be in memory only, and after a sync
    /// that failed the system may take it for clean, so that to sync it again does nothing.
    pub(super) fn secure(&mut self, files: &dyn Files) -> Result<()> {
        if !self.is_inherited || semel_core::planted("X44") {
            return Ok(());
        }
        let next = next_name(&self.name);
        match copied(files, &*self.opened(files)?, self.end, &next) {
            Ok(_) => files.rename(&next, &self.name).map_err(unwritten)?,
            // What is settled must be written all the same, or there is never any room again.
            Err(why) if error::is_full(&why) => {
                // Half a copy takes room; there is none where not even that was begun.
                let _ = files.remove(&next);
                self.synced(files)?;
            }
            Err(why) => return Err(unwritten(why)),
        }
        if let Err(why) = files.sync_dir() {
            self.is_poisoned = true;
            return Err(error::unknown("syncing the folder of the producers", why));
        }
        self.is_inherited = false;
        Ok(())
    }

    /// Syncs the log where it is.
    fn synced(&mut self, files: &dyn Files) -> Result<()> {
        let synced = self.opened(files)?.sync();
        synced.map_err(|why| {
            self.is_poisoned = true;
            error::unknown("syncing the log of a producer", why)
        })
    }

    /// Appends a record durably, and takes it into the state.
    pub(super) fn add(&mut self, files: &dyn Files, record: &Record<'_>) -> Result<()> {
        self.secure(files)?;
        self.shorten(files)?;
        let mut bytes = Vec::new();
        put_frame(&mut bytes, record, self.end, self.generation)?;
        self.write(files, &bytes)?;
        let record_at = self.end + FRAME_LEN as u64;
        if apply(&mut self.ledger, &bytes[FRAME_LEN..], record_at).is_none() {
            return Err(self.damaged(self.end, "no such record"));
        }
        self.end += bytes.len() as u64;
        Ok(())
    }

    /// Writes a log anew that is long, and mostly of no use any more.
    fn shorten(&mut self, files: &dyn Files) -> Result<()> {
        if self.end < REWRITTEN_FROM {
            return Ok(());
        }
        let is_due = self.end >= self.looked_at_end;
        if self.is_done_before_its_half() || is_due && self.is_mostly_done() {
            let ledger = self.renewed().ok_or_else(not_there)?;
            self.rewrite(files, &ledger)?;
        }
        if is_due {
            self.looked_at_end = self.end + self.end / 8;
        }
        Ok(())
    }

    /// Tells whether all that is kept lies in the later half of the log.
    fn is_done_before_its_half(&self) -> bool {
        let streams = self.ledger.iter().flat_map(|it| it.streams.values());
        let firsts = streams.filter_map(|it| it.batches.front());
        let first = firsts.map(|it| it.body.offset).min();
        first.unwrap_or(self.end) > self.end / 2
    }

    /// Writes behind what was read, and syncs.
    fn write(&mut self, files: &dyn Files, bytes: &[u8]) -> Result<()> {
        let file = self.opened(files)?;
        let mut cut = Ok(());
        let file_end = file.len_bytes();
        if file_end.map_err(|why| error::unreadable(&self.name, why))? > self.end {
            // What an earlier process did not finish.
            cut = file.truncate(self.end);
        }
        if let Err(why) = cut.and_then(|()| file.write_at(bytes, self.end)) {
            if error::is_full(&why) && file.truncate(self.end).is_ok() {
                // What is settled since may be most of it.
                self.looked_at_end = 0;
                return Err(error::full(why));
            }
            self.is_poisoned = true;
            return Err(error::unknown("writing the log of a producer", why));
        }
        if !semel_core::planted("X19")
            && let Err(why) = file.sync()
        {
            self.is_poisoned = true;
            return Err(error::unknown("syncing the log of a producer", why));
        }
        Ok(())
    }

    /// Tells whether the log is long for what is still of use in it.
    fn is_mostly_done(&self) -> bool {
        let streams = self.ledger.iter().flat_map(|it| it.streams.values());
        let kept: u64 = streams
            .flat_map(|stream| &stream.batches)
            .map(|batch| u64::from(batch.body.len))
            .sum();
        kept < self.end / 2
    }

    /// Writes a state into a log of the next generation, and lets it take the place of this one.
    pub(super) fn rewrite(&mut self, files: &dyn Files, ledger: &Ledger<Location>) -> Result<()> {
        let next = next_name(&self.name);
        let file = files.create(&next).map_err(unwritten)?;
        let has_times = ledger.streams.values().any(is_of_sender);
        let version = if has_times { GROUPED_VERSION } else { VERSION };
        let mut next_log = NextLog::of(&*file, version, self.generation + 1);
        next_log.put(&Record::Producer(ledger))?;
        let has_batches = ledger.streams.values().any(|it| !it.batches.is_empty());
        let bodies = has_batches.then(|| self.bodies(files)).transpose()?;
        for (name, stream) in &ledger.streams {
            next_log.put(&Record::Stream(name, stream))?;
            if is_of_sender(stream) {
                next_log.put(&Record::Times(name, stream.begun, stream.heard))?;
            }
            for kept in &stream.batches {
                let body = bodies.as_ref().ok_or_else(not_there)?.read(kept.body)?;
                next_log.put(&Record::Kept(name, kept, &body))?;
            }
        }
        let (generation, end, state) = next_log.end()?;
        let replaced = files.rename(&next, &self.name);
        replaced.map_err(unwritten)?;
        // From here on, nobody knows which of the two logs a power cut would leave.
        if let Err(why) = files.sync_dir() {
            self.is_poisoned = true;
            return Err(error::unknown("syncing the folder of the producers", why));
        }
        (self.generation, self.end, self.ledger) = (generation, end, state);
        self.looked_at_end = 0;
        self.version = version;
        self.is_inherited = false;
        Ok(())
    }

    /// Lets the next log of the producer, which has none, begin with a generation that none of its earlier ones had.
    pub(super) fn begin_at(&mut self, generation: u64) {
        if self.ledger.is_none() {
            self.generation = self.generation.max(generation);
        }
    }

    /// Removes the log.
    pub(super) fn remove(&mut self, files: &dyn Files) -> Result<()> {
        files.remove(&self.name).map_err(unwritten)?;
        let generation = self.generation;
        *self = Self {
            generation,
            ..Self::default()
        };
        // With the power off before it, the log is there again, and forgotten again.
        files
            .sync_dir()
            .map_err(|why| error::unknown("syncing the folder of the producers", why))
    }

    /// Opens the log for its messages to be read.
    pub(super) fn bodies<'l>(&'l self, files: &dyn Files) -> Result<Bodies<'l>> {
        Ok(Bodies {
            log: self,
            file: self.opened(files)?,
        })
    }

    fn opened(&self, files: &dyn Files) -> Result<Box<dyn File>> {
        let file = files.open(&self.name);
        file.map_err(|why| error::unreadable(&self.name, why))
    }

    fn read(&self, file: &dyn File, buffer: &mut [u8], offset: u64) -> Result<usize> {
        let read = file.read_at(buffer, offset);
        read.map_err(|why| error::unreadable(&self.name, why))
    }

    fn damaged(&self, offset: u64, what: &str) -> Error {
        let name = &self.name;
        let message = format!(
            "{name} is damaged at byte {offset} ({what}); go on under another name of a producer: a log that is restored \
             has given out its sequences and ids before"
        );
        Error::new(ErrorKind::Corrupt, message)
    }
}

/// The messages in a log.
pub(super) struct Bodies<'l> {
    log: &'l JournalFile,
    file: Box<dyn File>,
}

impl Bodies<'_> {
    /// Reads the messages of a batch.
    pub(super) fn read(&self, at: Location) -> Result<Bytes> {
        let mut body = vec![0; at.len as usize];
        let read = self.log.read(&*self.file, &mut body, at.offset)?;
        if read < body.len() {
            return Err(self.log.damaged(at.offset, "messages cut off"));
        }
        Ok(body.into())
    }
}

pub(super) fn not_there() -> Error {
    Error::new(ErrorKind::Internal, "the log of a producer is not there")
}

/// Tells whether the messages of a stream are those that others send.
fn is_of_sender(stream: &Stream<Location>) -> bool {
    &*stream.target == SENDERS_TARGET
}

/// The length from which a log is written anew, once half of it is of no use.
const REWRITTEN_FROM: u64 = 32 * 1_024 * 1_024;
