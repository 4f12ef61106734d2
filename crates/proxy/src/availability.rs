//! The state of the upstreams, as far as it is known.

use std::fmt;

/// The state of the upstreams at a moment, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Availability {
    /// The upstreams, in the order of the settings.
    pub upstreams: Vec<UpstreamState>,
}

/// The state of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamState {
    /// Its URL.
    pub url: String,
    /// The last that it did was to answer, or to let itself be connected to. Nothing is known before the first probe.
    pub is_up: Option<bool>,
    /// The reason why it is not up, if it is not.
    pub reason: Option<String>,
}

impl Availability {
    /// Tells whether an upstream answers.
    pub fn is_up(&self) -> bool {
        self.upstreams.iter().any(|it| it.is_up == Some(true))
    }

    /// Tells whether no upstream answers; both this and [`Availability::is_up`] are false until the first probe.
    pub fn is_away(&self) -> bool {
        self.upstreams.iter().all(|it| it.is_up == Some(false))
    }
}

/// Tells what is wrong with each upstream that does not answer; nothing if there is none.
impl fmt::Display for Availability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for upstream in &self.upstreams {
            if let Some(reason) = &upstream.reason {
                write!(f, "{separator}{}: {reason}", upstream.url)?;
                separator = "; ";
            }
        }
        Ok(())
    }
}
