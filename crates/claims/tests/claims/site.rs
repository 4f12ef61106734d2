//! A service for tests, and requests to it.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request};
use semel_claims::{Settings, router};
use semel_conformance::TestClock;
use semel_core::{Clock, Store};
use semel_http::{Caller, Role, Tenant};
use semel_store_memory::MemoryStore;
use serde_json::{Value, json};
use tower::ServiceExt;

pub(crate) struct Site {
    pub(crate) clock: TestClock,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) router: Router,
    pub(crate) caller: Option<Caller>,
}

/// An answer as a client sees it.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) text: String,
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::with(|settings| settings)
    }

    pub(crate) fn with(change: impl FnOnce(Settings) -> Settings) -> Self {
        let clock = TestClock::new();
        let store = Arc::new(MemoryStore::new(Arc::new(clock.clone())));
        let router = router(Arc::clone(&store), change(settings(&clock)));
        Self {
            clock,
            store,
            router,
            caller: Some(Caller::loopback()),
        }
    }

    /// The same clock over another store, or the same one through a layer.
    pub(crate) fn over(store: impl Store + Clone, clock: TestClock) -> Self {
        let settings = settings(&clock);
        Self::over_with(store, clock, settings)
    }

    /// The same with these settings.
    pub(crate) fn over_with(
        store: impl Store + Clone,
        clock: TestClock,
        settings: Settings,
    ) -> Self {
        let router = router(store, settings);
        Self {
            store: Arc::new(MemoryStore::new(Arc::new(clock.clone()))),
            clock,
            router,
            caller: Some(Caller::loopback()),
        }
    }

    /// Another server on the same store.
    pub(crate) fn restarted(&self) -> Self {
        Self {
            clock: self.clock.clone(),
            store: Arc::clone(&self.store),
            router: router(Arc::clone(&self.store), settings(&self.clock)),
            caller: self.caller.clone(),
        }
    }

    /// The same server, called by somebody else.
    pub(crate) fn as_caller(&self, role: Role, tenant: Option<&str>) -> Self {
        Self {
            clock: self.clock.clone(),
            store: Arc::clone(&self.store),
            router: self.router.clone(),
            caller: Some(Caller {
                name: "tester".into(),
                role,
                tenant: tenant.map(Tenant::new),
            }),
        }
    }

    pub(crate) async fn send(&self, mut request: Request<Body>) -> Answer {
        if let Some(caller) = &self.caller {
            request.extensions_mut().insert(caller.clone());
        }
        let response = self.router.clone().oneshot(request).await;
        let response = response.expect("the router never fails");
        let (parts, body) = response.into_parts();
        let text = to_bytes(body, usize::MAX).await.expect("a body");
        Answer {
            status: parts.status.as_u16(),
            headers: parts.headers,
            text: String::from_utf8(text.to_vec()).expect("UTF-8"),
        }
    }

    /// Posts a body that is JSON by its content type, whatever it is.
    pub(crate) async fn post_text(&self, path: &str, text: impl Into<Body>) -> Answer {
        let request = Request::post(path)
            .header("host", "127.0.0.1:8181")
            .header("content-type", "application/json");
        self.send(request.body(text.into()).expect("a request"))
            .await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.post_text(path, body.to_string()).await
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        let request = Request::get(path).body(Body::empty());
        self.send(request.expect("a request")).await
    }

    /// Claims, and returns the decision.
    pub(crate) async fn claim(&self, body: &Value) -> Value {
        let answer = self.post("/v1/claims", body).await;
        assert_eq!(answer.status, 200, "{body}: {answer:?}");
        answer.json()
    }

    /// Claims what nobody has claimed, and returns the name of the claim.
    pub(crate) async fn granted(&self, body: &Value) -> String {
        let decision = self.claim(body).await;
        assert_eq!(decision["decision"], "granted", "{decision}");
        decision["claim"].as_str().expect("a claim").to_owned()
    }

    pub(crate) async fn step(&self, claim: &str, verb: &str, body: &Value) -> Answer {
        self.post(&format!("/v1/claims/{claim}/{verb}"), body).await
    }

    /// Reports a step that is accepted, and returns the state.
    pub(crate) async fn state_after(&self, claim: &str, verb: &str, body: &Value) -> String {
        let answer = self.step(claim, verb, body).await;
        assert_eq!(answer.status, 200, "{verb} {body}: {answer:?}");
        answer.json()["state"].as_str().expect("a state").to_owned()
    }

    pub(crate) fn advance(&self, secs: u64) {
        self.clock.advance(Duration::from_secs(secs));
    }

    /// The time so many seconds ago, as clients write it.
    pub(crate) fn ago(&self, secs_ago: u64) -> String {
        let ago = Duration::from_secs(secs_ago);
        self.clock.now().minus(ago).to_string()
    }

    /// The time in so many seconds, as clients write it.
    pub(crate) fn at(&self, secs: u64) -> String {
        self.clock.now().plus(Duration::from_secs(secs)).to_string()
    }
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }

    /// Checks that this is a problem, and returns its members.
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!(self.status, status, "{self:?}");
        assert_eq!(self.headers["content-type"], "application/problem+json");
        let problem = self.json();
        assert_problem(&problem, status, code);
        problem
    }
}

/// Checks a problem, also one in a batch.
pub(crate) fn assert_problem(problem: &Value, status: u16, code: &str) {
    assert_eq!(problem["status"], status, "{problem}");
    assert_eq!(problem["code"], code, "{problem}");
    assert_eq!(problem["type"], format!("urn:semel:problem:{code}"));
    assert!(problem["detail"].is_string(), "{problem}");
}

/// A claim of the operation `charge` with these further members.
pub(crate) fn claim_of(key: impl Into<Value>, more: Value) -> Value {
    let mut body = json!({"operation": "charge", "key": key.into()});
    let Value::Object(more) = more else {
        panic!("members");
    };
    body.as_object_mut().expect("an object").extend(more);
    body
}

pub(crate) fn settings(clock: &TestClock) -> Settings {
    let mut settings = Settings::default();
    settings.surroundings.clock = Arc::new(clock.clone());
    settings
}
