//! Describes the reports of what runs beside pipelines: claims, routes, relays and producers.

use semel_core::units::duration_text;
use semel_operate::check::{ClaimsReport, ProducerReport, RelayReport, RouteReport};

use super::pipeline::{StoreText, findings};
use crate::{Answer, Block};

impl Answer for ClaimsReport {
    fn describe(&self, block: &mut Block) {
        let open_to = if self.needs_token {
            format!("callers with a token, of which {} are good", self.tokens)
        } else {
            "every program of this machine".to_owned()
        };
        block
            .heading(&format!("claims: {}", self.verdict.as_str()))
            .field(
                "address",
                match &*self.listener {
                    "gateway.listen" => format!("{}, that of the gateway", self.claims),
                    _ => self.claims.clone(),
                },
            )
            .field("open to", open_to)
            .field("store", StoreText(&self.store))
            .field(
                "window",
                format!("{}, unless a claim names one", duration_text(self.window.0)),
            )
            .field(
                "lease",
                format!("{}, unless a claim names one", duration_text(self.lease.0)),
            );
        findings(&self.findings, block);
    }
}

impl Answer for RouteReport {
    fn describe(&self, block: &mut Block) {
        let upstreams = self.upstreams.join(", ");
        block
            .heading(&format!("{}: {}", self.title(), self.verdict.as_str()))
            .field("serves", format!("{} before {upstreams}", self.gateway))
            .field("guards", self.methods.join(", "))
            .field("class", format!("{}: {}", self.class, self.guarantee))
            .field("doubt", &self.doubt)
            .field("unprotected", self.unprotected.join("; "))
            .field("key", &self.key)
            .field("operation", &self.operation)
            .some("tenant", self.tenant.as_ref())
            .field("fingerprint", self.fingerprint.join(" + "))
            .field("store", StoreText(&self.store))
            .field("outcomes", &self.outcomes)
            .field("window", duration_text(self.window.0))
            .field(
                "times",
                format!(
                    "waits {} for the first request; an answer may take {}; lease {}",
                    duration_text(self.wait.0),
                    duration_text(self.timeout.0),
                    duration_text(self.lease.0)
                ),
            );
        findings(&self.findings, block);
    }
}

impl Answer for RelayReport {
    fn describe(&self, block: &mut Block) {
        let count = |count: Option<u64>| count.map_or("unknown".to_owned(), |it| it.to_string());
        block
            .heading(&format!("relay {}: {}", self.relay, self.verdict.as_str()))
            .field("stream", &self.stream)
            .field("store", &self.store)
            .field("sink", &self.sink)
            .field("lease", duration_text(self.lease.0))
            .field("waiting", count(self.waiting))
            .field("dead", count(self.dead));
        findings(&self.findings, block);
    }
}

impl Answer for ProducerReport {
    fn describe(&self, block: &mut Block) {
        block
            .heading(&format!(
                "producer {}: {}",
                self.producer,
                self.verdict.as_str()
            ))
            .field("state", if self.frozen { "frozen" } else { "open" })
            .field("waiting", self.waiting)
            .field("oldest", duration_text(self.oldest.0));
        findings(&self.findings, block);
    }
}
