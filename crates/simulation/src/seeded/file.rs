//! An output file of one worker, which outlives the worker's lives.

use std::sync::Arc;

use bytes::Bytes;
use semel_core::{Code, Error, ErrorKind, Result};
use semel_engine::effect::Output;

use crate::seeded::disk::Disk;
use crate::seeded::fault::Append;
use crate::seeded::life::Life;
use crate::seeded::payload::number_in;
use crate::seeded::world::World;

/// The name of the mark that records the length of a worker's file.
pub(crate) fn mark_name(worker: usize) -> String {
    format!("file{worker}")
}

/// The writer of a [`Disk`].
pub(crate) struct SimFile {
    pub(crate) world: Arc<World>,
    pub(crate) life: Arc<Life>,
    pub(crate) disk: Disk,
}

impl Output for SimFile {
    fn mark_name(&self) -> String {
        mark_name(self.life.worker)
    }

    async fn len_bytes(&mut self) -> Result<u64> {
        Ok(self.disk.len_bytes())
    }

    async fn cut_back(&mut self, len_bytes: u64) -> Result<()> {
        let len = self.len_bytes().await?;
        if !self.disk.cut_back(len_bytes) {
            let error = Error::new(ErrorKind::Corrupt, "shorter than what was recorded");
            return Err(error.with_code(Code::TargetShortened));
        }
        if len_bytes < len {
            self.world.saw("file cut back");
            self.world.log(format_args!(
                "{} cuts its file back from {len} to {len_bytes} bytes",
                self.life
            ));
        }
        Ok(())
    }

    async fn append(&mut self, batch: &[Bytes]) -> Result<u64> {
        let operations: Vec<_> = batch.iter().map(|payload| number_in(payload)).collect();
        let act = self.life.append_fault(&operations);
        let mut bytes = Vec::new();
        for payload in batch {
            bytes.extend_from_slice(payload);
            bytes.push(b'\n');
        }
        match act {
            Some(Append::CrashBefore) => return self.life.crash().await,
            Some(Append::Pause(pause)) => self.life.pause(pause).await,
            Some(Append::FailHalf | Append::CrashHalf) => bytes.truncate(bytes.len() / 2),
            Some(Append::FailWhole | Append::CrashWhole) | None => {}
        }
        self.disk.append(&bytes);
        self.world.log(format_args!(
            "{} appends {operations:?}, {} bytes",
            self.life,
            bytes.len()
        ));
        match act {
            Some(Append::FailHalf | Append::FailWhole) => {
                Err(Error::new(ErrorKind::Unavailable, "the disk is gone"))
            }
            Some(Append::CrashHalf | Append::CrashWhole) => {
                self.world.saw("crash between effect and completion");
                self.life.crash().await
            }
            Some(Append::CrashBefore | Append::Pause(_)) | None => self.len_bytes().await,
        }
    }
}
