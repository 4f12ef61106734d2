//! The forms in which the same laws run: erased, and through a layer.

pub(crate) mod counted;
pub(crate) mod erased;
