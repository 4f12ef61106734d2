//! Callers under faults: retries request by request, intents in a store, real sockets, and a process that is killed.

mod faults;
mod gateway;
mod intents;
mod proxy;
mod reqwest_client;
mod restart;
mod retries;
mod scripted;
mod servers;
mod windows;
