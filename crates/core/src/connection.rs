//! The reasons why a connection to a server failed, in the words that people know from other tools.
//!
//! Not for decisions: each backend says of its own errors which may be retried.

use std::borrow::Cow;
use std::error::Error;
use std::io::{self, ErrorKind};

/// Finds the reason among `error` and its sources: `connection refused`, `the name does not resolve`,
/// `no route to the host`. `None` where none of them is an error of input or output.
pub fn cause(error: &(dyn Error + 'static)) -> Option<Cow<'static, str>> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(of_io(error));
        }
        next = error.source();
    }
    None
}

/// The reason of one error of input or output.
pub fn of_io(error: &io::Error) -> Cow<'static, str> {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".into(),
        ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable | ErrorKind::NetworkDown => {
            "no route to the host".into()
        }
        ErrorKind::TimedOut => "no answer in time".into(),
        ErrorKind::ConnectionReset
        | ErrorKind::ConnectionAborted
        | ErrorKind::BrokenPipe
        | ErrorKind::UnexpectedEof => "the other end closed the connection".into(),
        _ => {
            // Failed name resolution has no error kind of its own; these are the words of the standard
            // library and of tokio.
            let said = error.to_string();
            if ["failed to lookup address", "could not resolve"]
                .iter()
                .any(|it| said.starts_with(it))
            {
                return "the name does not resolve".into();
            }
            said.split_whitespace().collect::<Vec<_>>().join(" ").into()
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    #[derive(Debug)]
    struct Driver(io::Error);

    impl fmt::Display for Driver {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("error connecting to server")
        }
    }

    impl Error for Driver {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    fn told(error: io::Error) -> String {
        cause(&Driver(error)).expect("a cause").into_owned()
    }

    #[test]
    fn a_cause_is_found_behind_the_words_of_a_driver() {
        assert_eq!(
            told(ErrorKind::ConnectionRefused.into()),
            "connection refused"
        );
        let unknown = "failed to lookup address information: Name or service not known";
        assert_eq!(told(io::Error::other(unknown)), "the name does not resolve");
        assert_eq!(told(io::Error::other("odd\n thing")), "odd thing");
        assert_eq!(cause(&fmt::Error), None);
    }

    /// The words of this system's own resolver.
    #[test]
    fn a_name_that_nobody_has_does_not_resolve() {
        let looked = std::net::ToSocketAddrs::to_socket_addrs("nohost.invalid:1");
        let Err(error) = looked else {
            panic!("`.invalid` is a name of nobody's");
        };
        assert_eq!(of_io(&error), "the name does not resolve");
    }
}
