//! Numbers and texts as they are stored: most significant byte first, so that scripts can read them.

use std::time::Duration;

use bytes::Bytes;

/// Bytes in the making.
#[derive(Default)]
pub(crate) struct Out(pub(crate) Vec<u8>);

impl Out {
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Writes a length in four bytes, and the bytes. No stored value has four gigabytes.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.raw(bytes);
    }

    /// Writes a length plus one and the bytes, or zero.
    pub(crate) fn maybe(&mut self, bytes: Option<&[u8]>) {
        match bytes {
            None => self.u32(0),
            Some(bytes) => {
                self.u32(u32::try_from(bytes.len() + 1).unwrap_or(u32::MAX));
                self.raw(bytes);
            }
        }
    }

    pub(crate) fn duration(&mut self, duration: Duration) {
        self.u64(duration.as_secs());
        self.u32(duration.subsec_nanos());
    }

    /// Writes over four bytes that are there already.
    pub(crate) fn set_u32(&mut self, at: usize, value: usize) {
        let value = u32::try_from(value).unwrap_or(u32::MAX);
        self.0[at..at + 4].copy_from_slice(&value.to_be_bytes());
    }
}

/// Reads bytes. Every method returns `None` where the bytes are not ours.
pub(crate) struct In<'b>(pub(crate) &'b [u8]);

impl<'b> In<'b> {
    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*taken)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn take(&mut self, bytes: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    pub(crate) fn bytes(&mut self) -> Option<&'b [u8]> {
        let len = usize::try_from(self.u32()?).ok()?;
        self.take(len)
    }

    pub(crate) fn text(&mut self) -> Option<&'b str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    /// Reads a value that [`Out::maybe`] wrote.
    #[expect(clippy::option_option, reason = "the outer one is a fault")]
    pub(crate) fn maybe(&mut self) -> Option<Option<&'b [u8]>> {
        match self.u32()?.checked_sub(1) {
            None => Some(None),
            Some(len) => self.take(usize::try_from(len).ok()?).map(Some),
        }
    }

    pub(crate) fn duration(&mut self) -> Option<Duration> {
        let (secs, nanos) = (self.u64()?, self.u32()?);
        (nanos < 1_000_000_000).then(|| Duration::new(secs, nanos))
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Copies bytes into memory of their own.
pub(crate) fn owned(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}
