//! The claim API over the memory store and a clock that tests move.

mod batches;
mod decisions;
mod events;
mod faults;
mod inputs;
mod outcomes;
mod random;
mod site;
mod steps;
mod tenants;
mod traces;
mod waits;
