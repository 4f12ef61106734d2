//! A way through a model, in words for people.

use std::fmt::Write as _;

use super::named::Breakable;

/// The parts of a way that each model tells in words of its own.
pub(crate) struct Words<'w, W, A> {
    /// One step.
    pub(crate) sentence: &'w dyn Fn(&W, A) -> String,
    /// The change from one state to the next, if it is worth a word.
    pub(crate) change: &'w dyn Fn(&W, &W) -> String,
    /// The names of broken laws.
    pub(crate) laws: fn(u32) -> Vec<&'static str>,
}

/// Tells one numbered sentence for each step, with what changed and the laws that are broken after it.
pub(crate) fn tell<W: Breakable, A: Copy>(
    name: &str,
    path: &[(W, Option<A>)],
    words: &Words<'_, W, A>,
) -> String {
    let mut told = name.to_owned();
    let mut later = path.iter().map(|(world, _)| world).skip(1);
    for (step, (world, action)) in path.iter().enumerate() {
        let Some(action) = action else { continue };
        let _ = write!(
            told,
            "\n  {:>2}. {}",
            step + 1,
            (words.sentence)(world, *action)
        );
        let Some(next) = later.next() else { continue };
        told.push_str(&(words.change)(world, next));
        for law in (words.laws)(next.broken()) {
            let _ = write!(told, " <- breaks {law}");
        }
    }
    told
}
