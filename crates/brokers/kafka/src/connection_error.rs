//! Reason why no connection to the cluster comes about. librdkafka gives the cause in words, beside a code that says
//! little, and afterwards only that no broker is there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::time::Instant;

/// The last report of librdkafka.
#[derive(Default)]
pub(crate) struct ConnectionError {
    last: Mutex<Option<(Cause, Instant)>>,
    /// Set once it has reported that no broker is there.
    all_are_down: AtomicBool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// The broker's certificate is not accepted here.
    Theirs,
    /// Ours is missing, or not accepted there.
    Ours,
    /// The broker does not speak TLS.
    Plain,
    /// The broker seems to want TLS or a login.
    Encrypted,
    /// No handshake, for some other reason.
    Handshake,
    /// User or password.
    Login,
    /// The broker does not know this way of logging in.
    Mechanism,
    /// Nobody listens there.
    Refused,
    /// The host name does not exist.
    Unresolved,
    /// There is no route to the host.
    NoRoute,
    /// A broker may listen, and does not answer.
    Silent,
}

impl ConnectionError {
    /// Notes a report of librdkafka.
    pub(crate) fn note(&self, error: &KafkaError, reason: &str) {
        let code = error.rdkafka_error_code();
        if code == Some(RDKafkaErrorCode::AllBrokersDown) {
            self.all_are_down.store(true, Ordering::Relaxed);
        }
        let cause = code.and_then(|code| cause(code, reason));
        if let Some(cause) = cause {
            *self.lock() = Some((cause, Instant::now()));
        }
    }

    /// Returns the cause and the remedy, where `code` says only that there is no connection.
    pub(crate) fn why(&self, code: RDKafkaErrorCode) -> Option<&'static str> {
        let last = *self.lock();
        let (cause, _) = last.filter(|(_, at)| says_little(code) && at.elapsed() < KEPT)?;
        Some(cause.words()).filter(|_| !cause.is_of_the_way())
    }

    /// Returns the reason why no broker is there, where that is all there is to say.
    pub(crate) fn unreached(&self, code: RDKafkaErrorCode) -> Option<&'static str> {
        let last = *self.lock();
        let (cause, _) = last.filter(|(_, at)| says_little(code) && at.elapsed() < KEPT)?;
        Some(cause.words()).filter(|_| cause.is_of_the_way())
    }

    /// Returns whether no broker is there, and the reason is known: waiting longer tells nothing more.
    pub(crate) fn is_plain(&self) -> bool {
        self.all_are_down.load(Ordering::Relaxed) && self.lock().is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Cause, Instant)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The context of a client that has no other.
#[derive(Clone, Default)]
pub(crate) struct Watch(pub(crate) Arc<ConnectionError>);

impl ClientContext for Watch {
    fn error(&self, error: KafkaError, reason: &str) {
        self.0.note(&error, reason);
    }
}

impl rdkafka::consumer::ConsumerContext for Watch {}

fn says_little(code: RDKafkaErrorCode) -> bool {
    matches!(
        code,
        RDKafkaErrorCode::SSL
            | RDKafkaErrorCode::Authentication
            | RDKafkaErrorCode::SaslAuthenticationFailed
            | RDKafkaErrorCode::AllBrokersDown
            | RDKafkaErrorCode::BrokerTransportFailure
            | RDKafkaErrorCode::OperationTimedOut
            | RDKafkaErrorCode::Resolve
    )
}

/// Finds the cause in the words of librdkafka and OpenSSL; words that name none are no cause.
fn cause(code: RDKafkaErrorCode, reason: &str) -> Option<Cause> {
    let said = reason.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|it| said.contains(it));
    if matches!(
        code,
        RDKafkaErrorCode::Authentication | RDKafkaErrorCode::SaslAuthenticationFailed
    ) {
        return Some(if says(&["unsupported sasl mechanism", "no support for"]) {
            Cause::Mechanism
        } else {
            Cause::Login
        });
    }
    if says(&["could not be verified", "verify failed"]) {
        return Some(Cause::Theirs);
    }
    if says(&["ssl authentication might be", "alert", "handshake failure"]) {
        return Some(Cause::Ours);
    }
    if says(&[
        "plaintext broker listener",
        "wrong version number",
        "unknown protocol",
    ]) {
        return Some(Cause::Plain);
    }
    if says(&["ssl listener", "might require sasl"]) {
        return Some(Cause::Encrypted);
    }
    if code == RDKafkaErrorCode::SSL {
        return Some(Cause::Handshake);
    }
    if code == RDKafkaErrorCode::Resolve || says(&["failed to resolve"]) {
        return Some(Cause::Unresolved);
    }
    if says(&["connection refused"]) {
        return Some(Cause::Refused);
    }
    if says(&["no route to host", "network is unreachable"]) {
        return Some(Cause::NoRoute);
    }
    says(&["timed out"]).then_some(Cause::Silent)
}

impl Cause {
    const fn words(self) -> &'static str {
        match self {
            Self::Theirs => {
                "the broker's certificate is not accepted: its authority is not in ssl.ca.location, its time \
                 is over, or it is for another name than the host in `brokers`"
            }
            Self::Ours => {
                "the broker wants to know us, or does not accept our certificate; correct \
                 ssl.certificate.location and ssl.key.location"
            }
            Self::Plain => {
                "the listener does not speak TLS; correct the port in `brokers`, or security.protocol"
            }
            Self::Encrypted => {
                "the listener ended the connection, as one does that wants TLS or a login; correct the port \
                 in `brokers`, or security.protocol"
            }
            Self::Handshake => {
                "no encrypted connection came about; compare security.protocol with the listener"
            }
            Self::Login => {
                "the cluster refused the user or the password; correct the sasl settings"
            }
            Self::Mechanism => {
                "the cluster does not know this way of logging in; correct sasl.mechanism"
            }
            Self::Refused => "connection refused",
            Self::Unresolved => "the name does not resolve",
            Self::NoRoute => "no route to the host",
            Self::Silent => "no answer in time",
        }
    }

    /// Returns whether the broker itself was never reached.
    const fn is_of_the_way(self) -> bool {
        matches!(
            self,
            Self::Refused | Self::Unresolved | Self::NoRoute | Self::Silent
        )
    }
}

/// Time for which a cause is still believed. Without a connection it is reported anew at every try.
const KEPT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: RDKafkaErrorCode, reason: &str) -> Option<&'static str> {
        let connection_error = ConnectionError::default();
        connection_error.note(&KafkaError::Global(code), reason);
        connection_error.why(RDKafkaErrorCode::AllBrokersDown)
    }

    #[test]
    fn a_cause_is_told_after_the_word_that_no_broker_is_there() {
        let (ssl, lost) = (
            RDKafkaErrorCode::SSL,
            RDKafkaErrorCode::BrokerTransportFailure,
        );
        for (code, reason, words) in [
            (
                ssl,
                "certificate verify failed: broker certificate could not be verified",
                "ssl.ca.location",
            ),
            (
                ssl,
                "SSL routines::tlsv13 alert certificate required",
                "ssl.certificate.location",
            ),
            (
                lost,
                "Disconnected: connecting to a PLAINTEXT broker listener?",
                "does not speak TLS",
            ),
            (
                lost,
                "might be caused by (connecting to a SSL listener?)",
                "security.protocol",
            ),
            (ssl, "whatever", "no encrypted connection"),
            (
                RDKafkaErrorCode::Authentication,
                "Invalid username or password",
                "sasl settings",
            ),
            (
                RDKafkaErrorCode::Authentication,
                "Unsupported SASL mechanism",
                "sasl.mechanism",
            ),
        ] {
            let told = told(code, reason).expect("a cause");
            assert!(told.contains(words), "{reason}: {told}");
        }
        assert_eq!(told(lost, "Connection refused"), None);
    }

    #[test]
    fn a_way_that_leads_nowhere_is_told_as_such() {
        let (lost, down) = (
            RDKafkaErrorCode::BrokerTransportFailure,
            RDKafkaErrorCode::AllBrokersDown,
        );
        for (code, reason, words) in [
            (
                lost,
                "127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms)",
                "connection refused",
            ),
            (
                RDKafkaErrorCode::Resolve,
                "Failed to resolve 'nohost.invalid:1': Name or service not known",
                "the name does not resolve",
            ),
            (
                lost,
                "Connection setup timed out in state CONNECT",
                "no answer in time",
            ),
        ] {
            let connection_error = ConnectionError::default();
            connection_error.note(&KafkaError::Global(code), reason);
            assert!(!connection_error.is_plain(), "another broker may be there");
            connection_error.note(&KafkaError::Global(down), "1/1 brokers are down");
            assert_eq!(connection_error.unreached(down), Some(words), "{reason}");
            assert!(connection_error.is_plain());
            let right = RDKafkaErrorCode::GroupAuthorizationFailed;
            assert_eq!(connection_error.unreached(right), None);
        }
    }

    #[test]
    fn a_cause_hides_no_other_code() {
        let connection_error = ConnectionError::default();
        connection_error.note(&KafkaError::Global(RDKafkaErrorCode::SSL), "verify failed");
        let right = RDKafkaErrorCode::GroupAuthorizationFailed;
        assert_eq!(connection_error.why(right), None);
        assert!(
            connection_error
                .why(RDKafkaErrorCode::AllBrokersDown)
                .is_some()
        );
    }
}
