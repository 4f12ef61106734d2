//! Runs one case and says which law it broke.

use std::any::Any;
use std::future::Future;
use std::pin::Pin;

use semel_core::LawId;

use crate::lab::Lab;
use crate::subject::{CheckpointSubject, Subject, TransferSubject};

/// Runs `case` on a fresh instance of `S`.
///
/// # Panics
///
/// With the id and the sentence of `law` when the case fails.
pub fn check<S, F>(law: LawId, case: impl FnOnce(Lab<S>) -> F + Send + 'static)
where
    S: Subject,
    F: Future<Output = ()> + Send + 'static,
{
    run(law, Box::pin(async move { case(Lab::open().await).await }));
}

/// One case of the laws of the store port.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The file of the case: `claim`, `outcome`.
    pub topic: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The law that it proves.
    pub law: LawId,
    /// Runs it, and panics when the law is broken.
    pub run: fn(),
}

/// Every case of the laws of the store port, for whoever runs them other than by `store_laws!`.
pub fn store_cases<S: Subject>() -> Vec<Case> {
    crate::__each_store_law!(__cases S)
}

/// Every case of the laws of the checkpoint port; see [`store_cases`].
pub fn checkpoint_cases<S: CheckpointSubject>() -> Vec<Case> {
    crate::__each_checkpoint_law!(__cases S)
}

/// Every case of the laws of the transfer port; see [`store_cases`].
pub fn transfer_cases<S: TransferSubject>() -> Vec<Case> {
    crate::__each_transfer_law!(__cases S)
}

/// Not generic, so that a runtime is compiled once and not once per case.
pub(crate) fn run(law: LawId, case: Pin<Box<dyn Future<Output = ()> + Send>>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime for one case starts");
    if let Err(broken) = runtime.block_on(runtime.spawn(case)) {
        let why = match broken.try_into_panic() {
            Ok(panic) => words_of(&*panic),
            Err(cancelled) => cancelled.to_string(),
        };
        panic!("law {law} is broken ({})\n{why}", law.sentence().trim());
    }
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("the case panicked without a word")
        .to_owned()
}
