//! `semel check`: what each pipeline promises, what it rests on, and what stands in the way. Changes
//! nothing and calls no target.

mod finding;
mod place;
mod report;
mod rules;
mod sample;
mod storage;

use std::path::Path;
use std::sync::Arc;

use semel_core::port::transactional::Statements;
use semel_core::{Error, ErrorKind, Result};
use semel_engine::system::SystemClock;
use semel_worker::settings::EffectSettings;

use crate::Exit;
use crate::args::Check;
use crate::assemble;
use crate::command::config;
use crate::command::operate::usage;
use crate::config::{PipelineSettings, Settings};
use crate::output::Answers;
use finding::Severity;
use report::Report;
use rules::Subject;
use sample::Sample;
use storage::Storage;

/// Looks at every pipeline; exit code 1 if one of them must not run so.
pub(crate) fn check(arguments: &Check) -> Result<Exit> {
    let Some(settings) = config::settings(&arguments.named) else {
        return Ok(Exit::Usage);
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Unavailable, "cannot start").with_source(error))?;
    runtime.block_on(check_all(arguments, &settings))
}

async fn check_all(arguments: &Check, settings: &Settings) -> Result<Exit> {
    let pipelines = settings.pipelines.iter();
    let asked: Vec<Statements> = pipelines.filter_map(statements).collect();
    let clock = Arc::new(SystemClock::new());
    let store = assemble::look(&settings.store, settings.accepted, clock, &asked).await;
    let mut refused = store.iter().flat_map(|looked| &looked.refused);
    let mut answers = Answers::new(arguments.format);
    let mut worst = Severity::Ok;
    if arguments.sample.as_deref() == Some(Path::new("-")) && settings.pipelines.len() > 1 {
        return Err(usage(
            "--sample: standard input can be read once; name one pipeline with --pipeline NAME",
        ));
    }
    for pipeline in &settings.pipelines {
        let sample = match &arguments.sample {
            Some(file) => Some(Sample::read(file, pipeline, arguments.limit.get()).await?),
            None => None,
        };
        let refused = statements(pipeline).and_then(|_| refused.next()?.as_ref());
        let subject = Subject {
            settings,
            pipeline,
            store: store.as_ref(),
            refused,
            sample: sample.as_ref(),
            storage: Storage::of(&settings.store, pipeline.pipeline.window, arguments.rate),
        };
        let report = Report::of(&subject);
        worst = worst.max(report.verdict);
        if answers.print(&report)?.is_break() {
            break;
        }
    }
    match (store, worst) {
        (Err(error), _) => Err(assemble::at_store(&settings.store, error)),
        (Ok(_), Severity::Fail) => Ok(Exit::No),
        (Ok(_), Severity::Ok | Severity::Warn) => Ok(Exit::Done),
    }
}

/// What the database is asked to prepare.
fn statements(pipeline: &PipelineSettings) -> Option<Statements> {
    match &pipeline.effect {
        EffectSettings::Sql(binding) => Some(binding.statements().clone()),
        EffectSettings::File { .. }
        | EffectSettings::Http(..)
        | EffectSettings::Exec(..)
        | EffectSettings::Jsonl(..)
        | EffectSettings::Stdout(_) => None,
    }
}
