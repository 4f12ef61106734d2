//! The beginning of the journal: found or made, with the rights that it needs.

use semel_core::producer::ProducerName;
use semel_core::{Code, Error, ErrorKind, Result};

use super::RedisProducers;
use crate::buckets::{Buckets, Name, OF_CLUSTER, producers_key, settings_slot};
use crate::error::{foreign, of_begin, strange};
use crate::script::Call;
use crate::server::Asked;
use crate::session::Reply;

/// The format of the journal of producers that this version creates and knows.
pub const PRODUCERS_FORMAT: i64 = 1;

/// Finds the journal, or makes it where a producer is opened; returns its buckets.
pub(super) async fn begin(journal: &RedisProducers, is_wanted: bool) -> Result<Option<Buckets>> {
    let server = journal.server().await?;
    let prefix = &journal.address.prefix;
    let beside = Buckets::new(prefix, 1);
    let keys = vec![producers_key(prefix), beside.key(0, Name::Scratch)];
    let mut call = Call::new(&journal.scripts.begin, keys, [0; 4], "".into());
    let buckets = if journal.address.is_cluster {
        OF_CLUSTER
    } else {
        1
    };
    call.arg(if is_wanted { *b"1" } else { *b"0" })
        .arg(PRODUCERS_FORMAT.to_string())
        .arg(buckets.to_string());
    let answer = server
        .ask_raw(settings_slot(), &Asked::Script(&call))
        .await?;
    let answer = answer.map_err(|error| match error.code() {
        Some("WRONGTYPE") => foreign(prefix).with_source(error),
        _ => of_begin(error),
    })?;
    let mut reply = Reply::of(answer)?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).map_err(|_| strange());
    let (format, count) = (text(reply.bytes()?)?, text(reply.bytes()?)?);
    if format.is_empty() {
        return Ok(None);
    }
    let format: i64 = format.parse().map_err(|_| foreign(prefix))?;
    if format > PRODUCERS_FORMAT {
        return Err(newer(prefix, format));
    }
    let count = count.parse().ok().filter(|count| *count > 0);
    match count {
        Some(count) if format == PRODUCERS_FORMAT => Ok(Some(Buckets::new(prefix, count))),
        _ => Err(foreign(prefix)),
    }
}

/// Tries the rights on the node of a producer's bucket: nodes of a cluster have users of their own.
pub(super) async fn try_rights(
    journal: &RedisProducers,
    buckets: &Buckets,
    name: &ProducerName,
) -> Result<()> {
    let bucket = buckets.of_producer(name.as_str());
    let slot = buckets.slot(bucket);
    if slot == settings_slot() {
        return Ok(());
    }
    let scratch = || buckets.key(bucket, Name::Scratch);
    let keys = vec![scratch(), scratch()];
    let mut call = Call::new(&journal.scripts.begin, keys, [0; 4], "".into());
    call.arg(*b"2");
    let server = journal.server().await?;
    let answer = server.ask_raw(slot, &Asked::Script(&call)).await?;
    answer.map(drop).map_err(of_begin)
}

fn newer(prefix: &str, format: i64) -> Error {
    let message = format!(
        "the journal of producers under the prefix `{prefix}` has format {format}, this version knows \
         {PRODUCERS_FORMAT}; use a newer version"
    );
    Error::new(ErrorKind::InvalidConfig, message)
        .with_code(Code::StoreNewer)
        .not_applied()
}
