//! `semel check`, asked of a worker: it looks at what it runs with.

use semel_core::{Code, Error, ErrorKind, Result};
use semel_operate::check::CheckAnswer;

use super::door::{Door, Members};
use super::through;
use crate::Exit;
use crate::args::Check;
use crate::command::check::{exit, table};
use crate::command::operate::usage;
use crate::output::Answers;

pub(super) fn run(arguments: &Check) -> Option<Result<Exit>> {
    through(arguments.door(), async |door| check(door, arguments).await)
}

async fn check(door: &Door, arguments: &Check) -> Result<Exit> {
    if arguments.named.file.is_some() {
        return Err(usage(
            "--admin goes without a file: a worker checks the settings that it runs with",
        ));
    }
    if arguments.sample.is_some() {
        return Err(usage(
            "--sample is read on this machine: it goes with the configuration, not with a worker",
        ));
    }
    let rate = arguments.rate.map(|it| it.to_string());
    let pipeline = arguments.named.common.pipeline.as_deref();
    let production = arguments.production.then_some("true");
    let members = [
        ("pipeline", pipeline),
        ("rate", rate.as_deref()),
        ("production", production),
    ];
    let members = members.into_iter();
    let members: Members<'_> = members.filter_map(|(name, it)| Some((name, it?))).collect();
    let Some(checked) = door.find::<CheckAnswer>(PATH, &members).await? else {
        return Ok(Exit::No);
    };
    if checked.semel != CheckAnswer::VERSION {
        let message = format!(
            "{PATH} has the format {}, which is not known",
            checked.semel
        );
        let error = Error::new(ErrorKind::Unavailable, message).not_applied();
        return Err(error.with_code(Code::WorkerIncompatible));
    }
    let mut answers = Answers::new(arguments.format);
    for report in &checked.items {
        if answers.print(report)?.is_break() {
            break;
        }
    }
    table(&checked.windows, arguments.format)?;
    let failure = checked.failure.as_ref().map(Error::from);
    exit(failure, checked.verdict, arguments.strict)
}

const PATH: &str = "/v1/check";
