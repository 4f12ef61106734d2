//! W3C Trace Context, level 2: the identity of a trace and of a span in it, as `traceparent` and `tracestate` carry
//! them from one service to the next. Not for spans themselves.

use std::fmt;

use bytes::Bytes;
use bytestring::ByteString;

use crate::ids::ClaimId;

/// The header that names a trace and a span.
pub const TRACEPARENT: &str = "traceparent";
/// The header that goes along with it, with what vendors have to say.
pub const TRACESTATE: &str = "tracestate";

/// The identity of a trace: sixteen bytes that are not all zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TraceId([u8; 16]);

/// The identity of a span in its trace: eight bytes that are not all zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpanId([u8; 8]);

/// The marks of a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceFlags(u8);

/// A span of a trace, as it is told to whoever continues the trace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace.
    pub trace_id: TraceId,
    /// The span.
    pub span_id: SpanId,
    /// The marks of the trace.
    pub flags: TraceFlags,
}

/// The trace that a message came with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The span that it belongs to.
    pub context: TraceContext,
    /// The `traceparent` to pass on: as it came, also with members that a later version has, or in version `00` if
    /// those are too long or not printable.
    pub parent: ByteString,
    /// The `tracestate` that goes along unchanged, if it is one that may be passed on.
    pub state: Option<ByteString>,
}

impl TraceId {
    /// Returns the id of the trace that begins with a claim: the bits of the claim's id, of which the last 80 are
    /// random. So whoever knows the claim finds the trace.
    pub fn of_claim(claim: ClaimId) -> Self {
        Self::from_bytes(claim.to_bytes()).unwrap_or(Self(1_u128.to_be_bytes()))
    }

    /// Returns the id with these bytes; none if they are all zero.
    pub fn from_bytes(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// Returns its bytes.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// Returns the 56 bits at its end, which level 2 has random: what decides about sampling.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the bits above are not wanted"
    )]
    pub const fn randomness(self) -> u64 {
        u128::from_be_bytes(self.0) as u64 & RANDOM
    }
}

impl SpanId {
    /// Returns four ids, each other than the rest, that follow from 62 random bits: all but the last two of these.
    pub fn four(random: u64) -> [Self; 4] {
        let first = (random & !0b11).max(0b100);
        [0b00, 0b01, 0b10, 0b11].map(|last| Self((first | last).to_be_bytes()))
    }

    /// Returns the id with these bytes; none if they are all zero.
    pub fn from_bytes(bytes: [u8; 8]) -> Option<Self> {
        (bytes != [0; 8]).then_some(Self(bytes))
    }

    /// Returns its bytes.
    pub const fn to_bytes(self) -> [u8; 8] {
        self.0
    }
}

impl TraceFlags {
    /// The mark of a trace that is recorded.
    pub const SAMPLED: Self = Self(1);
    /// The mark of a trace whose id is random as level 2 has it.
    pub const RANDOM: Self = Self(2);

    /// Returns the marks of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Tells whether the trace is recorded.
    pub const fn is_sampled(self) -> bool {
        self.0 & Self::SAMPLED.0 != 0
    }

    /// Returns the marks as the byte of a `traceparent`.
    pub const fn to_byte(self) -> u8 {
        self.0
    }
}

impl TraceContext {
    /// Reads a `traceparent`. Of a later version, it reads what level 2 knows of.
    ///
    /// Strict: anything else than 32, 16 and two lower-case hexadecimal digits, an id of zeros, version `ff`, and
    /// more than that in version `00`, is none.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (known, rest) = text.split_at_checked(LEN)?;
        let version = digits::<1>(&known[..2])?;
        if version == [0xff] || (version == [0] && !rest.is_empty()) {
            return None;
        }
        if rest.first().is_some_and(|first| *first != b'-') {
            return None;
        }
        if [2, 35, 52].iter().any(|at| known[*at] != b'-') {
            return None;
        }
        let [flags] = digits(&known[53..])?;
        Some(Self {
            trace_id: TraceId::from_bytes(digits(&known[3..35])?)?,
            span_id: SpanId::from_bytes(digits(&known[36..52])?)?,
            // Marks that are not known are not passed on.
            flags: TraceFlags(flags & (TraceFlags::SAMPLED.0 | TraceFlags::RANDOM.0)),
        })
    }

    /// Returns another span of the same trace.
    #[must_use]
    pub const fn with_span(self, span_id: SpanId) -> Self {
        Self { span_id, ..self }
    }
}

impl Carried {
    /// Returns the trace that these headers carry. Two different `traceparent` are none, and so is one that is not
    /// valid; then nobody looks at a `tracestate` either.
    pub fn of(headers: &[(ByteString, Bytes)]) -> Option<Self> {
        let mut parents = named(headers, TRACEPARENT);
        let parent = parents.next()?;
        if parents.any(|other| other != parent) {
            return None;
        }
        let context = TraceContext::parse(parent)?;
        let is_plain =
            parent.len() <= MOST_PARENT_BYTES && parent.iter().all(|it| is_printable(*it));
        let as_it_came = is_plain
            .then(|| ByteString::try_from(parent.clone()).ok())
            .flatten();
        Some(Self {
            context,
            parent: as_it_came.unwrap_or_else(|| context.to_string().into()),
            state: state(headers),
        })
    }
}

/// Returns the states of all headers as one, if it may be passed on.
fn state(headers: &[(ByteString, Bytes)]) -> Option<ByteString> {
    let mut states = named(headers, TRACESTATE);
    let first = states.next()?;
    let mut whole = first.clone();
    for further in states {
        whole = [&whole[..], b",", &further[..]].concat().into();
    }
    let is_plain = whole.iter().all(|it| is_printable(*it) || *it == b'\t');
    if whole.is_empty() || whole.len() > MOST_STATE_BYTES || !is_plain {
        return None;
    }
    ByteString::try_from(whole).ok()
}

const fn is_printable(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

fn named<'a>(
    headers: &'a [(ByteString, Bytes)],
    wanted: &'static str,
) -> impl Iterator<Item = &'a Bytes> {
    let wanted = move |(name, _): &&(ByteString, Bytes)| name.eq_ignore_ascii_case(wanted);
    headers.iter().filter(wanted).map(|(_, value)| value)
}

/// Reads lower-case hexadecimal digits, two for each byte.
fn digits<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let (pairs, []) = text.as_chunks::<2>() else {
        return None;
    };
    if pairs.len() != N {
        return None;
    }
    for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(bytes)
}

const fn digit(character: u8) -> Option<u8> {
    match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    }
}

fn write_digits(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_digits(f, &self.0)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceId({self})")
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_digits(f, &self.0)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpanId({self})")
    }
}

impl fmt::Display for TraceContext {
    /// The `traceparent`, in version `00`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            trace_id,
            span_id,
            flags,
        } = self;
        write!(f, "00-{trace_id}-{span_id}-{:02x}", flags.0)
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceContext({self})")
    }
}

/// The bits that level 2 has random.
const RANDOM: u64 = (1 << 56) - 1;
/// Length of the members that every version has.
const LEN: usize = 55;
/// The longest parent that is passed on as it came; a longer one is written in version `00`.
const MOST_PARENT_BYTES: usize = 256;
/// The longest state that is passed on; a longer one is left out whole.
const MOST_STATE_BYTES: usize = 512;

#[cfg(test)]
mod tests;
