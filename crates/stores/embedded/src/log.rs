//! A log of segment files: appended to in groups, read back by location, dropped from the front.
//!
//! Knows frames and files, and counts what each segment still holds; it does not know what an entry
//! means.

mod read;
mod recent;
mod recover;
mod scan;

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use semel_core::{Result, Timestamp};

use crate::entry::{self, Kind, SegmentBody};
use crate::error::{self, WriteFailure};
use crate::files::{File, Files};
use crate::frame;
use crate::superblock::Position;

use self::recent::Recent;

pub(crate) use recover::{Recover, Replayed};
pub(crate) use scan::{Frame, Scan};

/// Start of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Location {
    pub(crate) segment: u32,
    pub(crate) offset: u32,
}

/// One segment file.
pub(crate) struct Segment {
    pub(crate) id: u32,
    pub(crate) len: u32,
    pub(crate) created_at: Timestamp,
    pub(crate) usage: SegmentUsage,
    file: Box<dyn File>,
    /// Length of the log before it.
    begins_at: u64,
}

/// Counts of what a segment still holds, kept up to date by the owner of the log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SegmentUsage {
    /// Completed and dead records that the table places here.
    pub(crate) finished: [u64; 2],
    /// Live entries that must be carried forward before the segment may go, and their bytes.
    pub(crate) kept: u64,
    pub(crate) kept_bytes: u64,
    /// Entries in here that replaced a finished record.
    pub(crate) revised: u64,
    /// Time at which the last finished record in here has passed its window.
    pub(crate) expires_at: Timestamp,
    /// Time at which the first finished record in here is forgotten.
    pub(crate) forgets_from: Option<Timestamp>,
    /// The shortest window of a finished record in here.
    pub(crate) shortest_window: Option<Duration>,
}

/// A log.
pub(crate) struct Log {
    files: Arc<dyn Files>,
    kind: LogKind,
    store_id: [u8; 16],
    segments: VecDeque<Segment>,
    /// Number of the next frame.
    sequence: u64,
    /// Number of the first frame in `pending`.
    synced_sequence: u64,
    /// Frames that are not written yet; the last one may be open.
    pending: Vec<u8>,
    /// Start of the open frame in `pending`.
    open: Option<usize>,
    /// The most recent writes, while the owner reads much of them back.
    recent: Recent,
}

/// One of a store's two logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogKind {
    /// Prefix of its file names.
    pub(crate) prefix: &'static str,
}

impl LogKind {
    pub(crate) const RECORDS: Self = Self { prefix: "records-" };
    pub(crate) const PARKED: Self = Self { prefix: "parked-" };

    pub(crate) fn name_of(self, id: u32) -> String {
        format!("{}{id:010}{SUFFIX}", self.prefix)
    }

    /// Returns the number of the segment with this file name, if it is one of this log.
    pub(crate) fn id_of(self, name: &str) -> Option<u32> {
        let id = name
            .strip_prefix(self.prefix)?
            .strip_suffix(SUFFIX)?
            .parse()
            .ok()?;
        (self.name_of(id) == name).then_some(id)
    }
}

/// A position in the pending bytes, to go back to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Savepoint {
    len: usize,
    open: Option<usize>,
    sequence: u64,
}

impl Log {
    /// Returns the number of bytes that wait to be written.
    pub(crate) fn pending_len(&self) -> usize {
        self.pending.len()
    }

    pub(crate) fn segments(&self) -> &VecDeque<Segment> {
        &self.segments
    }

    pub(crate) fn name_of(&self, id: u32) -> String {
        self.kind.name_of(id)
    }

    pub(crate) fn oldest(&self) -> u32 {
        self.segments.front().map_or(0, |segment| segment.id)
    }

    pub(crate) fn active(&self) -> Option<&Segment> {
        self.segments.back()
    }

    /// Returns the position up to which everything is durable, given that nothing is pending.
    pub(crate) fn position(&self) -> Position {
        let active = self.segments.back();
        active.map_or_else(Position::default, |active| Position {
            segment: active.id,
            offset: active.len,
        })
    }

    pub(crate) fn len_bytes(&self) -> u64 {
        self.segments
            .iter()
            .map(|segment| u64::from(segment.len))
            .sum()
    }

    /// Returns the usage of segment `id`, if it is still there.
    pub(crate) fn usage(&mut self, id: u32) -> Option<&mut SegmentUsage> {
        let index = id.checked_sub(self.oldest())?;
        self.segments
            .get_mut(index as usize)
            .map(|segment| &mut segment.usage)
    }

    /// Counts an entry of the active segment that replaces a finished record.
    pub(crate) fn revise(&mut self) {
        if let Some(active) = self.segments.back_mut() {
            active.usage.revised += 1;
        }
    }

    pub(crate) fn segment(&self, id: u32) -> Option<&Segment> {
        let index = id.checked_sub(self.oldest())?;
        self.segments.get(index as usize)
    }

    /// Appends an entry: `meta` writes its meta part and returns its tail.
    #[inline]
    pub(crate) fn append<'t>(
        &mut self,
        kind: Kind,
        meta: impl FnOnce(&mut Vec<u8>) -> &'t [u8],
    ) -> Location {
        if self.open.is_none() {
            self.open = Some(self.pending.len());
            frame::begin(&mut self.pending);
        }
        let start = entry::begin(&mut self.pending);
        let tail = meta(&mut self.pending);
        entry::end(&mut self.pending, start, kind, tail);
        let Position { segment, offset } = self.position();
        Location {
            segment,
            offset: offset.saturating_add(u32::try_from(start).unwrap_or(u32::MAX)),
        }
    }

    /// Ends the open frame once it is large, so that recovery never needs much memory at once.
    pub(crate) fn split_frame(&mut self) {
        if self
            .open
            .is_some_and(|start| self.pending.len() - start >= FRAME_BYTES)
        {
            self.end_frame(0);
        }
    }

    /// Ends the open frame, if there is one.
    pub(crate) fn end_frame(&mut self, flags: u32) {
        if let Some(start) = self.open.take() {
            let Position { segment, offset } = self.position();
            frame::end(
                &mut self.pending,
                start,
                segment,
                self.sequence,
                offset,
                flags,
            );
            self.sequence += 1;
        }
    }

    pub(crate) fn savepoint(&self) -> Savepoint {
        Savepoint {
            len: self.pending.len(),
            open: self.open,
            sequence: self.sequence,
        }
    }

    /// Forgets the entries appended since `savepoint`.
    pub(crate) fn go_back(&mut self, savepoint: Savepoint) {
        self.pending.truncate(savepoint.len);
        self.open = savepoint.open;
        self.sequence = savepoint.sequence;
    }

    /// Writes the pending frames and makes them durable.
    pub(crate) fn commit(&mut self) -> Result<(), WriteFailure> {
        self.end_frame(0);
        let written = self.write_pending();
        if written.is_err() {
            self.sequence = self.synced_sequence;
        }
        self.synced_sequence = self.sequence;
        self.pending.clear();
        self.pending.shrink_to(PENDING_KEPT_BYTES);
        written
    }

    fn write_pending(&mut self) -> Result<(), WriteFailure> {
        let Some(active) = self
            .segments
            .back_mut()
            .filter(|_| !self.pending.is_empty())
        else {
            return Ok(());
        };
        let name = || self.kind.name_of(active.id);
        let new_len = u64::from(active.len) + self.pending.len() as u64;
        let Ok(new_len) = u32::try_from(new_len) else {
            let full = std::io::Error::from(std::io::ErrorKind::FileTooLarge);
            return Err(WriteFailure::Undone(error::full(full)));
        };
        if let Err(why) = active.file.write_at(&self.pending, u64::from(active.len)) {
            let full = error::is_full(&why);
            let cut = || {
                active.file.truncate(u64::from(active.len))?;
                active.file.sync()
            };
            // Provably nothing of it is left: the store can go on.
            if full && cut().is_ok() {
                return Err(WriteFailure::Undone(error::full(why)));
            }
            return Err(WriteFailure::Unknown(error::unknown(
                &format!("writing {}", name()),
                why,
            )));
        }
        if let Err(why) = active.file.sync() {
            return Err(WriteFailure::Unknown(error::unknown(
                &format!("syncing {}", name()),
                why,
            )));
        }
        let position = active.begins_at + u64::from(active.len);
        self.recent.wrote(position, &self.pending);
        active.len = new_len;
        Ok(())
    }

    /// Begins a new segment; nothing may be pending. Returns `false` if there is no room for one
    /// now; the active one is used on.
    pub(crate) fn rotate(&mut self, now: Timestamp) -> Result<bool, WriteFailure> {
        debug_assert!(
            self.pending.is_empty(),
            "entries know the segment that they go to"
        );
        let id = self.segments.back().map_or(1, |active| active.id + 1);
        let name = self.kind.name_of(id);
        match self.create_segment(id, &name, now) {
            Ok(segment) => {
                self.segments.push_back(segment);
                self.sequence += 1;
                self.synced_sequence = self.sequence;
                Ok(true)
            }
            Err(why) => {
                // A leftover must not come after a segment that is still written to.
                let present = self.files.list().map(|names| names.contains(&name));
                let gone = match present {
                    Ok(false) => Ok(()),
                    Ok(true) => self.files.remove(&name),
                    Err(error) => Err(error),
                };
                match gone.and_then(|()| self.files.sync_dir()) {
                    Ok(()) if error::is_full(&why) => Ok(false),
                    Ok(()) | Err(_) => Err(WriteFailure::Unknown(error::unknown(
                        &format!("creating {name}"),
                        why,
                    ))),
                }
            }
        }
    }

    fn create_segment(&self, id: u32, name: &str, now: Timestamp) -> std::io::Result<Segment> {
        let mut bytes = Vec::new();
        frame::begin(&mut bytes);
        let start = entry::begin(&mut bytes);
        let body = SegmentBody {
            store_id: self.store_id,
            created_at: now,
            revised_before: Some(self.segments.back().map_or(0, |last| last.usage.revised)),
        };
        entry::put_segment(&mut bytes, &body);
        entry::end(&mut bytes, start, Kind::Segment, &[]);
        frame::end(&mut bytes, 0, id, self.sequence, 0, 0);
        let file = self.files.create(name)?;
        file.write_at(&bytes, 0)?;
        file.sync()?;
        self.files.sync_dir()?;
        let len = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        Ok(Segment {
            id,
            len,
            created_at: now,
            usage: SegmentUsage::default(),
            file,
            begins_at: self.end(),
        })
    }

    /// Removes the oldest segment, which is not the active one.
    pub(crate) fn drop_oldest(&mut self) -> Result<Option<SegmentUsage>, WriteFailure> {
        let Some(oldest) = self.segments.front().filter(|_| self.segments.len() > 1) else {
            return Ok(None);
        };
        let name = self.kind.name_of(oldest.id);
        let unknown = |why| WriteFailure::Unknown(error::unknown(&format!("removing {name}"), why));
        self.files.remove(&name).map_err(unknown)?;
        self.files.sync_dir().map_err(unknown)?;
        Ok(self.segments.pop_front().map(|segment| segment.usage))
    }

    /// Returns the length of the log, up to the end of the last segment.
    fn end(&self) -> u64 {
        let last = self.segments.back();
        last.map_or(0, |last| last.begins_at + u64::from(last.len))
    }

    /// Walks the frames of segment `id` that begin within `range`.
    pub(crate) fn scan(&self, id: u32, range: Range<u32>) -> Option<Scan<'_>> {
        let segment = self.segment(id)?;
        Some(Scan::new(
            &*segment.file,
            self.name_of(id),
            id,
            range.start,
            range.end.min(segment.len),
        ))
    }
}

const SUFFIX: &str = ".log";
/// Size at which frames are ended where they may be.
const FRAME_BYTES: usize = 1 << 20;
/// Memory for pending frames beyond this is freed.
const PENDING_KEPT_BYTES: usize = 8 << 20;
