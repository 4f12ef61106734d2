//! The files of a store as they are at one moment.

use std::path::Path;

use semel_core::{Error, ErrorKind, Result};

use crate::digest::KeyedHash;
use crate::entry::{self, Kind, SegmentBody};
use crate::error;
use crate::files::{File, open_to_read};
use crate::log::{LogKind, Scan};
use crate::store::refuse_foreign;
use crate::superblock::{self, Position, Superblock};

/// Both logs, with every file open, so that files that are removed later can still be read.
pub(super) struct Snapshot {
    pub(super) keyed_hash: KeyedHash,
    pub(super) records: Vec<Segment>,
    pub(super) parked: Vec<Segment>,
}

/// One segment file.
pub(super) struct Segment {
    pub(super) id: u32,
    name: String,
    file: Box<dyn File>,
    len: u32,
    /// Offset that a walk must reach: the end, or in the last segment, which may be half written
    /// right now, the point up to which it was proven durable.
    must_reach: u32,
}

impl Segment {
    /// Walks its frames from `offset` on.
    pub(super) fn scan(&self, offset: u32) -> Scan<'_> {
        Scan::new(&*self.file, self.name.clone(), self.id, offset, self.len)
    }

    /// Reads the segment's first entry, if it is whole.
    pub(super) fn start(&self) -> Result<Option<SegmentBody>> {
        let mut scan = self.scan(0);
        let Some(frame) = scan.next()? else {
            return Ok(None);
        };
        let mut payload = frame.payload;
        let first = entry::next(&mut payload).filter(|(header, _)| header.kind == Kind::Segment);
        let meta = first.and_then(|(header, bytes)| header.meta(bytes));
        Ok(meta.and_then(SegmentBody::decode))
    }

    /// Returns an error unless a walk that found no further frame has come as far as it must.
    pub(super) fn check_end(&self, scan: &Scan<'_>) -> Result<()> {
        if scan.offset() >= self.must_reach {
            return Ok(());
        }
        Err(self.damaged(scan.offset(), "a bad frame where all was durable"))
    }

    pub(super) fn damaged(&self, offset: u32, what: &str) -> Error {
        error::corrupt(&self.name, u64::from(offset), what)
    }
}

impl Snapshot {
    /// Opens all files.
    pub(super) fn take(dir: &Path) -> Result<Self> {
        if !dir.is_dir() {
            return Err(absent());
        }
        let mut tries = 0;
        loop {
            match Self::try_take(dir) {
                // A segment was removed, or the superblock replaced, between two looks.
                Err(error) if tries < TRIES && error.kind() == ErrorKind::Unavailable => tries += 1,
                result => return result,
            }
        }
    }

    fn try_take(dir: &Path) -> Result<Self> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(dir).map_err(|why| error::unreadable("the folder", why))? {
            let entry = entry.map_err(|why| error::unreadable("the folder", why))?;
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
        refuse_foreign(&names)?;
        let superblock = open_to_read(dir, superblock::NAME).map_err(|why| match why.kind() {
            std::io::ErrorKind::NotFound => absent(),
            _ => error::unreadable(superblock::NAME, why),
        })?;
        let superblock = Superblock::read_from(&*superblock)?;
        let open = |kind: LogKind| {
            let mut ids: Vec<_> = names.iter().filter_map(|name| kind.id_of(name)).collect();
            ids.sort_unstable();
            ids.into_iter()
                .map(|id| Segment::open(dir, kind, id))
                .collect::<Result<Vec<_>>>()
        };
        Ok(Self {
            keyed_hash: KeyedHash::new(&superblock.hash_key),
            records: checked(open(LogKind::RECORDS)?, superblock.records)?,
            parked: checked(open(LogKind::PARKED)?, superblock.parked)?,
        })
    }

    pub(super) fn len_bytes(&self) -> u64 {
        let all = self.records.iter().chain(&self.parked);
        all.map(|segment| u64::from(segment.len)).sum()
    }
}

impl Segment {
    fn open(dir: &Path, kind: LogKind, id: u32) -> Result<Self> {
        let name = kind.name_of(id);
        let unreadable = |why| error::unreadable(&name, why);
        let file = open_to_read(dir, &name).map_err(unreadable)?;
        let len = file.len_bytes().map_err(unreadable)?;
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        Ok(Self {
            id,
            name,
            file,
            len,
            must_reach: len,
        })
    }
}

/// Checks that no segment of a log is missing, and notes how much of each must be there.
fn checked(mut segments: Vec<Segment>, proven: Position) -> Result<Vec<Segment>> {
    let gap = segments
        .windows(2)
        .find(|pair| pair[0].id + 1 != pair[1].id);
    if let Some(pair) = gap {
        return Err(pair[0].damaged(pair[0].len, "the next file is missing"));
    }
    if let Some(last) = segments.last_mut() {
        let is_proven = last.id == proven.segment;
        last.must_reach = if is_proven { proven.offset } else { 0 };
    }
    Ok(segments)
}

fn absent() -> Error {
    Error::new(ErrorKind::Unavailable, "there is no store here").not_applied()
}

/// Tries at listing the folder while it changes.
const TRIES: u32 = 5;
