//! The layer over a store in memory, request by request.

mod answers;
mod bodies;
mod doubts;
mod faults;
mod inbox;
mod keys;
mod random;
mod servers;
mod shadow;
mod site;
mod traces;
mod waits;
