//! Orders: planned, carried out, and refused once their plan no longer holds.

mod doubts;
mod failures;
mod refusals;
mod verbs;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use semel_admin::Lent;
use semel_core::port::store::ListQuery;
use semel_core::port::transfer::AnyTransferStore;
use semel_core::{
    AnyStore, Audited, ClaimId, ClaimRequest, Clock, Key, Operation, Parked, Reason, Recovery,
    Scope, Start, StateKind, Store, Timestamp,
};
use semel_http::{Caller, Role, Tenant};
use serde_json::{Value, json};

use crate::site::Site;

/// A service over a store that holds doubts.
pub(crate) struct Doubtful {
    pub(crate) site: Site,
    pub(crate) store: AnyStore,
}

impl Doubtful {
    /// One whose store has these keys in doubt, of the tenant `acme`.
    pub(crate) async fn of(keys: &[String]) -> Self {
        let site = Site::new();
        let memory = site.memory();
        let store = AnyStore::new(Arc::clone(&memory));
        site.store.send_replace(Some(Lent {
            store: store.clone(),
            trail: Some(AnyTransferStore::new(memory)),
            runner: None,
        }));
        let doubtful = Self { site, store };
        doubtful.doubt("acme", keys).await;
        doubtful
    }

    /// One with so many doubts.
    pub(crate) async fn with(count: usize) -> Self {
        Self::of(&numbered(0, count)).await
    }

    /// Leaves these keys of a tenant in doubt, each with its message.
    pub(crate) async fn doubt(&self, tenant: &str, keys: &[String]) {
        let now = self.site.clock.now().as_millis();
        let requests = (0..).zip(keys).map(|(at, key)| ClaimRequest {
            start: Start::Marked(Recovery::Park),
            lease: Duration::from_secs(1),
            ..ClaimRequest::new(scope(tenant), self::key(key), claim_id(now, at))
        });
        let requests: Arc<[_]> = requests.collect();
        self.store.claim(requests).await.expect("claims");
        self.site.clock.advance(Duration::from_secs(2));
        while self.store.sweep(10_000).await.expect("a sweep").more {}
        let messages = keys.iter().map(|key| Parked {
            scope: scope(tenant),
            key: Some(self::key(key)),
            reason: Reason::InDoubt.code().into(),
            detail: "no answer".into(),
            transport: None,
            coordinates: "in:1".into(),
            headers: Vec::new(),
            payload: Bytes::from_static(b"secret"),
            since: Timestamp::EPOCH,
        });
        let messages: Arc<[_]> = messages.collect();
        self.store.park(messages).await.expect("messages");
        // The doubts are quiet.
        self.site.clock.advance(Duration::from_secs(61));
    }

    /// The states of keys of a tenant.
    pub(crate) async fn states(&self, tenant: &str, keys: &[String]) -> Vec<Option<StateKind>> {
        let operations = keys.iter().map(|key| operation(tenant, key));
        let records = self.store.get(operations.collect()).await.expect("records");
        let states = records.into_iter().map(|it| it.map(|it| it.state.kind()));
        states.collect()
    }

    /// The audit trail, but for messages that were dropped.
    pub(crate) async fn audit(&self) -> Vec<Audited> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let query = ListQuery {
                after,
                limit: 1_000,
                ..ListQuery::default()
            };
            let page = self.store.list_audit(&query).await.expect("the trail");
            all.extend(page.items.into_iter().filter(|it| &*it.action != "drop"));
            after = page.next;
            if after.is_none() {
                return all;
            }
        }
    }

    /// Plans as this caller, and expects a plan.
    pub(crate) async fn plan(&self, action: &str, body: &Value, caller: &Caller) -> Value {
        let path = format!("/v1/{action}/plan");
        let (status, plan) = self.site.post(&path, body, Some(caller.clone())).await;
        assert_eq!(status, 200, "{path}: {plan}");
        plan
    }

    /// Carries out the plan that a body has the token of.
    pub(crate) async fn carry_out(
        &self,
        action: &str,
        plan: &Value,
        caller: &Caller,
    ) -> (u16, Value) {
        let body = json!({ "token": plan["token"], "reason": "not at the provider" });
        let path = format!("/v1/{action}/do");
        self.site.post(&path, &body, Some(caller.clone())).await
    }

    /// The same, and expects that it was done.
    pub(crate) async fn done(&self, action: &str, plan: &Value, caller: &Caller) -> Value {
        let (status, done) = self.carry_out(action, plan, caller).await;
        assert_eq!(status, 200, "{action}: {done}");
        done
    }
}

pub(crate) fn operator(name: &str) -> Caller {
    Caller {
        name: name.into(),
        role: Role::Operator,
        tenant: None,
    }
}

pub(crate) fn operator_of(name: &str, tenant: &str) -> Caller {
    Caller {
        tenant: Some(Tenant::new(tenant)),
        ..operator(name)
    }
}

pub(crate) fn scope(tenant: &str) -> Scope {
    Scope::new(tenant, "pay").expect("a scope")
}

pub(crate) fn key(text: &str) -> Key {
    Key::parse(text).expect("a key")
}

pub(crate) fn operation(tenant: &str, text: &str) -> Operation {
    Operation::new(scope(tenant), key(text))
}

pub(crate) fn numbered(from: usize, to: usize) -> Vec<String> {
    (from..to).map(|at| format!("pay-{at}")).collect()
}

/// The member of each change.
pub(crate) fn each<'v>(answer: &'v Value, member: &str) -> Vec<&'v str> {
    let changes = answer["changes"].as_array().expect("changes");
    let texts = changes.iter().map(|it| it[member].as_str());
    texts.map(Option::unwrap_or_default).collect()
}

fn claim_id(now: u64, at: u64) -> ClaimId {
    ClaimId::from_u128(u128::from(now) << 64 | u128::from(at))
}
