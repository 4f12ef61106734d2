//! The ways in which a listener comes to its socket, and the moment from which on it has clients.

use std::net::SocketAddr;

use semel_core::Result;
use semel_http::{Listener, Reserved, Sockets};
use tokio::sync::oneshot;

/// The address of a listener.
pub(crate) struct Door {
    address: SocketAddr,
    /// The address of other processes, until this one is ready.
    reserved: Option<(Reserved, oneshot::Sender<Listener>)>,
    is_handed_over: bool,
}

/// The listener, once it has clients.
pub(crate) type Opened = oneshot::Receiver<Listener>;

impl Door {
    /// Listens at the socket that was handed over for it, if there is one; else at an address of its own, or at one that
    /// it shares with other processes. There it begins to listen when it is opened.
    ///
    /// # Errors
    ///
    /// Those of [`Sockets::take`], [`Listener::bind`] and [`Reserved::new`]
    pub(crate) async fn new(
        name: &str,
        address: SocketAddr,
        is_shared: bool,
        sockets: &mut Sockets,
    ) -> Result<(Self, Opened)> {
        let setting = format!("{name}.listen");
        let (sender, opened) = oneshot::channel();
        let taken = sockets.take(&setting, name, address)?;
        let is_handed_over = taken.is_some();
        if taken.is_none() && is_shared {
            let reserved = Reserved::new(&setting, address)?;
            let door = Self {
                address: reserved.address(),
                reserved: Some((reserved, sender)),
                is_handed_over,
            };
            return Ok((door, opened));
        }
        let listener = match taken {
            Some(listener) => listener,
            None => Listener::bind(&setting, address).await?,
        };
        let door = Self {
            address: listener.address(),
            reserved: None,
            is_handed_over,
        };
        // The receiver is returned.
        let _ = sender.send(listener);
        Ok((door, opened))
    }

    /// Its address, with the port that the system chose if none was asked for.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// True if clients may have come before this process did, and wait for it.
    pub(crate) fn is_handed_over(&self) -> bool {
        self.is_handed_over
    }

    /// Listens from now on, if it does not yet.
    ///
    /// # Errors
    ///
    /// `Unavailable`: it cannot
    pub(crate) fn open(&mut self) -> Result<()> {
        if let Some((reserved, sender)) = self.reserved.take() {
            // Where nobody waits for it, a stop was asked for.
            let _ = sender.send(reserved.listen()?);
        }
        Ok(())
    }
}
