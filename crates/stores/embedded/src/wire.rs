//! Encoding of numbers, texts and times: little-endian, lengths and most numbers as LEB128.
//!
//! Not for checksums or framing: those are [`crate::frame`] and [`crate::entry`].

use std::time::Duration;

use semel_core::Timestamp;

/// Appends values to a buffer.
pub(crate) trait Put {
    fn put_number(&mut self, number: u64);
    fn put_bytes(&mut self, bytes: &[u8]);
    fn put_duration(&mut self, duration: Duration);
}

impl Put for Vec<u8> {
    #[inline]
    fn put_number(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.push(low_byte(number) | 0x80);
            number >>= 7;
        }
        self.push(low_byte(number));
    }

    #[inline]
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.put_number(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }

    fn put_duration(&mut self, duration: Duration) {
        self.put_number(duration.as_secs());
        self.put_number(u64::from(duration.subsec_nanos()));
    }
}

/// Takes values off the front of a slice; `None` means that the bytes are not what they should be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Take<'a>(&'a [u8]);

impl<'a> Take<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    pub(crate) const fn len(self) -> usize {
        self.0.len()
    }

    pub(crate) const fn is_empty(self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn raw(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.raw(N)?.try_into().ok()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    #[inline]
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn small(&mut self) -> Option<u32> {
        u32::try_from(self.number()?).ok()
    }

    pub(crate) fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        self.raw(len)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    pub(crate) fn timestamp(&mut self) -> Option<Timestamp> {
        self.number().map(Timestamp::from_millis)
    }

    pub(crate) fn duration(&mut self) -> Option<Duration> {
        let secs = self.number()?;
        let nanos = self.small().filter(|&nanos| nanos < 1_000_000_000)?;
        Some(Duration::new(secs, nanos))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the low byte is what is wanted"
)]
const fn low_byte(number: u64) -> u8 {
    number as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [
            0,
            1,
            127,
            128,
            16_383,
            16_384,
            u64::from(u32::MAX),
            u64::MAX,
        ] {
            let mut bytes = Vec::new();
            bytes.put_number(number);
            let mut take = Take::new(&bytes);
            assert_eq!(take.number(), Some(number));
            assert!(take.is_empty());
        }
    }

    #[test]
    fn a_number_that_is_cut_or_too_long_is_refused() {
        assert_eq!(Take::new(&[0x80]).number(), None);
        assert_eq!(Take::new(&[0xff; 11]).number(), None);
        assert_eq!(Take::new(&[5, 1, 2]).bytes(), None);
    }
}
