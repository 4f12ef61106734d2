//! Why no connection to the cluster comes about. librdkafka tells the cause in words, beside a code that says
//! little, and behind it only that no broker is there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientContext;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use tokio::time::Instant;

/// What librdkafka said last.
#[derive(Default)]
pub(crate) struct Trouble {
    last: Mutex<Option<(Cause, Instant)>>,
    /// Whether it said that no broker is there.
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
    /// The name of the host is nobody's.
    Unresolved,
    /// No way leads there.
    NoRoute,
    /// Somebody may listen, and says nothing.
    Silent,
}

impl Trouble {
    /// Takes note of what librdkafka says.
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

    /// What is wrong and what to do, where `code` says no more than that there is no connection.
    pub(crate) fn why(&self, code: RDKafkaErrorCode) -> Option<&'static str> {
        let last = *self.lock();
        let (cause, _) = last.filter(|(_, at)| says_little(code) && at.elapsed() < KEPT)?;
        Some(cause.words()).filter(|_| !cause.is_of_the_way())
    }

    /// Why no broker is there, where that is all there is to say.
    pub(crate) fn unreached(&self, code: RDKafkaErrorCode) -> Option<&'static str> {
        let last = *self.lock();
        let (cause, _) = last.filter(|(_, at)| says_little(code) && at.elapsed() < KEPT)?;
        Some(cause.words()).filter(|_| cause.is_of_the_way())
    }

    /// Whether no broker is there, and it is known why: no waiting tells more.
    pub(crate) fn is_plain(&self) -> bool {
        self.all_are_down.load(Ordering::Relaxed) && self.lock().is_some()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Cause, Instant)>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The context of a client that has no other.
#[derive(Clone, Default)]
pub(crate) struct Watch(pub(crate) Arc<Trouble>);

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

/// The words are librdkafka's and OpenSSL's; whatever they do not tell is no cause.
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

    /// Whether the broker itself was never met.
    const fn is_of_the_way(self) -> bool {
        matches!(
            self,
            Self::Refused | Self::Unresolved | Self::NoRoute | Self::Silent
        )
    }
}

/// How long a cause is believed to be the one still. Without a connection it is told anew at every try.
const KEPT: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests {
    use super::*;

    fn told(code: RDKafkaErrorCode, reason: &str) -> Option<&'static str> {
        let trouble = Trouble::default();
        trouble.note(&KafkaError::Global(code), reason);
        trouble.why(RDKafkaErrorCode::AllBrokersDown)
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
            let trouble = Trouble::default();
            trouble.note(&KafkaError::Global(code), reason);
            assert!(!trouble.is_plain(), "another broker may be there");
            trouble.note(&KafkaError::Global(down), "1/1 brokers are down");
            assert_eq!(trouble.unreached(down), Some(words), "{reason}");
            assert!(trouble.is_plain());
            let right = RDKafkaErrorCode::GroupAuthorizationFailed;
            assert_eq!(trouble.unreached(right), None);
        }
    }

    #[test]
    fn a_cause_hides_no_other_code() {
        let trouble = Trouble::default();
        trouble.note(&KafkaError::Global(RDKafkaErrorCode::SSL), "verify failed");
        let right = RDKafkaErrorCode::GroupAuthorizationFailed;
        assert_eq!(trouble.why(right), None);
        assert!(trouble.why(RDKafkaErrorCode::AllBrokersDown).is_some());
    }
}
