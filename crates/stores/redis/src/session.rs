//! State that all calls of a store share, and the running of scripts and commands.

use std::sync::{Arc, Mutex};

use redis::{Cmd, Value};
use semel_core::{Clock, Result, Timestamp};

use crate::buckets::{Buckets, Name};
use crate::error::strange;
use crate::script::{Call, Script, Scripts};
use crate::server::{Asked, Server};
use crate::sweep::position::Position;

/// State that all calls share.
pub(crate) struct Session {
    pub(crate) server: Server,
    pub(crate) scripts: Scripts,
    pub(crate) buckets: Buckets,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) allow_eviction: bool,
    /// Position at which the next sweep continues.
    pub(crate) swept_to: Mutex<Option<Position>>,
}

impl Session {
    pub(crate) fn is_cluster(&self) -> bool {
        self.server.is_cluster()
    }

    /// Creates a call of a script on a bucket.
    pub(crate) fn call<'s>(&self, script: &'s Script, bucket: usize) -> Call<'s> {
        Call::new(
            script,
            self.buckets.fixed(bucket),
            self.buckets.share(bucket),
            given(self.clock.as_ref()),
        )
    }

    /// Runs a script.
    pub(crate) async fn ask(&self, bucket: usize, call: &Call<'_>) -> Result<Reply> {
        let slot = self.buckets.slot(bucket);
        Reply::of(self.server.ask(slot, Asked::Script(call)).await?)
    }

    /// Runs a command that only reads, or can be repeated.
    pub(crate) async fn command(&self, bucket: usize, command: &Cmd) -> Result<Value> {
        let slot = self.buckets.slot(bucket);
        self.server.ask(slot, Asked::Command(command)).await
    }

    /// Returns the time on the store's clock, and the stamp that the bucket would give out next.
    pub(crate) async fn instant(&self, bucket: usize) -> Result<(Timestamp, u64)> {
        let mut call = self.call(&self.scripts.read, bucket);
        call.arg(*b"0").arg(*b"0");
        let mut reply = self.ask(bucket, &call).await?;
        Ok((reply.now()?, reply.int()?))
    }

    /// Creates a command on a key of a bucket.
    pub(crate) fn on(&self, verb: &str, bucket: usize, name: Name) -> Cmd {
        let mut command = redis::cmd(verb);
        command.arg(self.buckets.key(bucket, name));
        command
    }
}

/// Returns the clock argument of scripts.
pub(crate) fn given(clock: Option<&Arc<dyn Clock>>) -> Box<str> {
    match clock {
        None => "".into(),
        Some(clock) => clock.now().as_millis().to_string().into(),
    }
}

/// Answer of a script, read from the front.
pub(crate) struct Reply(std::vec::IntoIter<Value>);

impl Reply {
    pub(crate) fn of(value: Value) -> Result<Self> {
        match value {
            Value::Array(items) => Ok(Self(items.into_iter())),
            _ => Err(strange()),
        }
    }

    pub(crate) fn int(&mut self) -> Result<u64> {
        match self.0.next() {
            Some(Value::Int(number)) => u64::try_from(number).map_err(|_| strange()),
            _ => Err(strange()),
        }
    }

    pub(crate) fn now(&mut self) -> Result<Timestamp> {
        self.int().map(Timestamp::from_millis)
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>> {
        match self.0.next() {
            Some(Value::BulkString(bytes)) => Ok(bytes),
            Some(Value::SimpleString(text)) => Ok(text.into_bytes()),
            _ => Err(strange()),
        }
    }

    /// Reads bytes, or a number, which stands for something that is no record.
    pub(crate) fn value(&mut self) -> Result<Option<Vec<u8>>> {
        match self.0.next() {
            Some(Value::BulkString(bytes)) => Ok(Some(bytes)),
            Some(Value::Int(_)) => Ok(None),
            _ => Err(strange()),
        }
    }

    pub(crate) fn any(&mut self) -> Option<Value> {
        self.0.next()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }
}
