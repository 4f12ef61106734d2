//! `semel store export`, asked of a worker.

use std::fs::File;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use semel_core::{Code, Error, ErrorKind, Result};
use semel_operate::order::note;
use semel_worker::transfer::{self, OnTransfer, WholeFile};

use super::door::Door;
use crate::Exit;
use crate::args::transfer::Export;
use crate::command::operate::usage;
use crate::command::transfer::{is_closed, replaced, stdout, told, warn_of_worker};

/// Writes everything that the store of a worker holds.
pub(super) async fn export(door: &Door, arguments: &Export) -> Result<Exit> {
    if arguments.common.pipeline.is_some() {
        return Err(usage(
            "an export has all that the store holds: leave out --pipeline",
        ));
    }
    let reason = note("", arguments.reason.as_deref().unwrap_or_default()).reason;
    if reason.is_empty() {
        return Err(usage(
            "a worker wants to know why, for the audit trail: --reason TEXT",
        ));
    }
    if let ControlFlow::Break(exit) = replaced(arguments) {
        return Ok(exit);
    }
    warn_of_worker(format_args!("the worker at {}", door.worker.address()));
    match &arguments.to {
        Some(path) => to_file(door, &reason, path).await,
        None => to_stdout(door, &reason).await,
    }
}

/// Gives the file its name once it was read to its end, and is whole.
async fn to_file(door: &Door, reason: &str, path: &Path) -> Result<Exit> {
    let (target, mut file) = WholeFile::create(path)?;
    take(door, reason, &mut file).await?;
    let unwatched: OnTransfer = Arc::new(|_, _| {});
    let (_, counts) = transfer::check(target.read()?, &unwatched)?;
    target.finish(&file)?;
    told(path, counts);
    Ok(Exit::Done)
}

async fn to_stdout(door: &Door, reason: &str) -> Result<Exit> {
    match take(door, reason, &mut stdout()?).await {
        Ok(()) => Ok(Exit::Done),
        // The reader has had enough.
        Err(error) if is_closed(&error) => Ok(Exit::Done),
        Err(error) => Err(error),
    }
}

/// Writes what the worker sends, up to the last line of an export.
async fn take(door: &Door, reason: &str, to: &mut File) -> Result<()> {
    let mut end = End::default();
    let visit = |part: &[u8]| {
        end.read(part);
        to.write_all(part).map_err(|error| {
            Error::new(ErrorKind::Unavailable, "cannot write the export")
                .with_code(Code::TargetUnavailable)
                .with_source(error)
        })
    };
    door.worker.export(reason, visit).await?;
    if !end.is_whole() {
        let why = "it ends before its last line";
        return Err(door.worker.strange("/v1/store/export", why).into());
    }
    Ok(())
}

/// The last bytes of what came, which tell whether it was all.
#[derive(Default)]
struct End(Vec<u8>);

impl End {
    fn read(&mut self, part: &[u8]) {
        self.0.extend_from_slice(part);
        let beyond = self.0.len().saturating_sub(LONGEST_END);
        self.0.drain(..beyond);
    }

    fn is_whole(&self) -> bool {
        let mut lines = self.0.split(|byte| *byte == b'\n').rev();
        let (Some([]), Some(last)) = (lines.next(), lines.next()) else {
            return false;
        };
        last.starts_with(br#"{"end":"#)
    }
}

/// More bytes than the last line has: six names and numbers.
const LONGEST_END: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use super::End;

    #[test]
    fn an_export_without_its_last_line_is_not_whole() {
        let end = &b"{\"end\":{\"tokens\":1},\"crc\":\"61254d4f\"}\n"[..];
        let token = &b"{\"token\":1}\n"[..];
        for (parts, is_whole) in [
            (vec![token, end], true),
            (vec![token, &end[..9], &end[9..]], true),
            (vec![&[b'x'; 5_000][..], &b"\n"[..], end], true),
            (vec![&end[..end.len() - 1]], false),
            (vec![end, token], false),
            (vec![token], false),
            (vec![&b""[..]], false),
            (vec![], false),
        ] {
            let mut found = End::default();
            for part in &parts {
                found.read(part);
            }
            assert_eq!(found.is_whole(), is_whole, "{parts:?}");
        }
    }
}
