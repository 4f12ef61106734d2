//! What the laws do not say: files, processes, crashes, and statements that fail.

mod apply;
mod calls;
mod files;
mod inbox;
mod lab;
mod processes;
