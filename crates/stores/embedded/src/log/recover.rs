//! Opens a log: whole frames are replayed, a torn tail is cut off, damage is refused.
//!
//! The cases are argued in `docs/spec/embedded.md`, *Recovery*. A long segment is read, checked and
//! parsed by a thread of its own, while the owner takes in the earlier entries.

mod parsed_frame;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use semel_core::{Result, Timestamp};

use self::parsed_frame::{ParsedEntry, ParsedFrame};
use super::{Location, Log, LogKind, Recent, Scan, Segment, SegmentUsage};
use crate::digest::{Digest, KeyedHash};
use crate::entry::{Kind, SegmentBody};
use crate::error::{self, WriteFailure};
use crate::files::{File, Files, copied};
use crate::frame;
use crate::superblock::Position;

/// An entry met while replaying.
pub(crate) struct Replayed<'b> {
    pub(crate) kind: Kind,
    pub(crate) location: Location,
    /// Length of the whole entry.
    pub(crate) len: u32,
    pub(crate) meta: &'b [u8],
    /// The digest of a record or a removal, where its owner has a hash for it.
    pub(crate) digest: Digest,
}

/// Owner of a log, who rebuilds its state from it.
pub(crate) trait Recover {
    /// Returns the log, as far as it has been read.
    fn log(&mut self) -> &mut Log;

    /// Returns the hash that locates the operations in this log.
    fn keyed_hash(&self) -> Option<KeyedHash>;

    /// Takes in the next entries, all of one frame.
    fn replay(&mut self, entries: &[Replayed<'_>]) -> Result<()>;

    /// Reads the log of this owner, oldest entry first, and leaves it ready to be appended to.
    fn recover(&mut self, proven: Position, now: Timestamp) -> Result<()>
    where
        Self: Sized,
    {
        let ids = self.log().segment_ids(proven)?;
        let last = ids.last().copied();
        for id in ids {
            replay_segment(self, id, Some(id) == last, proven)?;
        }
        let log = self.log();
        log.synced_sequence = log.sequence;
        if log.segments.is_empty() {
            log.rotate(now).map_err(|failure| match failure {
                WriteFailure::Undone(why) | WriteFailure::Unknown(why) => why,
            })?;
            if log.segments.is_empty() {
                let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
                return Err(error::unopened("creating the first segment", full));
            }
        }
        Ok(())
    }
}

/// Replays one segment. The last one may have a torn end, and may not all be durable yet.
fn replay_segment(
    owner: &mut impl Recover,
    id: u32,
    is_last: bool,
    proven: Position,
) -> Result<()> {
    let name = owner.log().kind.name_of(id);
    let unreadable = |why| error::unreadable(&name, why);
    let file = owner.log().files.open(&name).map_err(unreadable)?;
    // Read through a handle of its own: the owner may read entries back meanwhile.
    let scanned = owner.log().files.open(&name).map_err(unreadable)?;
    let file_len = file.len_bytes().map_err(unreadable)?;
    let Ok(end) = u32::try_from(file_len) else {
        return Err(error::corrupt(
            &name,
            u64::from(u32::MAX),
            "longer than any segment",
        ));
    };
    let created_at = Timestamp::EPOCH;
    let segment = Segment {
        id,
        len: 0,
        created_at,
        usage: SegmentUsage::default(),
        file,
        begins_at: owner.log().end(),
    };
    owner.log().segments.push_back(segment);
    let is_first_ever = owner.log().segments.len() == 1;

    let mut scan = Scan::new(&*scanned, name.clone(), id, 0, end);
    let keyed_hash = owner.keyed_hash();
    if keyed_hash.is_some() && end >= LEAST_PIPED {
        scan = replay_piped(owner, scan, keyed_hash, is_first_ever)?;
    } else {
        let mut parsed_frame = ParsedFrame::default();
        while let Some(frame) = scan.next()? {
            parsed_frame.parse(&frame, keyed_hash.as_ref());
            replay_frame(owner, id, &parsed_frame, frame.payload, is_first_ever)?;
        }
    }

    let offset = scan.offset();
    let bad = |what| Err(error::corrupt(&name, u64::from(offset), what));
    let is_proven = proven.segment == id && proven.offset > offset;
    if scan.is_at_end() && offset > 0 {
        if is_proven {
            return bad("it is cut short");
        }
        if is_last
            && proven
                != (Position {
                    segment: id,
                    offset,
                })
        {
            return owner.log().renew_last();
        }
        return Ok(());
    }
    if !is_last {
        return bad("a bad frame before the last segment");
    }
    if is_proven {
        return bad("a bad frame where all was durable");
    }
    let sequence = owner.log().sequence;
    while let Some(later) = scan.seek_frame()? {
        if later.sequence > sequence && later.synced > offset {
            return bad("a bad frame before good ones");
        }
    }
    if offset > 0 {
        return owner.log().renew_last();
    }
    if is_first_ever && id > 1 {
        return bad("no start of the oldest segment");
    }
    owner.log().remove_last()
}

/// Replays the frames of a segment while another thread reads them; returns the scan.
fn replay_piped<'f>(
    owner: &mut impl Recover,
    mut scan: Scan<'f>,
    keyed_hash: Option<KeyedHash>,
    is_first_ever: bool,
) -> Result<Scan<'f>> {
    let id = scan.segment();
    let (full, frames) = sync_channel::<Result<ParsedFrame>>(FRAMES_BETWEEN);
    let (back, spare) = sync_channel::<ParsedFrame>(FRAMES_BETWEEN + 1);
    thread::scope(|scope| {
        let reader = scope.spawn(move || {
            loop {
                let parsed_frame = match scan.next() {
                    Ok(None) => return scan,
                    Ok(Some(frame)) => {
                        let mut parsed_frame = spare.try_recv().unwrap_or_default();
                        parsed_frame.parse_owned(&frame, keyed_hash.as_ref());
                        Ok(parsed_frame)
                    }
                    Err(error) => Err(error),
                };
                let is_over = parsed_frame.is_err();
                if full.send(parsed_frame).is_err() || is_over {
                    return scan;
                }
            }
        });
        for parsed_frame in frames {
            let parsed_frame = parsed_frame?;
            replay_frame(
                owner,
                id,
                &parsed_frame,
                parsed_frame.payload(),
                is_first_ever,
            )?;
            // The reader reuses its memory, if it still needs any.
            let _ = back.try_send(parsed_frame);
        }
        reader
            .join()
            .map_err(|panic| std::panic::resume_unwind(panic))
    })
}

fn replay_frame(
    owner: &mut impl Recover,
    id: u32,
    parsed_frame: &ParsedFrame,
    payload: &[u8],
    is_first_ever: bool,
) -> Result<()> {
    let offset = parsed_frame.offset;
    let name = owner.log().kind.name_of(id);
    let bad = |what| error::corrupt(&name, u64::from(offset), what);
    let log = owner.log();
    if offset == 0 && is_first_ever {
        log.sequence = parsed_frame.header.sequence;
    }
    if parsed_frame.header.sequence != log.sequence || parsed_frame.header.synced > offset {
        return Err(bad("a frame out of order"));
    }
    let next = log.sequence.checked_add(1);
    log.sequence = next.ok_or_else(|| bad("a frame out of order"))?;
    let len = u32::try_from(parsed_frame.header.frame_len()).map_err(|_| bad("frame too long"))?;
    // Known before its entries are shown, so that they can be read back.
    if let Some(segment) = log.segments.back_mut() {
        segment.len = offset + len;
    }
    let mut entries = Vec::with_capacity(REPLAYED_AT_ONCE);
    for entry in &parsed_frame.entries {
        let ParsedEntry {
            kind,
            at,
            len,
            digest,
            ..
        } = *entry;
        let meta = entry.meta(payload);
        if kind == Kind::Segment {
            let body = SegmentBody::decode(meta).ok_or_else(|| bad("a segment's start"))?;
            let log = owner.log();
            if body.store_id != log.store_id {
                return Err(error::foreign(&format!("{name} belongs to another store")));
            }
            if let Some(segment) = log.segments.back_mut() {
                segment.created_at = body.created_at;
            }
        }
        if matches!(kind, Kind::Padding | Kind::Segment) {
            continue;
        }
        let location = Location {
            segment: id,
            offset: offset + frame::HEADER_END + at,
        };
        entries.push(Replayed {
            kind,
            location,
            len,
            meta,
            digest,
        });
        if entries.len() == REPLAYED_AT_ONCE {
            owner.replay(&entries)?;
            entries.clear();
        }
    }
    owner.replay(&entries)?;
    if parsed_frame.is_whole {
        Ok(())
    } else {
        Err(bad("an unknown entry"))
    }
}

impl Log {
    /// Returns a log of which nothing has been read yet.
    pub(crate) fn unread(files: Arc<dyn Files>, kind: LogKind, store_id: [u8; 16]) -> Self {
        Self {
            files,
            kind,
            store_id,
            segments: VecDeque::new(),
            sequence: 0,
            synced_sequence: 0,
            pending: Vec::new(),
            open: None,
            recent: Recent::default(),
        }
    }

    /// Returns the segments in the folder, which follow each other without a gap.
    fn segment_ids(&self, proven: Position) -> Result<Vec<u32>> {
        let names = self
            .files
            .list()
            .map_err(|why| error::unopened("listing the folder", why))?;
        let mut ids: Vec<u32> = names
            .iter()
            .filter_map(|name| self.kind.id_of(name))
            .collect();
        ids.sort_unstable();
        for copy in names.iter().filter(|name| {
            name.strip_suffix(COPY_SUFFIX)
                .and_then(|name| self.kind.id_of(name))
                .is_some()
        }) {
            // Left by a crash; at worst it takes room.
            let _ = self.files.remove(copy);
        }
        let missing = ids
            .windows(2)
            .find(|pair| pair[0] + 1 != pair[1])
            .map(|pair| pair[0] + 1);
        let newest = ids.last().copied().unwrap_or_default();
        let missing = missing.or_else(|| (newest < proven.segment).then_some(proven.segment));
        match missing {
            Some(id) => Err(error::corrupt(
                &self.kind.name_of(id),
                0,
                "the file is missing",
            )),
            None => Ok(ids),
        }
    }

    /// Removes the last segment, of which not even the start is whole: nothing was ever in it.
    fn remove_last(&mut self) -> Result<()> {
        let Some(segment) = self.segments.pop_back() else {
            return Ok(());
        };
        let name = self.kind.name_of(segment.id);
        let failed = |why| error::unopened(&format!("removing the torn {name}"), why);
        self.files.remove(&name).map_err(failed)?;
        self.files.sync_dir().map_err(failed)
    }

    /// Makes the readable part of the last segment durable, and removes the torn part behind it,
    /// before any caller is answered from it.
    ///
    /// Works by way of a copy: the bytes read may be in the page cache only, and after a failed
    /// sync the system may take them for clean, so that syncing them again does nothing.
    /// Overwriting the segment in place could tear what was durable.
    fn renew_last(&mut self) -> Result<()> {
        let Some(segment) = self.segments.back() else {
            return Ok(());
        };
        let name = self.kind.name_of(segment.id);
        let failed = |why| error::unopened(&format!("renewing {name}"), why);
        match self.copy_last(segment, &name) {
            Ok(copy) => {
                if let Some(segment) = self.segments.back_mut() {
                    segment.file = copy;
                }
                Ok(())
            }
            // A full disk must not keep the store shut: the end is cut off in place.
            Err(why) if error::is_full(&why) => {
                segment
                    .file
                    .truncate(u64::from(segment.len))
                    .map_err(failed)?;
                segment.file.sync().map_err(failed)?;
                self.files.sync_dir().map_err(failed)
            }
            Err(why) => Err(failed(why)),
        }
    }

    fn copy_last(&self, segment: &Segment, name: &str) -> std::io::Result<Box<dyn File>> {
        let copy_name = format!("{name}{COPY_SUFFIX}");
        let copy = copied(&*self.files, &*segment.file, segment.len.into(), &copy_name)?;
        self.files.rename(&copy_name, name)?;
        self.files.sync_dir()?;
        Ok(copy)
    }
}

/// Suffix of the copy of a segment until it takes its place.
pub(crate) const COPY_SUFFIX: &str = ".copy";
/// Length from which a thread of its own reads a segment.
const LEAST_PIPED: u32 = 4 << 20;
/// Frames by which that thread may be ahead.
const FRAMES_BETWEEN: usize = 3;
/// Entries that are replayed together, so that memory is waited for once.
const REPLAYED_AT_ONCE: usize = 256;
