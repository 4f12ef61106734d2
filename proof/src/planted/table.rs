//! Every bug that the sources can be built with.

mod consumer;
mod gateway;
mod ingest;
mod layers;
#[cfg(test)]
mod list;
mod once;
mod protocol;
mod relay;

use super::build::Suite;
#[cfg(test)]
pub(super) use list::ELSEWHERE;

/// A bug behind `semel_core::planted("…")`.
#[derive(Debug)]
pub(super) struct Bug {
    /// The name in the sources. `M` numbers are those of the list of mutants that the project began
    /// with.
    pub(super) name: &'static str,
    /// The class whose promise it breaks.
    pub(super) class: &'static str,
    /// The wrong behaviour.
    pub(super) what: &'static str,
    /// The packages that it is in.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "what it says is held against the sources")
    )]
    pub(super) within: &'static [&'static str],
    /// The tests that must see it, or the first tier that must.
    pub(super) suite: Suite,
    /// The words in the names of those tests; nothing for a tier.
    pub(super) seen_by: &'static [&'static str],
    /// The tiers of the proof that must see it besides.
    pub(super) tiers: &'static [&'static str],
}

impl Bug {
    const fn and(self, tiers: &'static [&'static str]) -> Self {
        Self { tiers, ..self }
    }

    /// The same bug, which the model of the protocol, whose workers are its own, has as well.
    const fn and_in_the_model(self, tiers: &'static [&'static str]) -> Self {
        let within = WITH_MODEL;
        Self {
            within,
            tiers,
            ..self
        }
    }
}

/// All bugs.
pub(super) fn bugs() -> impl Iterator<Item = &'static Bug> {
    [
        protocol::BUGS,
        consumer::BUGS,
        ingest::BUGS,
        once::BUGS,
        layers::BUGS,
        gateway::BUGS,
        relay::BUGS,
    ]
    .into_iter()
    .flatten()
}

const ENGINE: &str = "semel-engine";
const GATEWAY: &str = "semel-gateway";
const CLAIMS: &str = "semel-claims";
const LISTENER: &str = "semel-http";
const PROXY: &str = "semel-proxy";
const KAFKA: &str = "semel-broker-kafka";
const WITH_MODEL: &[&str] = &[ENGINE, MODEL];
const MODEL: &str = "proof";
const UNIT: Suite = Suite::Library(ENGINE);
const WORLD: Suite = Suite::Tests(ENGINE, "engine");
const LAYERS: Suite = Suite::Tests(ENGINE, "layers");
const BROKER: Suite = Suite::Tests(KAFKA, "kafka");
const HTTP: Suite = Suite::Tests(GATEWAY, "gateway");
const CLAIMED: Suite = Suite::Tests(CLAIMS, "claims");
const PROXIED: Suite = Suite::Tests(PROXY, "proxy");
const PROXY_UNIT: Suite = Suite::Library(PROXY);
const LISTENER_UNIT: Suite = Suite::Library(LISTENER);

const fn engine(
    name: &'static str,
    class: &'static str,
    what: &'static str,
    suite: Suite,
    seen_by: &'static [&'static str],
) -> Bug {
    Bug {
        name,
        class,
        what,
        within: &[ENGINE],
        suite,
        seen_by,
        tiers: &[],
    }
}

/// A bug that is seen by tests that need a server.
const fn kafka(
    name: &'static str,
    class: &'static str,
    what: &'static str,
    seen_by: &'static [&'static str],
) -> Bug {
    Bug {
        name,
        class,
        what,
        within: &[KAFKA],
        suite: BROKER,
        seen_by,
        tiers: &[],
    }
}
