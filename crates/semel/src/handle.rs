//! The handle through which callers reach everything else.

mod builder;

use std::future::Future;

use semel_core::{AnyStore, Result, Store};
use semel_engine::once::{
    Error as OnceError, Failure, Once, Op, Pending, Receipt, Remember, ToKey,
};
use semel_engine::{handler, once};

use crate::Source;

pub use builder::Builder;

/// An operation by name, with the settings of its effects.
pub type Declared<S = AnyStore> = once::Declared<S>;
/// Many keys in one call.
pub type Batch<I, S = AnyStore> = once::Batch<S, I>;
/// A consumer that is being built.
pub type ConsumerBuilder<Src, S = AnyStore> = handler::Builder<S, Src>;

/// Runs operations once over a store. Cheap to clone; all clones share one state, and may be used from
/// any task of a tokio runtime.
#[derive(Clone, Debug)]
pub struct Semel(Once<AnyStore>);

impl Semel {
    /// Opens the store of `url` with the default settings: `embedded:DIR`, `sqlite:FILE`, with the
    /// features of their names `postgres://USER:PASSWORD@HOST/DATABASE`,
    /// `mysql://USER:PASSWORD@HOST/DATABASE` and `redis://:PASSWORD@HOST`, or `memory:`, which forgets
    /// everything at exit. A folder, file or table that does not exist is created.
    ///
    /// # Errors
    ///
    /// `InvalidConfig`: that is no url; `Unsupported`: its kind needs a feature of this crate;
    /// `store-in-use`, `store-foreign`, `store-unavailable` and the other errors of the store itself.
    /// None repeats a password.
    ///
    /// # Cancel safety   safe; what was created is there next time
    pub async fn open(url: &str) -> Result<Self> {
        Self::builder().open(url).await
    }

    /// A handle over any store, with the default settings. A store in an [`Arc`](std::sync::Arc) is
    /// one too.
    pub fn with_store(store: impl Store) -> Self {
        Self::builder().with_store(store)
    }

    /// A builder, for settings, clock, entropy and observer of your own.
    pub fn builder() -> Builder {
        Builder::default()
    }

    pub(crate) const fn over(once: Once<AnyStore>) -> Self {
        Self(once)
    }

    /// Runs `effect` for `key`, or returns the outcome of the run that already happened. This is the
    /// shortest form of [`Declared::once`], which documents all that it promises. At most once: an
    /// effect that may or may not have happened is in doubt and stays so until it is resolved.
    ///
    /// # Errors
    ///
    /// see [`OnceError`]: each says whether the effect happened, and calling again is always safe
    ///
    /// # Cancel safety   dropped before the effect has begun, it is not begun; dropped later, it runs
    /// on to its outcome, which the next call with the same key gets
    pub fn once<T, F, Fut>(
        &self,
        name: &str,
        key: impl ToKey,
        effect: F,
    ) -> Pending<Result<Receipt<T>, OnceError>>
    where
        T: Remember + Send + 'static,
        F: FnOnce(Op) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        self.operation(name).once(key, effect)
    }

    /// Runs `effect` for each item, many keys in one round trip; the shortest form of
    /// [`Declared::once_batch`]. Returns the results in the order of the items.
    ///
    /// # Errors
    ///
    /// per item, as [`Semel::once`]
    ///
    /// # Cancel safety   as [`Semel::once`], item by item
    pub fn once_batch<T, K, I, F, Fut>(
        &self,
        name: &str,
        items: impl IntoIterator<Item = (K, I)>,
        effect: F,
    ) -> Pending<Vec<Result<Receipt<T>, OnceError>>>
    where
        T: Remember + Send + 'static,
        K: ToKey,
        I: Send + 'static,
        F: FnMut(Op, I) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        self.operation(name).once_batch(items, effect)
    }

    /// The operation of that name, to be configured and run.
    pub fn operation(&self, name: &str) -> Declared {
        self.0.operation(name)
    }

    /// A consumer of that name over `source`.
    ///
    /// # Errors
    ///
    /// [`OnceError::Closed`]
    pub fn consumer<Src: Source>(
        &self,
        name: &str,
        source: Src,
    ) -> Result<ConsumerBuilder<Src>, OnceError> {
        self.0.consumer(name, source)
    }

    /// A layer that puts the requests of a `tower` service under their idempotency keys. Its settings begin with those of
    /// this handle ([`Route::with_settings`](crate::http::Route::with_settings)), and `change` changes them.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: a setting is not acceptable
    #[cfg(feature = "http")]
    pub fn http(
        &self,
        change: impl FnOnce(&mut crate::http::Route),
    ) -> Result<crate::http::IdempotencyLayer> {
        let mut route = crate::http::Route::with_settings(self.0.defaults());
        change(&mut route);
        crate::http::IdempotencyLayer::new(&self.0, route)
    }

    /// A layer as [`http`](Self::http) makes it, whose handlers commit their answers with their own work: each finds an
    /// [`http::RequestInbox<I>`](crate::http::RequestInbox) among the extensions of its request, and hands it its
    /// transaction. `inbox` is that of this handle's store, and every driver of an inbox will do. What that guarantees is
    /// said [there](crate::http::IdempotencyLayer::with_inbox).
    ///
    /// ```
    /// use axum::{Extension, http::StatusCode, response::Response};
    /// use semel::{http::RequestInbox, sqlx::PostgresInbox};
    ///
    /// async fn charge(
    ///     Extension(pool): Extension<sqlx::PgPool>,
    ///     Extension(inbox): Extension<RequestInbox<PostgresInbox>>,
    /// ) -> Result<Response, StatusCode> {
    ///     let oops = |_| StatusCode::INTERNAL_SERVER_ERROR;
    ///     let mut tx = pool.begin().await.map_err(oops)?;
    ///     let insert = sqlx::query("INSERT INTO charges VALUES ($1, 4200)").bind(inbox.op().idempotency_key());
    ///     insert.execute(&mut *tx).await.map_err(oops)?;
    ///     let committed = inbox.commit(tx, (StatusCode::CREATED, "charged 4200 cents")).await;
    ///     committed.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)
    /// }
    /// # let _: axum::Router = axum::Router::new().route("/charges", axum::routing::post(charge));
    /// ```
    ///
    /// # Errors
    ///
    /// `InvalidInput`: a setting is not acceptable
    #[cfg(feature = "http")]
    pub fn http_with_inbox<I>(
        &self,
        inbox: I,
        change: impl FnOnce(&mut crate::http::Route),
    ) -> Result<crate::http::IdempotencyLayer>
    where
        I: Clone + Send + Sync + 'static,
    {
        let mut route = crate::http::Route::with_settings(self.0.defaults());
        change(&mut route);
        crate::http::IdempotencyLayer::with_inbox(&self.0, route, inbox)
    }

    /// A layer that puts the requests of a client of HTTP under intents, which this handle's store keeps. Its server is
    /// as `settings` says; `change` changes for how long and in which form answers are kept.
    ///
    /// # Errors
    ///
    /// `InvalidInput`: a setting is not acceptable, or the server recognises no keys
    #[cfg(feature = "client")]
    pub fn intents(
        &self,
        settings: crate::client::Settings,
        change: impl FnOnce(&mut crate::client::IntentSettings),
    ) -> Result<crate::client::IntentLayer> {
        let retry = crate::client::RetryLayer::new(settings)?;
        let mut kept = crate::client::IntentSettings::default();
        change(&mut kept);
        crate::client::IntentLayer::new(&self.0, retry, kept)
    }

    /// The store: for lists, statistics and operators' orders.
    ///
    /// # Errors
    ///
    /// [`OnceError::Closed`]
    pub fn store(&self) -> Result<AnyStore, OnceError> {
        self.0.store()
    }

    /// Takes no more calls on any clone, waits until the running ones are settled, and closes the
    /// store. Stop consumers first.
    ///
    /// # Cancel safety   safe: running calls go on, and no more calls are taken
    pub async fn close(&self) {
        self.0.close().await;
    }
}
