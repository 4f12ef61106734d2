//! The layers over a store, checked against the laws of the store port.

#[path = "layers/approximate.rs"]
mod approximate;
#[path = "layers/insistent.rs"]
mod insistent;
#[path = "layers/outage.rs"]
mod outage;
#[path = "layers/pipeline.rs"]
mod pipeline;
#[path = "layers/slow.rs"]
mod slow;
#[path = "layers/tiered.rs"]
mod tiered;
