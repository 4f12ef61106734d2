//! The result of an extension of all keys of a pipeline.

use semel_operate::keys::Extended;

use crate::{Answer, Block};

impl Answer for Extended {
    fn describe(&self, block: &mut Block) {
        block
            .field("pipeline", &self.pipeline)
            .some("tenant", self.tenant.as_ref())
            .field("extended", self.extended)
            .some("refused", Some(self.refused).filter(|it| *it > 0));
    }
}
