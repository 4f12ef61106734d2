//! The meaning of an error of the service below, for the request that it failed to bring.

use std::error::Error;
use std::io;

/// The certainty about a request for which there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It can never be sent: it is not tried again.
    Unsendable,
    /// No byte of it was sent: surely not applied.
    Unsent,
    /// Some of it may have been sent: maybe applied.
    Sent,
}

/// Tells what an error says of the request, by its whole chain of causes: a refused connection means that nothing was
/// sent, as does every failure to connect that a client of hyper-util (feature `hyper`) or reqwest (feature `reqwest`)
/// names as such. Whatever else happens may have happened after the request was sent.
///
/// The service below must not follow redirects: the failed connection may then be that to the second server, after the
/// first one has carried the request out. A `ReqwestService` follows none.
pub fn fault_of(error: &(dyn Error + 'static)) -> Fault {
    let mut next = Some(error);
    while let Some(cause) = next {
        if let Some(fault) = known(cause) {
            return fault;
        }
        next = cause.source();
    }
    Fault::Sent
}

fn known(error: &(dyn Error + 'static)) -> Option<Fault> {
    #[cfg(feature = "reqwest")]
    if let Some(error) = error.downcast_ref::<reqwest::Error>() {
        return if error.is_builder() {
            Some(Fault::Unsendable)
        } else if error.is_connect() {
            Some(Fault::Unsent)
        } else {
            None
        };
    }
    #[cfg(feature = "hyper")]
    if let Some(error) = error.downcast_ref::<hyper_util::client::legacy::Error>() {
        return error.is_connect().then_some(Fault::Unsent);
    }
    // Of the kinds of a failed connection, no other is sure to come from connecting.
    let refused = error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    refused.then_some(Fault::Unsent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Outer(io::Error);

    impl std::fmt::Display for Outer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("no answer")
        }
    }

    impl Error for Outer {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn only_a_refused_connection_says_that_nothing_was_sent() {
        let of = |kind: io::ErrorKind| fault_of(&Outer(kind.into()));
        assert_eq!(of(io::ErrorKind::ConnectionRefused), Fault::Unsent);
        for kind in [
            io::ErrorKind::ConnectionReset,
            io::ErrorKind::ConnectionAborted,
            io::ErrorKind::BrokenPipe,
            io::ErrorKind::HostUnreachable,
            io::ErrorKind::UnexpectedEof,
            io::ErrorKind::TimedOut,
            io::ErrorKind::Other,
        ] {
            assert_eq!(of(kind), Fault::Sent, "{kind}");
        }
    }
}
