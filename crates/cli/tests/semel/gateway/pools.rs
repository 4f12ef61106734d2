//! Several servers of an API behind one gateway.

use rustix::process::Signal;
use semel_conformance::certificates::Authority;

use super::server::Gateway;
use super::upstream::Upstream;
use crate::site::wait_for;

/// The servers are gateways themselves, which encrypt.
#[test]
fn servers_behind_tls_and_http2_share_requests_and_one_may_die() {
    let authority = Authority::new();
    let shown = authority.issue("api", &[]);
    let tls = format!(
        "[gateway.tls]\ncert = {:?}\nkey = {:?}\n",
        shown.cert, shown.key
    );
    let upstreams = [(); 2].map(|()| Upstream::start());
    let [one, other] = [0, 1].map(|at| Gateway::start(&upstreams[at], &tls));
    let urls = [&one, &other].map(|it| format!("https://localhost:{}", it.port()));
    let lines = format!(
        "upstream_http2 = true\nupstream_ca = {:?}\n[gateway.health]\nevery = \"100ms\"\n",
        authority.path
    );
    let front = Gateway::start_before(&urls.join(" "), &lines);
    let arrived = || upstreams.each_ref().map(|it| it.arrivals().len());
    for number in 0..10 {
        let key = format!("both-{number}");
        assert_eq!(front.post("/charges", &key, "{}").status, 201);
        assert!(front.post("/charges", &key, "{}").is_replay());
    }
    let shared = arrived();
    assert_eq!(shared.iter().sum::<usize>(), 10, "{shared:?}");
    assert!(shared.iter().all(|count| *count > 0), "{shared:?}");
    one.signal(Signal::KILL);
    one.ended();
    // A connection that breaks under a request leaves a doubt; one that was seen to break is not used.
    let mut probes = (0..).map(|number| front.post("/charges", &format!("probe-{number}"), "{}"));
    wait_for("two answers, one for each turn", || {
        let next = [probes.next(), probes.next()];
        next.iter().flatten().all(|answer| answer.status == 201)
    });
    let before = arrived()[1];
    for number in 0..10 {
        let answer = front.post("/charges", &format!("left-{number}"), "{}");
        assert_eq!(answer.status, 201, "{answer:?}");
    }
    assert_eq!(arrived()[1], before + 10);
    assert_eq!(arrived()[0], shared[0]);
    front.stopped().done();
    other.stopped().done();
}
