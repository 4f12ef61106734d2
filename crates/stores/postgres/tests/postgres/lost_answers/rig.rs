//! A connection that is cut before each answer of a call in turn.

use std::time::Duration;

use semel_conformance::proxy::Proxy;
use semel_core::port::store::ListQuery;
use semel_core::port::transfer::Item;
use semel_core::{
    Advice, AttemptLimits, Certainty, Code, Error, ErrorKind, Note, Parked, Step, Store,
};
use semel_store_postgres::{Options, PostgresStore};

use crate::lab::{Lab, operation, proxy, scope};

/// A store whose only connection goes through a proxy, and one that goes straight.
pub(crate) struct Rig {
    pub(crate) lab: Lab,
    pub(crate) proxy: Proxy,
    pub(crate) through: PostgresStore,
    pub(crate) direct: PostgresStore,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        let lab = Lab::new();
        let proxy = proxy();
        let direct = lab.store().await;
        let mut options = Options::default();
        options.connections = 1;
        let url = lab.site.url().replace("connections=8&", "");
        let url = crate::lab::at(&url, proxy.address());
        Self {
            through: crate::lab::connect(&url, options).await,
            lab,
            proxy,
            direct,
        }
    }

    /// Makes sure that there is a connection, so that a cut strikes the call and no handshake.
    pub(crate) async fn warm(&self) {
        let answers = self.through.get([operation("warm")].into()).await;
        answers.expect("a connection");
    }

    /// Cuts before each answer of a call in turn; returns for each the certainty of the error and whether the call was
    /// applied. Then the call is repeated, and must say that it is done.
    #[expect(
        clippy::future_not_send,
        reason = "closures of one test, on one thread"
    )]
    pub(crate) async fn cut_everywhere(
        &self,
        name: &str,
        prepare: impl AsyncFn(&str),
        call: impl AsyncFn(&PostgresStore, &str) -> Result<bool, Error>,
        is_applied: impl AsyncFn(&str) -> bool,
    ) -> Vec<(Certainty, bool)> {
        let mut cuts = Vec::new();
        for nth in 1..100 {
            let key = format!("{name}-{nth}");
            self.warm_up(&format!("warm-{key}"), &prepare, &call).await;
            prepare(&key).await;
            assert!(!is_applied(&key).await, "{key} before the call");
            let before = self.proxy.seen().cuts;
            self.proxy.cut_before_answer(nth);
            let answer = call(&self.through, &key).await;
            self.proxy.heal();
            let is_cut = self.proxy.seen().cuts > before;
            let was_applied = is_applied(&key).await;
            let Err(error) = answer else {
                assert!(!is_cut && was_applied, "{key}: nobody noticed the cut");
                return cuts;
            };
            assert!(is_cut, "{error:?}");
            broken(&error);
            let is_true = error.certainty() == Certainty::MaybeApplied || !was_applied;
            assert!(is_true, "it says not applied, and it was: {error:?}");
            cuts.push((error.certainty(), was_applied));
            let again = call(&self.through, &key)
                .await
                .expect("it can be asked again");
            assert!(again, "{key} is not done when asked again");
            assert!(is_applied(&key).await, "{key} after the second call");
        }
        panic!("more answers than any call has");
    }

    /// Makes the call once on another key, so that its statements are prepared.
    #[expect(
        clippy::future_not_send,
        reason = "closures of one test, on one thread"
    )]
    async fn warm_up(
        &self,
        key: &str,
        prepare: &impl AsyncFn(&str),
        call: &impl AsyncFn(&PostgresStore, &str) -> Result<bool, Error>,
    ) {
        prepare(key).await;
        let done = call(&self.through, key).await.expect("no cut");
        assert!(done, "{key}");
    }
}

/// Checks the error of a broken connection.
pub(crate) fn broken(error: &Error) {
    assert_eq!(
        (error.kind(), error.code()),
        (ErrorKind::Unavailable, Code::StoreUnavailable),
        "{error:?}"
    );
    let is_told = match error.certainty() {
        Certainty::MaybeApplied => error.advice() == Advice::LookUpFirst,
        Certainty::NotApplied => matches!(error.advice(), Advice::Retry { .. }),
    };
    assert!(is_told, "{:?} of {error:?}", error.advice());
}

/// Checks that in a transaction everything before the answer to COMMIT is surely undone.
pub(crate) fn only_the_commit_is_in_doubt(cuts: &[(Certainty, bool)]) {
    let (commit, before) = cuts.split_last().expect("at least the commit");
    assert_eq!(*commit, (Certainty::MaybeApplied, true), "{cuts:?}");
    assert!(before.len() >= 3, "{cuts:?}");
    for cut in before {
        assert_eq!(*cut, (Certainty::NotApplied, false), "{cuts:?}");
    }
}

pub(crate) fn released() -> Step {
    Step::Release {
        error: "503".into(),
        certainty: Certainty::NotApplied,
        after: Duration::ZERO,
        counted: true,
        limits: AttemptLimits::default(),
        window: semel_core::Window::DEFAULT,
    }
}

pub(crate) fn all() -> ListQuery {
    ListQuery {
        limit: 1_000,
        ..ListQuery::default()
    }
}

pub(crate) fn note() -> Note {
    Note {
        by: "ada".into(),
        reason: "a test".into(),
    }
}

pub(crate) fn parked(name: &str) -> Parked {
    Parked {
        scope: scope(),
        key: None,
        reason: "key-missing".into(),
        detail: "no key".into(),
        transport: None,
        coordinates: name.into(),
        headers: Vec::new(),
        payload: name.as_bytes().to_vec().into(),
        since: semel_core::Timestamp::EPOCH,
    }
}

/// Returns a record under another key; everything else as it is.
pub(crate) fn named(item: &Item, key: &str) -> Item {
    match item {
        Item::Record(listed) => {
            let mut listed = listed.clone();
            listed.operation = operation(key);
            Item::Record(listed)
        }
        Item::Token(_) | Item::Entity(..) | Item::Mark(_) | Item::Parked(_) | Item::Audited(_) => {
            item.clone()
        }
    }
}
