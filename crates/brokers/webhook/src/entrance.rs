//! The listeners that the requests of sources come to: one of their own, or one that is another part's and lends a path.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use semel_http::Limits;

/// The listener that the requests of a source come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Entrance {
    /// One at this address, which every source that names it shares.
    Own(SocketAddr),
    /// That of the gateway, whose address this is.
    Gateway(SocketAddr),
    /// That of the admin API, whose address this is. It puts a [`Caller`](semel_http::Caller) into the extensions of each
    /// request, and has checked its host; one without is refused.
    Admin(SocketAddr),
}

impl Entrance {
    /// The address, as it is asked for.
    pub const fn address(self) -> SocketAddr {
        match self {
            Self::Own(address) | Self::Gateway(address) | Self::Admin(address) => address,
        }
    }

    /// The setting of that address, if the listener is lent.
    pub const fn lender(self) -> Option<&'static str> {
        match self {
            Self::Own(_) => None,
            Self::Gateway(_) => Some("gateway.listen"),
            Self::Admin(_) => Some("admin.listen"),
        }
    }

    /// The bounds of the listener.
    pub(crate) const fn limits(self) -> Limits {
        match self {
            Self::Own(_) => LIMITS,
            Self::Gateway(_) => Limits::API,
            Self::Admin(_) => Limits::ADMIN,
        }
    }
}

impl From<SocketAddr> for Entrance {
    fn from(address: SocketAddr) -> Self {
        Self::Own(address)
    }
}

/// Shows the address.
impl fmt::Display for Entrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address().fmt(f)
    }
}

/// The bounds of what providers can take. A request has its own time; what is left of answers at the end is written at once.
pub(crate) const LIMITS: Limits = Limits {
    drain: Duration::from_secs(5),
    ..Limits::API
};
