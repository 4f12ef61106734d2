//! Runs one case and says which law it broke.

use std::any::Any;

use semel_core::LawId;

use crate::backend::{Backend, Boxed, Ports};
use crate::cases;
use crate::lab::Lab;
use crate::subject::{CheckpointSubject, Subject, TransferSubject};

/// Runs `case` on a fresh instance of `backend`.
///
/// # Panics
///
/// With the id and the sentence of `law` when the case fails.
pub(crate) fn check(law: LawId, backend: &Backend, case: fn(Lab) -> Boxed<'static, ()>) {
    let backend = backend.clone();
    let case = async move { case(Lab::open(&backend).await).await };
    run(law, Box::pin(case));
}

/// One case of the laws of the store port.
#[derive(Clone, Debug)]
pub struct Case {
    /// The file of the case: `claim`, `outcome`.
    pub topic: &'static str,
    /// Its name.
    pub name: &'static str,
    /// The law that it proves.
    pub law: LawId,
    check: fn(&Backend),
    backend: Backend,
}

/// A case of a catalogue.
pub(crate) fn case(
    (topic, name, law): (&'static str, &'static str, LawId),
    check: fn(&Backend),
    backend: &Backend,
) -> Case {
    Case {
        topic,
        name,
        law,
        check,
        backend: backend.clone(),
    }
}

impl Case {
    /// Runs it.
    ///
    /// # Panics
    ///
    /// When the law is broken.
    pub fn run(&self) {
        (self.check)(&self.backend);
    }
}

/// Every case of the laws of the store port, for callers that run them without `store_laws!`.
pub fn store_cases<S: Subject>() -> Vec<Case> {
    cases::store::all(&Ports::<S>::new().erase())
}

/// Every case of the laws of the checkpoint port; see [`store_cases`].
pub fn checkpoint_cases<S: CheckpointSubject>() -> Vec<Case> {
    cases::checkpoint::all(&Ports::<S>::new().checkpoint().erase())
}

/// Every case of the laws of the transfer port; see [`store_cases`].
pub fn transfer_cases<S: TransferSubject>() -> Vec<Case> {
    cases::transfer::all(&Ports::<S>::new().transfer().erase())
}

/// Runs one future to its end. If it panics, names the law that it broke.
pub(crate) fn run(law: LawId, case: Boxed<'static, ()>) {
    if let Err(why) = outcome(case) {
        panic!("law {law} is broken ({})\n{why}", law.sentence().trim());
    }
}

/// Runs one future to its end, and panics with its words if it does.
pub(crate) fn run_unnamed(case: Boxed<'static, ()>) {
    if let Err(why) = outcome(case) {
        panic!("{why}");
    }
}

fn outcome(case: Boxed<'static, ()>) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime for one case starts");
    let ended = runtime.block_on(runtime.spawn(case));
    ended.map_err(|broken| match broken.try_into_panic() {
        Ok(panic) => words_of(&*panic),
        Err(cancelled) => cancelled.to_string(),
    })
}

fn words_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    text.unwrap_or("the case panicked without a word")
        .to_owned()
}
