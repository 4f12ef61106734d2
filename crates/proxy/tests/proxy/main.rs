//! The proxy over real sockets, with a store in memory, before an upstream that keeps every byte that it gets.

mod framing;
mod guarded;
mod hostile;
mod http2;
mod in_flight;
mod own_paths;
mod passing;
mod site;
mod traces;
mod turns;
mod upstream;
