//! The admin API over a store in memory, without a listener: its own description, its bounds, orders, runs, and who sees and
//! changes what.

mod bounds;
mod checks;
mod description;
mod exports;
mod extension;
mod orders;
mod outbox;
mod payloads;
mod relay_dead_letters;
mod runs;
mod site;
mod tenants;
mod wholes;
