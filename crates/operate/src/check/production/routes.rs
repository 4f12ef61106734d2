//! The list before production for a route of a gateway.

use semel_config::Settings;
use semel_core::units::duration_text;

use super::line::{Line, line_of};
use super::lines::people::alerts;
use super::{Production, Scrape};
use crate::check::gateway::RouteReport;

impl Production {
    /// Goes through those lines of the list that concern a route.
    pub fn of_route(report: &RouteReport, settings: &Settings, scrape: &Scrape) -> Self {
        let lines = vec![
            key(report),
            tenants(report),
            class(report),
            window(report),
            retry(report),
            store(report),
            encryption(settings),
            alerts("route", &report.operation, scrape),
        ];
        Self::of_lines(report.title(), lines)
    }
}

/// Returns the line of the findings that belong to it, if there are any.
fn found(report: &RouteReport, line: &'static str) -> Option<Line> {
    let findings = report.findings.iter();
    Line::of_findings(line, findings.filter(|it| line_of(it) == Some(line)))
}

fn key(report: &RouteReport) -> Line {
    let of = |code: &str| report.findings.iter().find(|it| it.code == code);
    if let Some(derived) = of("key-derived") {
        return Line::unknown("key", &*derived.message, &*derived.advice);
    }
    let passes = report
        .unprotected
        .iter()
        .any(|it| it == "requests without a key");
    if passes {
        return Line::unknown(
            "key",
            "requests without a key pass without protection",
            "if every client sends one, set `require_key = true`; else watch how many do not: \
             semel_gateway_requests_total",
        );
    }
    Line::pass("key", "every guarded request has one, or is refused")
}

fn tenants(report: &RouteReport) -> Line {
    let of_client = report
        .findings
        .iter()
        .find(|it| it.code == "tenant-of-client");
    match (of_client, &report.tenant) {
        (Some(finding), _) => Line::unknown("tenants", &*finding.message, &*finding.advice),
        (None, Some(tenant)) => Line::pass("tenants", format!("{tenant} is the tenant")),
        (None, None) => Line::unknown(
            "tenants",
            "callers with different Authorization never share an answer; whether yours are told apart by it is yours \
             to say",
            "if they are not, say where the tenant is: `tenant = \"header:X-Tenant\"`",
        ),
    }
}

fn class(report: &RouteReport) -> Line {
    let why = format!("{}: {}", report.class, report.guarantee);
    let in_shadow = report
        .findings
        .iter()
        .find(|it| it.code == "route-in-shadow");
    if let Some(finding) = in_shadow {
        return Line::fail("class", &*finding.message, &*finding.advice);
    }
    if let Some(found) = found(report, "class") {
        return found.after(&why);
    }
    Line::unknown(
        "class",
        format!("{why}; {}", report.doubt),
        "see that it is the truth about the servers behind the route",
    )
}

fn window(report: &RouteReport) -> Line {
    Line::unknown(
        "window",
        format!(
            "an answer is remembered for {}; for how long clients try again is theirs",
            duration_text(report.window.0)
        ),
        "ask the slowest client; a retry after the window is carried out again",
    )
}

fn retry(report: &RouteReport) -> Line {
    found(report, "retry").unwrap_or_else(|| {
        let timeout = duration_text(report.timeout.0);
        Line::pass(
            "retry",
            format!("an answer may take {timeout}, within the lease"),
        )
    })
}

fn store(report: &RouteReport) -> Line {
    found(report, "store").unwrap_or_else(|| Line::pass("store", &*report.store.url))
}

fn encryption(settings: &Settings) -> Line {
    let gateway = settings.gateway.as_ref();
    let is_open = gateway.is_some_and(|it| it.tls.is_none() && !it.listen.ip().is_loopback());
    if is_open {
        return Line::unknown(
            "encryption",
            "other machines reach the gateway, and it answers in the clear",
            "set `[gateway.tls]`, unless what stands before it encrypts",
        );
    }
    Line::pass(
        "encryption",
        "clients are on this machine, or see a certificate",
    )
}
