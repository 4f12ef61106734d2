//! The console over the admin API and a store in memory, behind the rules of a listener.

mod bounds;
mod exports;
mod hostile;
mod lists;
mod login;
mod markup;
mod messages;
mod orders;
mod pages;
mod plans;
mod runs;
mod site;
