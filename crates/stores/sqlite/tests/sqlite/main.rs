//! The laws over this store, and tests beyond the laws: files, processes, crashes, and statements that fail.

mod admit;
mod apply;
mod calls;
mod conformance;
mod files;
mod inbox;
mod lab;
mod look;
mod migrate;
mod processes;
