//! The sockets that systemd hands over, as `sd_listen_fds_with_names` reads them: `LISTEN_FDS` of them from descriptor 3 on,
//! named by `LISTEN_FDNAMES`, for the process `LISTEN_PID`.

use std::env;

use listenfd::ListenFd;
use semel_core::{Error, ErrorKind, Result};
use semel_http::Sockets;

/// Takes the sockets that were handed over to this process, and their variables out of the environment. To be called
/// before any thread begins.
///
/// # Errors
///
/// `InvalidConfig`: the variables contradict each other, or a descriptor is no socket of TCP
pub(crate) fn handed_over() -> Result<Sockets> {
    let names = names(|name| env::var(name).ok(), std::process::id())?;
    let mut sockets = Sockets::default();
    if names.is_empty() {
        // They are for another process, if there are any.
        return Ok(sockets);
    }
    let mut descriptors = ListenFd::from_env();
    for (at, name) in names.iter().enumerate() {
        let socket = descriptors.take_tcp_listener(at).map_err(|error| {
            let number = FIRST + at;
            let message = format!(
                "LISTEN_FDS: descriptor {number}, named `{name}`, cannot be listened at; it must be a socket of TCP \
                 (ListenStream= with a port)"
            );
            Error::new(ErrorKind::InvalidConfig, message).with_source(error)
        })?;
        if let Some(socket) = socket {
            sockets.add(name, socket)?;
        }
    }
    Ok(sockets)
}

/// Reads the names of the sockets that were handed over to process `id`; none if there are none.
fn names(variable: impl Fn(&str) -> Option<String>, id: u32) -> Result<Vec<String>> {
    let invalid = |why: String| Error::new(ErrorKind::InvalidConfig, why);
    let number = |name: &str| -> Result<Option<u32>> {
        let Some(text) = variable(name) else {
            return Ok(None);
        };
        let number = text.parse();
        let number =
            number.map_err(|_| invalid(format!("{name}: `{text}` is not a whole number")))?;
        Ok(Some(number))
    };
    if number("LISTEN_PID")? != Some(id) {
        return Ok(Vec::new());
    }
    let count = match number("LISTEN_FDS")? {
        None | Some(0) => return Ok(Vec::new()),
        Some(count) => usize::try_from(count).unwrap_or(usize::MAX),
    };
    let Some(names) = variable("LISTEN_FDNAMES") else {
        if count > MOST {
            return Err(invalid(format!("LISTEN_FDS: there are no {count} sockets")));
        }
        return Ok(vec!["unknown".to_owned(); count]);
    };
    let names: Vec<_> = names.split(':').map(str::to_owned).collect();
    if names.len() != count {
        let why = format!(
            "LISTEN_FDNAMES: names {} sockets, and LISTEN_FDS says {count}",
            names.len()
        );
        return Err(invalid(why));
    }
    Ok(names)
}

/// The descriptor of the first socket.
const FIRST: usize = 3;
/// More sockets than anybody hands over.
const MOST: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Vec<String>> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        names(variable, 7)
    }

    #[test]
    fn sockets_are_for_the_process_that_is_named() {
        let fds = ("LISTEN_FDS", "2");
        for none in [
            &[][..],
            &[fds],
            &[fds, ("LISTEN_PID", "8")],
            &[("LISTEN_PID", "7")],
        ] {
            assert_eq!(read(none).expect("sound"), [""; 0]);
        }
        let mine = ("LISTEN_PID", "7");
        assert_eq!(read(&[fds, mine]).expect("sound"), ["unknown", "unknown"]);
        let named = [fds, mine, ("LISTEN_FDNAMES", "gateway:claims")];
        assert_eq!(read(&named).expect("sound"), ["gateway", "claims"]);
    }

    #[test]
    fn variables_that_cannot_be_are_refused() {
        let mine = ("LISTEN_PID", "7");
        for (variables, said) in [
            (
                &[("LISTEN_PID", "me")][..],
                "LISTEN_PID: `me` is not a whole number",
            ),
            (
                &[mine, ("LISTEN_FDS", "-1")],
                "LISTEN_FDS: `-1` is not a whole number",
            ),
            (
                &[mine, ("LISTEN_FDS", "70000")],
                "LISTEN_FDS: there are no 70000 sockets",
            ),
            (
                &[mine, ("LISTEN_FDS", "2"), ("LISTEN_FDNAMES", "gateway")],
                "LISTEN_FDNAMES: names 1 sockets, and LISTEN_FDS says 2",
            ),
        ] {
            assert_eq!(read(variables).expect_err("refused").to_string(), said);
        }
    }
}
