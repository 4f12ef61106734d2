//! A record of the changelog: the operations that one transaction committed in one partition.
//!
//! Version 1, big-endian: the bytes `SEM1`, the time in milliseconds (u64), the number of operations (u32), and for
//! each of them the first half of the operation's id (16 bytes), the scheme of its fingerprint (u32, zero where there
//! is none), half of its digest (u64) and a digest of the transport id (u64).

use bytes::{Buf, BufMut};
use semel_core::Timestamp;
use semel_core::partition::Entry;

/// Writes these as blocks, none with more than [`MOST`] of them.
pub(crate) fn write(at: Timestamp, entries: &[Entry]) -> impl Iterator<Item = Vec<u8>> {
    entries.chunks(MOST).map(move |entries| {
        let mut block = Vec::with_capacity(HEAD + entries.len() * LEN);
        block.put_slice(MAGIC);
        block.put_u64(at.as_millis());
        block.put_u32(u32::try_from(entries.len()).unwrap_or(u32::MAX));
        for entry in entries {
            let (scheme, digest) = entry.fingerprint.unwrap_or_default();
            block.put_u128(entry.id);
            block.put_u32(scheme);
            block.put_u64(digest);
            block.put_u64(entry.transport);
        }
        block
    })
}

/// Reads a block. `None`: this is none, or one of an unknown version.
pub(crate) fn read(mut block: &[u8]) -> Option<(Timestamp, impl Iterator<Item = Entry>)> {
    if block.len() < HEAD || !block.starts_with(MAGIC) {
        return None;
    }
    block.advance(MAGIC.len());
    let at = Timestamp::from_millis(block.get_u64());
    let count = usize::try_from(block.get_u32()).ok()?;
    if block.len() != count.checked_mul(LEN)? {
        return None;
    }
    let entries = block.chunks_exact(LEN).map(|mut entry| {
        let id = entry.get_u128();
        let (scheme, digest) = (entry.get_u32(), entry.get_u64());
        Entry {
            id,
            fingerprint: (scheme != 0).then_some((scheme, digest)),
            transport: entry.get_u64(),
        }
    });
    Some((at, entries))
}

const MAGIC: &[u8] = b"SEM1";
const HEAD: usize = 16;
const LEN: usize = 36;
/// The most operations of a block: 576 KiB, well inside the limit of a topic.
const MOST: usize = 16_384;

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u128, fingerprint: Option<(u32, u64)>) -> Entry {
        let transport = 7;
        Entry {
            id,
            fingerprint,
            transport,
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let entries = [entry(1, None), entry(u128::MAX, Some((3, 9)))];
        let at = Timestamp::from_millis(1_700_000_000_123);
        let blocks: Vec<_> = write(at, &entries).collect();
        assert_eq!(blocks.len(), 1);
        let (read_at, read) = read(&blocks[0]).expect("a block");
        assert_eq!(read_at, at);
        assert_eq!(read.collect::<Vec<_>>(), entries);
    }

    #[test]
    fn many_make_several_blocks() {
        let count = u128::try_from(MOST).expect("it fits") * 2 + 1;
        let entries: Vec<_> = (0..count).map(|id| entry(id, None)).collect();
        let blocks: Vec<_> = write(Timestamp::EPOCH, &entries).collect();
        assert_eq!(blocks.len(), 3);
        let all = blocks
            .iter()
            .flat_map(|block| read(block).expect("a block").1);
        assert_eq!(all.collect::<Vec<_>>(), entries);
        assert!(blocks.iter().all(|block| block.len() < 1_000_000));
    }

    #[test]
    fn the_bytes_are_those_of_version_1() {
        let entries = [entry(0x0102, Some((1, 2)))];
        let block = write(Timestamp::from_millis(5), &entries).next();
        let mut expected = b"SEM1".to_vec();
        expected.extend([0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1]);
        expected.extend([0; 14]);
        expected.extend([1, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2]);
        expected.extend([0, 0, 0, 0, 0, 0, 0, 7]);
        assert_eq!(block, Some(expected));
    }

    #[test]
    fn what_is_no_block_is_refused() {
        let block = write(Timestamp::EPOCH, &[entry(1, None)]).next();
        let block = block.expect("a block");
        for bytes in [
            &b""[..],
            b"SEM1",
            b"SEM2aaaaaaaaaaaaaaaa",
            &block[..block.len() - 1],
            &[&block[..], b"x"].concat(),
        ] {
            assert!(read(bytes).is_none(), "{bytes:?}");
        }
    }
}
