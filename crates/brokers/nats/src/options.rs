//! Settings of the source and the sink, and the check that they make sense.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use semel_core::{Error, ErrorKind, Result};
use semel_tls::Tls;

use crate::address::{Address, redacted};

/// Settings of a source.
#[derive(Clone, PartialEq, Eq)]
pub struct Options {
    /// Addresses of the servers, parted by commas: `nats://user:password@host:4222,nats://other`, or
    /// `nats://token@host`. With `tls://` a connection without TLS is refused. User and password are those of the first
    /// that has any, percent-encoded.
    pub url: String,
    /// A `.creds` file with a user's token and key, instead of a user and password.
    pub credentials_file: Option<PathBuf>,
    /// Encryption settings; where any is set, a connection without TLS is refused whatever the url says.
    pub tls: Tls,
    /// The stream; it must exist.
    pub stream: String,
    /// The durable consumer; created where there is none. Sources with the same consumer share the work.
    pub consumer: String,
    /// Only messages on this subject, which may have wildcards. Only a consumer that Semel creates takes it over; one
    /// that is there must have it already.
    pub filter_subject: Option<String>,
    /// Time for which a delivery is held without being extended: the `ack_wait` of a consumer that Semel creates.
    pub lease: Duration,
    /// Deliveries that may be held at once, over all sources of the consumer.
    pub max_ack_pending: u32,
    /// The longest message. Of a longer one, the delivery carries the length and the first
    /// [`HEAD_BYTES`](crate::HEAD_BYTES).
    pub max_message_bytes: usize,
}

impl Options {
    /// Returns options with a lease of 10 seconds, 1,000 held deliveries, messages of at most 8 MiB.
    pub fn new(
        url: impl Into<String>,
        stream: impl Into<String>,
        consumer: impl Into<String>,
    ) -> Self {
        Self {
            url: url.into(),
            credentials_file: None,
            tls: Tls::default(),
            stream: stream.into(),
            consumer: consumer.into(),
            filter_subject: None,
            lease: Duration::from_secs(10),
            max_ack_pending: 1_000,
            max_message_bytes: 8 << 20,
        }
    }

    /// Returns the server's address, of options that make sense.
    pub(crate) fn address(&self) -> Result<Address> {
        self.check()?;
        Address::new(&self.url, self.credentials_file.clone(), self.tls.clone())
    }

    fn check(&self) -> Result<()> {
        name("stream", &self.stream)?;
        name("consumer", &self.consumer)?;
        if let Some(filter) = &self.filter_subject {
            subject("filter subject", filter, true)?;
        }
        if self.lease < LEAST_LEASE {
            return Err(invalid("the lease must be a second at least"));
        }
        if self.max_ack_pending == 0 {
            return Err(invalid("max_ack_pending must be 1 at least"));
        }
        Ok(())
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("url", &redacted(&self.url))
            .field("credentials_file", &self.credentials_file)
            .field("tls", &self.tls)
            .field("stream", &self.stream)
            .field("consumer", &self.consumer)
            .field("filter_subject", &self.filter_subject)
            .field("lease", &self.lease)
            .field("max_ack_pending", &self.max_ack_pending)
            .field("max_message_bytes", &self.max_message_bytes)
            .finish()
    }
}

/// Settings of a sink.
#[derive(Clone, PartialEq, Eq)]
pub struct SinkOptions {
    /// See [`Options::url`].
    pub url: String,
    /// See [`Options::credentials_file`].
    pub credentials_file: Option<PathBuf>,
    /// See [`Options::tls`].
    pub tls: Tls,
    /// The subject to publish to, which some stream must take in.
    pub subject: String,
    /// The longest wait for the confirmations of a batch.
    pub timeout: Duration,
}

impl SinkOptions {
    /// Returns options with a timeout of 10 seconds.
    pub fn new(url: impl Into<String>, subject: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            credentials_file: None,
            tls: Tls::default(),
            subject: subject.into(),
            timeout: Duration::from_secs(10),
        }
    }

    /// Returns the server's address, of options that make sense.
    pub(crate) fn address(&self) -> Result<Address> {
        self.check()?;
        Address::new(&self.url, self.credentials_file.clone(), self.tls.clone())
    }

    fn check(&self) -> Result<()> {
        subject("subject", &self.subject, false)?;
        if self.timeout.is_zero() {
            return Err(invalid("the timeout must be longer than nothing"));
        }
        Ok(())
    }
}

impl fmt::Debug for SinkOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkOptions")
            .field("url", &redacted(&self.url))
            .field("credentials_file", &self.credentials_file)
            .field("tls", &self.tls)
            .field("subject", &self.subject)
            .field("timeout", &self.timeout)
            .finish()
    }
}

/// The shortest lease: a shorter one would be over before a message is through a busy machine.
const LEAST_LEASE: Duration = Duration::from_secs(1);

/// Checks a name of a stream or consumer, which becomes a part of subjects.
fn name(what: &str, name: &str) -> Result<()> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || ".*>/\\".contains(c);
    if name.is_empty() || name.contains(bad) {
        return Err(invalid(format!(
            "{name:?} cannot be the name of a {what}: no blanks, dots, slashes, `*` or `>`"
        )));
    }
    Ok(())
}

fn subject(what: &str, subject: &str, wildcards: bool) -> Result<()> {
    let bad = |c: char| c.is_whitespace() || c.is_control() || (!wildcards && "*>".contains(c));
    if subject.split('.').any(str::is_empty) || subject.contains(bad) {
        return Err(invalid(format!("{subject:?} cannot be a {what}")));
    }
    Ok(())
}

pub(crate) fn invalid(message: impl Into<Box<str>>) -> Error {
    Error::new(ErrorKind::InvalidConfig, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_never_shown() {
        let url = "nats://me:s3cret@here:1,nats://t0ken@there";
        let source = Options::new(url, "S", "c");
        let sink = SinkOptions::new(url, "s");
        let shown = format!("{source:?} {sink:?}");
        assert!(
            !shown.contains("s3cret") && !shown.contains("t0ken"),
            "{shown}"
        );
        assert!(
            shown.contains("here:1") && shown.contains("there"),
            "{shown}"
        );
    }

    #[test]
    fn nonsense_is_refused() {
        let good = || Options::new("nats://x", "S", "c");
        let filter = |filter: &str| Options {
            filter_subject: Some(filter.to_owned()),
            ..good()
        };
        assert!(good().check().is_ok() && filter("a.*.>").check().is_ok());
        for bad in [
            Options::new("nats://x", "a.b", "c"),
            Options::new("nats://x", "S", ""),
            filter("a..b"),
            filter("a b"),
            Options {
                lease: Duration::from_millis(999),
                ..good()
            },
            Options {
                max_ack_pending: 0,
                ..good()
            },
        ] {
            let error = bad.check().expect_err("nonsense");
            assert_eq!(error.kind(), ErrorKind::InvalidConfig, "{bad:?}");
        }
        assert!(SinkOptions::new("nats://x", "a.b").check().is_ok());
        assert!(SinkOptions::new("nats://x", "a.*").check().is_err());
    }
}
