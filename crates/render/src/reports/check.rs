//! The reports of `semel check`.

mod pipeline;
mod production;
mod services;
mod windows;

use semel_operate::check::CheckReport;

use crate::{Answer, Block};

impl Answer for CheckReport {
    fn describe(&self, block: &mut Block) {
        match self {
            Self::Pipeline(report) => report.describe(block),
            Self::Production(list) => list.describe(block),
            Self::Claims(report) => report.describe(block),
            Self::Route(report) => report.describe(block),
            Self::Relay(report) => report.describe(block),
            Self::Producer(report) => report.describe(block),
        }
    }
}
