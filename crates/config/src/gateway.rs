//! `[gateway]`: a reverse proxy that gives an API idempotency keys, and its routes.

mod path;
mod proof;
mod route;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use http::{Method, Uri};
use semel_core::{Code, Window};
use semel_gateway::Route;

pub use self::proof::{JwtSettings, TenantProof};

use super::diagnostics::Diagnostics;
use super::fields::Fields;
use super::listener::{self, Certificate};
use super::node::{Node, Table, Value};
use super::secret::masked;

/// The paths at which, and below which, the claim API answers at the address of a gateway that serves it.
pub const CLAIM_PATHS: [&str; 4] = [
    "/v1/claims",
    "/v1/settle",
    "/v1/operations",
    "/v1/openapi.json",
];

/// A reverse proxy that gives an API idempotency keys.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a setting of its own"
)]
#[derive(Clone, Debug)]
pub struct GatewaySettings {
    /// Its address.
    pub listen: SocketAddr,
    /// Other processes may listen at the same address.
    pub reuse_port: bool,
    /// The URLs of the API's servers, one at least: scheme, host, perhaps a port and a path before all others.
    pub upstreams: Vec<Box<str>>,
    /// The certificates that servers are trusted by, in a PEM file; without one, those of the system.
    pub upstream_ca: Option<PathBuf>,
    /// Servers are spoken to in HTTP/2.
    pub upstream_http2: bool,
    /// The longest time for a connection to a server; twice that fits into the time of every route.
    pub connect_timeout: Duration,
    /// The time for which an idle connection to a server is kept.
    pub pool_idle: Duration,
    /// The longest wait for the answer to a request without a claim.
    pub unguarded_timeout: Duration,
    /// The time after which an upgraded connection ends if nothing came from either end.
    pub upgrade_idle: Duration,
    /// A server is told the name that the client asked for, instead of its own.
    pub keep_host: bool,
    /// A request is believed about the clients behind its sender.
    pub trust_forwarded: bool,
    /// The way in which servers are asked whether they answer.
    pub health: HealthSettings,
    /// The certificate that clients see; without one, they are answered in the clear.
    pub tls: Option<Certificate>,
    /// The keys by which JWTs are proved, where a route has its tenants from them.
    pub jwt: Option<JwtSettings>,
    /// The claim API is served at this address, too, below the [`CLAIM_PATHS`].
    pub claims: bool,
    /// The routes; the first that matches a request decides about it. The last matches every path.
    pub routes: Vec<RouteSettings>,
}

/// The way in which servers are asked whether they answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthSettings {
    /// The path that a server answers with 2xx or 3xx when it is well; without one, a connection is enough.
    pub path: Option<Box<str>>,
    /// The time between two probes.
    pub every: Duration,
    /// The longest time for an answer.
    pub timeout: Duration,
}

/// A route: the requests that it matches, and what becomes of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteSettings {
    /// The path of its requests: `/charges`, `/charges/*` for all below it, `*` for every path.
    pub path: Box<str>,
    /// The rules for requests of its methods.
    pub route: Route,
    /// The proof of a client's tenant, where the tenant has to be proved.
    pub proof: Option<TenantProof>,
}

impl RouteSettings {
    /// Tells whether every request that `other` matches is one of its own.
    fn covers(&self, other: &Self) -> bool {
        let has = |method: &Method| self.route.methods.contains(method);
        path::covers(&self.path, &other.path) && other.route.methods.iter().all(has)
    }
}

impl GatewaySettings {
    /// Names who answers at a path already: a route that names it, or paths that it is one of, or the claim API. Routes of every
    /// path leave some to others.
    pub(super) fn taken(&self, path: &str) -> Option<String> {
        let covers = |it: &&RouteSettings| *it.path != *path::ALL && path::covers(&it.path, path);
        if let Some(route) = self.routes.iter().find(covers) {
            return Some(format!("the route of `{}`", route.path));
        }
        let is_own = |root: &&str| path == *root || path::covers(&format!("{root}/*"), path);
        let is_taken = self.claims && CLAIM_PATHS.iter().any(is_own);
        is_taken.then(|| "the claim API (`claims = true`)".to_owned())
    }
}

/// Tells whether a path is one alone, which nobody behind the gateway reads as another.
pub(super) fn is_exact(path: &str) -> bool {
    path::check(path).is_ok() && !path.contains('*')
}

/// Tells whether an address of a gateway is written, be it one of use or not.
pub(super) fn is_served(fields: &Fields<'_>) -> bool {
    has(fields, "gateway", "listen")
}

/// Reads `[gateway]`; nothing if it names no address.
pub(super) fn read(fields: &mut Fields<'_>, window: Window) -> Option<GatewaySettings> {
    let is_written = |name| fields.is_written(name);
    if !is_written("gateway") {
        // Nobody who serves no API wants to see its settings.
        fields.ignore(&["gateway"]);
        return None;
    }
    let is_alone = !is_written("pipelines") && !has(fields, "claims", "listen");
    let pipelines = names_in(fields, "pipelines");
    let mut table = fields.optional_sub("gateway")?;
    let is_meant = is_alone || table.is_written("upstream") || table.is_written("routes");
    if is_meant && !table.is_written("listen") {
        table.missing("listen");
    }
    if (is_meant || table.is_written("listen")) && !table.is_written("upstream") {
        table.missing("upstream");
    }
    let listen = table.parsed_with("listen", |text| {
        text.parse().map_err(|_| {
            "must be an address and a port, as in `127.0.0.1:8080`; `0.0.0.0:8080` for all addresses"
                .to_owned()
        })
    });
    let reuse_port = table.boolean_or("reuse_port", false);
    let upstreams = upstreams(&mut table, listen);
    let upstream_ca = table.path("upstream_ca");
    let has_tls = |all: &Vec<Box<str>>| all.iter().any(|url| url.starts_with("https:"));
    if let Some(node) = table.node("upstream_ca")
        && upstreams.as_ref().is_some_and(|all| !has_tls(all))
    {
        table.fault(
            "upstream_ca",
            node,
            "goes with an upstream of `https`, and there is none",
        );
    }
    let upstream_http2 = table.boolean_or("upstream_http2", false);
    let connect_timeout = table.positive_or("connect_timeout", Duration::from_secs(3));
    let pool_idle = table.positive_or("pool_idle", Duration::from_secs(4));
    let unguarded_timeout = table.positive_or("unguarded_timeout", Duration::from_secs(60));
    let upgrade_idle = table.positive_or("upgrade_idle", Duration::from_secs(3_600));
    let keep_host = table.boolean_or("keep_host", true);
    let trust_forwarded = table.boolean_or("trust_forwarded", false);
    let of_all = route::read(&mut table, window);
    let of_all = of_all.map(|(route, proof)| RouteSettings {
        path: path::ALL.into(),
        route,
        proof,
    });
    let items = table.tables("routes");
    let mut routes = routes(&table, items, window);
    let health = health(&mut table);
    let tls = listener::tls(&mut table);
    let jwt = proof::jwt(&mut table);
    let claims = table.boolean_or("claims", false);
    routes.push(of_all);
    let routes: Option<Vec<_>> = routes.into_iter().collect();
    if let Some(routes) = &routes {
        check_together(&table, (routes, items), &pipelines);
        check_times(&table, (routes, items), connect_timeout);
        if let (Some(tls), Some(jwt)) = (&tls, &jwt) {
            check_proofs(&table, (routes, items), tls.as_ref(), jwt.as_ref());
        }
        if claims {
            check_claims(&table, (routes, items));
        }
    }
    table.finish();
    Some(GatewaySettings {
        listen: listen?,
        reuse_port,
        upstreams: upstreams?,
        upstream_ca,
        upstream_http2,
        connect_timeout,
        pool_idle,
        unguarded_timeout,
        upgrade_idle,
        keep_host,
        trust_forwarded,
        health: health?,
        tls: tls?,
        jwt: jwt?,
        claims,
        routes: routes?,
    })
}

/// The names in a table that was written.
fn names_in(fields: &Fields<'_>, table: &str) -> Vec<String> {
    let mut entries = fields.entries();
    let found = entries.find(|(known, _)| *known == table);
    match found.map(|(_, node)| &node.value) {
        Some(Value::Table(table)) => table.keys().cloned().collect(),
        Some(_) | None => Vec::new(),
    }
}

/// Tells whether a table has a setting.
fn has(fields: &Fields<'_>, table: &str, name: &str) -> bool {
    names_in(fields, table).iter().any(|known| known == name)
}

fn upstreams(table: &mut Fields<'_>, listen: Option<SocketAddr>) -> Option<Vec<Box<str>>> {
    let read = table.one_or_many("upstream", |text| {
        let place = upstream(text)?;
        if let (Some(listen), Some(place)) = (listen, place)
            && listener::meet(listen, place)
        {
            return Err(
                "is the gateway's own address: it would call itself; name the server behind it"
                    .to_owned(),
            );
        }
        Ok(Box::from(text))
    })?;
    let is_twice = |at: usize| read[..at].contains(&read[at]);
    if let Some(node) = table.node("upstream")
        && (0..read.len()).any(is_twice)
    {
        table.fault("upstream", node, "names a server twice");
        return None;
    }
    Some(read)
}

/// Checks the URL of a server; returns its address if that needs no resolver.
fn upstream(text: &str) -> Result<Option<SocketAddr>, String> {
    let shown = masked(text);
    let invalid = |why: &str| format!("`{shown}` {why}, as in `http://127.0.0.1:9000`");
    let is_none = || invalid("is no URL of a server; write scheme, host and port");
    let uri: Uri = text.parse().map_err(|_| is_none())?;
    let port = match uri.scheme_str() {
        Some("http") => 80,
        Some("https") => 443,
        Some(_) | None => return Err(is_none()),
    };
    let authority = uri.authority().ok_or_else(is_none)?;
    let host = authority.host();
    if host.is_empty() {
        return Err(is_none());
    }
    if authority.as_str().contains('@') {
        return Err(invalid(
            "has a user, which no request of a client would be sent with; write it without",
        ));
    }
    if uri.query().is_some() || text.contains('#') {
        return Err(invalid("has more than a path; write it without"));
    }
    if !path::is_shortest(uri.path()) {
        return Err(invalid(
            "has a path that can be written in a shorter way, without `//`, `..`, `;` and `%`; write it so",
        ));
    }
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = match host {
        "localhost" => Some(IpAddr::from(Ipv4Addr::LOCALHOST)),
        _ => host.parse().ok(),
    };
    Ok(host.map(|host| SocketAddr::new(host, authority.port_u16().unwrap_or(port))))
}

/// Reads the routes that are written, each with the settings of the gateway where it has none.
fn routes(table: &Fields<'_>, items: &[Node], window: Window) -> Vec<Option<RouteSettings>> {
    let written: Table = table
        .entries()
        .map(|(name, node)| (name.clone(), node.clone()))
        .collect();
    let routes = items.iter().enumerate().map(|(at, item)| {
        let Value::Table(own) = &item.value else {
            let noun = item.value.noun();
            table.fault("routes", item, format!("must be tables, not {noun}"));
            return None;
        };
        let found = Diagnostics::default();
        let route = {
            let mut path = table.below("routes");
            path.push(at.to_string());
            found.item(&path);
            let node = Node {
                value: Value::Table(route::inherited(&written, own)),
                origin: item.origin.clone(),
            };
            one(&node, path, window, &found)
        };
        table.found.take_over(found);
        route
    });
    routes.collect()
}

fn one(
    node: &Node,
    path: Vec<String>,
    window: Window,
    found: &Diagnostics,
) -> Option<RouteSettings> {
    let mut fields = Fields::of(node, path, found)?;
    if !fields.is_written("path") {
        fields.missing("path");
    }
    let path = fields.parsed_with("path", path::check);
    let route = route::read(&mut fields, window);
    for of_gateway in [
        "listen",
        "reuse_port",
        "upstream",
        "tls",
        "jwt",
        "health",
        "claims",
    ] {
        fields.reject(of_gateway, "belongs to `[gateway]`, not to a route");
    }
    fields.finish();
    let (route, proof) = route?;
    Some(RouteSettings {
        path: path?,
        route,
        proof,
    })
}

fn health(table: &mut Fields<'_>) -> Option<HealthSettings> {
    let mut health = table.optional_sub("health")?;
    let path = health.parsed_with("path", |text| {
        let is_path = text.starts_with('/') && text.parse::<Uri>().is_ok();
        is_path
            .then(|| text.into())
            .ok_or_else(|| format!("`{text}` is no path of a server; write it like `/healthz`"))
    });
    let every = health.positive_or("every", Duration::from_secs(2));
    let timeout = health.positive_or("timeout", Duration::from_secs(2));
    health.finish();
    Some(HealthSettings {
        path,
        every,
        timeout,
    })
}

/// Checks that what a tenant is to be proved by is there, and that what is there proves one.
fn check_proofs(
    table: &Fields<'_>,
    (routes, items): (&[RouteSettings], &[Node]),
    tls: Option<&Certificate>,
    jwt: Option<&JwtSettings>,
) {
    for (at, RouteSettings { proof, .. }) in routes.iter().enumerate() {
        let Some(message) = proof.as_ref().and_then(|it| it.lacks(tls, jwt)) else {
            continue;
        };
        match items.get(at) {
            Some(item) if own(item, "tenant").is_some() => {
                fault_of(table, (at, item), "tenant", message.to_owned());
            }
            // The gateway says so itself.
            Some(_) => {}
            None => table.fault_at(&["tenant"], message),
        }
    }
    let is_by_jwt = |it: &RouteSettings| matches!(it.proof, Some(TenantProof::Jwt(_)));
    if jwt.is_some() && !routes.iter().any(is_by_jwt) {
        let message = "is used by no route: set `tenant = \"jwt:CLAIM\"`, or remove it";
        table.fault_at(&["jwt", "keys"], message);
    }
}

/// Checks the routes against each other, and against the pipelines, whose keys are others.
fn check_together(
    table: &Fields<'_>,
    (routes, items): (&[RouteSettings], &[Node]),
    pipelines: &[String],
) {
    let fault = |item, name, message| fault_of(table, item, name, message);
    for (at, settings) in routes.iter().enumerate() {
        let item = items.get(at).map(|item| (at, item));
        let operation = &settings.route.operation;
        if pipelines.iter().any(|name| **name == **operation) {
            let message = format!(
                "`{operation}` is the name of a pipeline, whose keys are others; set another name"
            );
            match item {
                Some(item) if own(item.1, "operation").is_some() => {
                    fault(item, "operation", message);
                }
                // The gateway says so itself.
                Some(_) => {}
                None => table.fault_at(&["operation"], message),
            }
        }
        let covering = routes[..at].iter().find(|it| it.covers(settings));
        if let (Some(item), Some(covering)) = (item, covering) {
            let message = format!(
                "no request comes this far: the route of `{}` before it takes them all; put this one before it",
                covering.path
            );
            fault(item, "path", message);
        }
    }
}

/// Checks that no route is for paths at which the claim API answers.
fn check_claims(table: &Fields<'_>, (routes, items): (&[RouteSettings], &[Node])) {
    for (at, item) in items.iter().enumerate() {
        let Some(settings) = routes.get(at) else {
            return;
        };
        let is_own = |root: &&&str| path::covers(&format!("{root}/*"), &settings.path);
        let own = CLAIM_PATHS.iter().find(is_own);
        let own = own.or_else(|| CLAIM_PATHS.iter().find(|root| ***root == *settings.path));
        if let Some(root) = own {
            let message = format!(
                "no request comes this far: with `claims = true`, the claim API answers at {root} and below; remove the \
                 route, or serve claims at an address of their own, with `[claims] listen`"
            );
            fault_of(table, (at, item), "path", message);
        }
    }
}

/// Checks that an upstream that is away never looks like one that is slow: a connection is tried again, and must end before
/// the time of a route does.
fn check_times(
    table: &Fields<'_>,
    (routes, items): (&[RouteSettings], &[Node]),
    connect_timeout: Duration,
) {
    for (at, RouteSettings { route, .. }) in routes.iter().enumerate() {
        if route.upstream_timeout >= connect_timeout.saturating_mul(3)
            || route.upstream_timeout.is_zero()
        {
            continue;
        }
        let message = format!(
            "must be at least three times `connect_timeout`, which is `{}`: else a server that is away looks like one \
             that is slow; set `connect_timeout` shorter",
            semel_core::units::duration_text(connect_timeout)
        );
        match items.get(at) {
            Some(item) if own(item, "upstream_timeout").is_some() => {
                fault_of(table, (at, item), "upstream_timeout", message);
            }
            // The gateway says so itself.
            Some(_) => {}
            None if table.is_written("upstream_timeout") => {
                table.fault_at(&["upstream_timeout"], message);
            }
            None => table.fault_at(
                &["connect_timeout"],
                "must be at most a third of `upstream_timeout`",
            ),
        }
    }
}

/// Reports a fault of a route, at the line of its setting if it has one.
fn fault_of(table: &Fields<'_>, (at, item): (usize, &Node), name: &str, message: String) {
    let path = format!("gateway.routes.{at}.{name}");
    let origin = own(item, name).map_or(&item.origin, |node| &node.origin);
    table
        .found
        .fault(origin, &path, Code::InvalidConfig, message);
}

/// A setting that a route itself has.
fn own<'n>(item: &'n Node, name: &str) -> Option<&'n Node> {
    match &item.value {
        Value::Table(table) => table.get(name),
        _ => None,
    }
}
