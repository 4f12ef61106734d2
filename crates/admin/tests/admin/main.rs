//! The admin API over a store in memory, without a listener: its own description, its bounds, and who sees what.

mod bounds;
mod description;
mod site;
mod tenants;
