//! Those of the 38 mutants that the project began with that are planted under another name, elsewhere, or not at all.

/// The mutant, and what became of it.
pub(crate) const ELSEWHERE: &[(&str, &str)] = &[
    ("M19", "K01"),
    ("M21", "T07, T10, T12"),
    (
        "M30",
        "in `tests/redis/planted.rs` of the store, by its scripts",
    ),
];
