//! Messages that others send, answered once they are kept: the journal of the store takes them, and the source reads them
//! there. Not for deciding about them, which the journal does.

mod answer;
mod gate;
mod identity;
mod lanes;
mod messages;
mod options;
mod refusals;
mod sequence_gate;
mod source;

pub(crate) use gate::Gate;
pub(crate) use lanes::Lanes;
pub(crate) use messages::MAX_HEADERS_BYTES;
pub use options::{IngestOptions, Token};
pub(crate) use refusals::Refusals;
pub use sequence_gate::{GateOptions, GatedSource};
pub use source::IngestSource;
