//! The laws over this store, and tests beyond the laws: files, processes, crashes, and statements that fail.

mod admission;
mod apply;
mod calls;
mod conformance;
mod files;
mod inbox;
mod inspection;
mod lab;
mod locked;
mod migrate;
mod outbox;
mod pages;
mod processes;
mod producers;
