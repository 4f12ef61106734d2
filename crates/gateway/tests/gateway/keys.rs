//! Keys, and what they stand for.

use axum::body::Body;
use axum::http::{HeaderName, Method, Request};
use semel_core::json::Pointer;
use semel_gateway::{BodyPart, Tenant, TenantFrom};

use crate::site::{Site, created, request, with};

const KEY: (&str, &str) = ("idempotency-key", "pay-1");

#[tokio::test]
async fn a_reused_key_is_refused_and_nothing_is_shown() {
    let site = Site::new(
        |_| {},
        async |_, _| Ok(crate::site::answer(201, "secret of the first")),
    );
    site.post("pay-1").await;
    let others = [
        with(&[KEY], r#"{"amount":999}"#),
        Request::post("/refunds")
            .header(KEY.0, KEY.1)
            .body(Body::empty())
            .expect("it"),
        Request::patch("/charges?test=1")
            .header(KEY.0, KEY.1)
            .body(Body::empty())
            .expect("it"),
        with(
            &[KEY, ("authorization", "Bearer other")],
            r#"{"amount":100}"#,
        ),
    ];
    for other in others {
        let seen = site.send(other).await;
        let members = seen.problem(422, "key-reused");
        assert!(!members.to_string().contains("secret of the first"));
        assert!(
            !members.to_string().contains("amount"),
            "what differs is not told: {members}"
        );
    }
    // The same value in other words is the same request.
    let same = with(&[KEY], "{ \"amount\": 100.0 }");
    site.send(same).await;
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn requests_without_a_key_pass_unless_one_is_required() {
    let site = Site::counting(|_| {});
    for call in [1, 2] {
        site.send(with(&[], "{}")).await.is_created(call, false);
    }
    assert_eq!(site.layer.counts().keyless, 2);
    let strict = Site::counting(|it| it.require_key = true);
    strict
        .send(with(&[], "{}"))
        .await
        .problem(400, "key-missing");
    strict
        .send(with(&[("idempotency-key", "")], "{}"))
        .await
        .problem(400, "key-invalid");
    let twice = [KEY, KEY];
    strict
        .send(with(&twice, "{}"))
        .await
        .problem(400, "key-invalid");
    assert_eq!((strict.calls(), strict.layer.counts().refused), (0, 3));
}

#[tokio::test]
async fn other_methods_pass_with_their_keys() {
    let site = Site::counting(|_| {});
    for (call, method) in [Method::GET, Method::PUT, Method::DELETE]
        .into_iter()
        .enumerate()
    {
        let mut request = request("pay-1");
        *request.method_mut() = method;
        site.send(request).await.is_created(call + 1, false);
    }
    assert_eq!(site.layer.counts().keyless, 0);
}

#[tokio::test]
async fn tenants_never_meet() {
    let name = HeaderName::from_static("x-tenant");
    let site = Site::counting(|it| it.tenant = TenantFrom::Header(name));
    for (tenant, call, is_replay) in [("a", 1, false), ("b", 2, false), ("a", 1, true)] {
        let seen = site.send(with(&[KEY, ("x-tenant", tenant)], "{}")).await;
        seen.is_created(call, is_replay);
    }
    site.post("pay-1").await.problem(400, "tenant-missing");

    let site = Site::counting(|it| it.tenant = TenantFrom::Extension);
    for (tenant, call, is_replay) in [("a", 1, false), ("b", 2, false), ("b", 2, true)] {
        // Callers of one tenant share its keys, whatever they authorize themselves with.
        let mut request = with(
            &[KEY, ("authorization", &format!("Bearer {call}{is_replay}"))],
            "{}",
        );
        request.extensions_mut().insert(Tenant::new(tenant));
        site.send(request).await.is_created(call, is_replay);
    }
}

#[tokio::test]
async fn routes_of_another_name_have_their_own_keys() {
    let store = crate::site::memory();
    let sites = ["charges", "refunds", "charges"].map(|name| {
        let store = std::sync::Arc::clone(&store);
        Site::over(
            store,
            |it| it.operation = name.into(),
            async |call, _| Ok(created(call)),
        )
    });
    for (site, is_replay) in sites.iter().zip([false, false, true]) {
        site.post("pay-1").await.is_created(1, is_replay);
    }
}

#[tokio::test]
async fn a_derived_key_goes_to_the_handler_and_answers_the_same_request() {
    let site = Site::new(
        |it| {
            it.derive = true;
            let order = Pointer::parse("/order").expect("a pointer");
            it.fingerprint.body = BodyPart::Fields(vec![order]);
        },
        async |call, request: Request<Body>| {
            assert_eq!(request.headers()["idempotency-key"].len(), 64);
            Ok(created(call))
        },
    );
    let [one, same, other] = [
        r#"{"order":1,"at":"10:00"}"#,
        r#"{"order":1,"at":"10:01"}"#,
        r#"{"order":2,"at":"10:00"}"#,
    ];
    site.send(with(&[], one)).await.is_created(1, false);
    site.send(with(&[], same)).await.is_created(1, true);
    site.send(with(&[], other)).await.is_created(2, false);
    // Two requests without the field are not the same request.
    for body in [r#"{"at":"10:00"}"#, r#"{"order":null}"#, "", "order=1"] {
        let members = site.send(with(&[], body)).await.problem(400, "key-missing");
        let detail = members["detail"].as_str().expect("it");
        assert!(detail.contains("/order"), "{detail}");
    }
    assert_eq!((site.calls(), site.layer.counts().refused), (2, 4));
    // The client's own key needs no field.
    let sent = with(&[("idempotency-key", &"k".repeat(64))], "{}");
    site.send(sent).await.is_created(3, false);
}

#[tokio::test]
async fn a_shadow_counts_what_has_no_field_to_derive_a_key_from() {
    let site = Site::counting(|it| {
        (it.derive, it.shadow) = (true, true);
        let order = Pointer::parse("/order").expect("a pointer");
        it.fingerprint.body = BodyPart::Fields(vec![order]);
    });
    for call in [1, 2] {
        site.send(with(&[], "{}")).await.is_created(call, false);
    }
    let counts = site.layer.counts();
    assert_eq!((counts.refused, counts.shadow_first), (2, 0));
}

#[tokio::test]
async fn settings_that_cannot_hold_are_refused_at_once() {
    let once = semel_engine::once::Once::new(crate::site::memory());
    let refused = |change: fn(&mut semel_gateway::Route)| {
        let mut route = semel_gateway::Route::default();
        change(&mut route);
        semel_gateway::IdempotencyLayer::new(&once, route).is_err()
    };
    assert!(refused(|it| it.methods.clear()));
    assert!(refused(|it| it.operation = "".into()));
    assert!(refused(|it| it.lease = std::time::Duration::ZERO));
    assert!(refused(|it| it.window = std::time::Duration::ZERO));
    assert!(!refused(|_| {}));
}
