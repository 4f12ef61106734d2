//! Sockets that another program opened and hands over, as systemd does: nobody who connects is refused while one process
//! ends and the next one begins.

use std::net::{SocketAddr, TcpListener};

use semel_core::{Error, ErrorKind, Result};

use crate::listener::Listener;

/// Sockets that were handed over, until the listener of each has taken its own.
#[derive(Debug, Default)]
pub struct Sockets(Vec<Handed>);

#[derive(Debug)]
struct Handed {
    name: Box<str>,
    address: SocketAddr,
    socket: TcpListener,
}

impl Sockets {
    /// Adds a socket under a name, which whoever opened it has given to it.
    ///
    /// # Errors
    ///
    /// `Unavailable`: the system does not tell its address
    pub fn add(&mut self, name: &str, socket: TcpListener) -> Result<()> {
        let address = socket.local_addr().map_err(|error| {
            let message = format!("the socket named `{name}` that was handed over has no address");
            Error::new(ErrorKind::Unavailable, message).with_source(error)
        })?;
        self.0.push(Handed {
            name: name.into(),
            address,
            socket,
        });
        Ok(())
    }

    /// Takes the socket of a listener: the one with its name, or else the one with its address; nothing if there is none.
    /// `setting` names the address for people. A port of 0 is that of any socket with the name.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: the socket with its name has another address. `Unavailable`: the socket does not listen
    pub fn take(
        &mut self,
        setting: &str,
        name: &str,
        address: SocketAddr,
    ) -> Result<Option<Listener>> {
        let named = self.0.iter().position(|it| &*it.name == name);
        let found = named.or_else(|| self.0.iter().position(|it| it.address == address));
        let Some(at) = found else {
            return Ok(None);
        };
        let its = self.0[at].address;
        let is_same =
            its.ip() == address.ip() && (address.port() == 0 || its.port() == address.port());
        if !is_same {
            let message = format!(
                "{setting}: is {address}, and the socket named `{name}` that was handed over listens at {its}; make them \
                 the same"
            );
            return Err(Error::new(ErrorKind::InvalidConfig, message));
        }
        let socket = self.0.remove(at).socket;
        Listener::from_socket(setting, socket).map(Some)
    }

    /// Checks that every socket was taken: else clients would connect to it, and nobody would answer them.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: one was not; `names` are those that a socket can have
    pub fn check_taken(&self, names: &[&str]) -> Result<()> {
        let Some(Handed { name, address, .. }) = self.0.first() else {
            return Ok(());
        };
        let names: Vec<_> = names.iter().map(|it| format!("`{it}`")).collect();
        let message = format!(
            "the socket at {address}, named `{name}`, was handed over, and no listener of the configuration is at it: set \
             the address of one to {address}, or name the socket {} (FileDescriptorName= of systemd)",
            names.join(" or ")
        );
        Err(Error::new(ErrorKind::InvalidConfig, message))
    }
}

#[cfg(test)]
mod tests {
    use semel_core::Code;

    use super::*;

    fn sockets(names: &[&str]) -> (Sockets, Vec<SocketAddr>) {
        let mut sockets = Sockets::default();
        let addresses = names.iter().map(|name| {
            let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
            let address = socket.local_addr().expect("an address");
            sockets.add(name, socket).expect("it has an address");
            address
        });
        let addresses = addresses.collect();
        (sockets, addresses)
    }

    #[tokio::test]
    async fn a_listener_takes_the_socket_with_its_name_or_else_with_its_address() {
        let (mut sockets, addresses) = sockets(&["unknown", "gateway"]);
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let took = sockets.take("gateway.listen", "gateway", any);
        let took = took.expect("sound").expect("there");
        assert_eq!(took.address(), addresses[1]);
        let none = sockets.take("claims.listen", "claims", any).expect("sound");
        assert!(none.is_none());
        let left = sockets
            .check_taken(&["gateway", "claims"])
            .expect_err("one is left");
        let said = left.to_string();
        assert!(
            said.contains("named `unknown`, was handed over")
                && said.contains("`gateway` or `claims`"),
            "{said}"
        );
        let took = sockets.take("claims.listen", "claims", addresses[0]);
        assert_eq!(took.expect("sound").expect("there").address(), addresses[0]);
        sockets.check_taken(&["gateway"]).expect("none is left");
    }

    #[tokio::test]
    async fn a_socket_of_another_address_is_refused() {
        let (mut sockets, addresses) = sockets(&["gateway"]);
        let other = SocketAddr::from(([127, 0, 0, 1], 1));
        let refused = sockets.take("gateway.listen", "gateway", other).err();
        let refused = refused.expect("another address");
        assert_eq!(refused.code(), Code::InvalidConfig);
        let expected = format!(
            "gateway.listen: is 127.0.0.1:1, and the socket named `gateway` that was handed over listens at {}; make them \
             the same",
            addresses[0]
        );
        assert_eq!(refused.to_string(), expected);
    }
}
