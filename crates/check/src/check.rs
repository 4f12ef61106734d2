//! A whole check: everything is looked at, and each report is handed to whoever reads it.

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::future::join3;
use futures_util::stream;
use semel_backends::{source, store};
use semel_config::{PipelineSettings, Settings};
use semel_core::port::transactional::Statements;
use semel_core::{Clock, Code, Error, Result};
use semel_operate::check::{
    Broker, CheckReport, Inspection, Production, RelayReport, Report, Room, RouteReport, SetAside,
    Severity, Standing, Storage, Subject, WindowLine,
};

use crate::inspection::inspect;
use crate::means::Means;
use crate::patience::STORE;
use crate::producers::StoreProducers;
use crate::production::ProductionLook;
use crate::targets::Targets;
use crate::{certificate, claims, pauses, relays, sample, statements, store_path};

/// The subject of a check, the questions beyond the usual ones, and the means to answer them.
pub struct Check<'a> {
    /// The settings that are looked at.
    pub settings: &'a Settings,
    /// The pipelines that share the store: also those that `settings` leave out.
    pub all: &'a [PipelineSettings],
    /// New keys of each pipeline in a second.
    pub rate: Option<NonZeroU32>,
    /// The file of captured messages, and how many of them are read at most.
    pub sample: Option<(&'a Path, u64)>,
    /// True to go through the list before production instead.
    pub production: bool,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The means of this process.
    pub means: Means,
}

/// The conclusion from all reports.
#[derive(Debug)]
pub struct Conclusion {
    /// The worst of the findings; with the list before production, `Fail` if a line of it fails.
    pub worst: Severity,
    /// The windows of the pipelines that read a broker; none with the list before production.
    pub windows: Vec<WindowLine>,
    /// The failure to look at the store, else at the first server that was away.
    pub failure: Option<Error>,
}

/// Takes one report after the other; `Break` means that nobody reads any more.
pub type Reader<'r> = dyn FnMut(CheckReport) -> Result<ControlFlow<()>> + Send + 'r;

impl Conclusion {
    /// Takes note of a failure, unless there was one before.
    fn away(&mut self, failure: Option<Error>) {
        if self.failure.is_none() {
            self.failure = failure;
        }
    }
}

impl Check<'_> {
    /// Looks at everything, and hands each report to `read` when it is there. Of pipelines, routes, relays and producers, one
    /// whose report nobody would read is neither asked nor counted.
    ///
    /// # Errors
    ///
    /// Those of `read`, and of a sample that cannot be read
    ///
    /// # Cancel safety   safe
    pub async fn run(&self, read: &mut Reader<'_>) -> Result<Conclusion> {
        let settings = self.settings;
        let asked: Vec<Statements> = settings.pipelines.iter().filter_map(statements).collect();
        let opened = (self.means.store.as_ref(), &self.means.unfinished);
        let looking = inspect(settings, opened, Arc::clone(&self.clock), &asked);
        let store = self.means.patience.within(STORE, looking).await;
        let room = self.room();
        let list = if self.production {
            Some(ProductionLook::begin((settings, &self.means), &store, room, &self.clock).await)
        } else {
            None
        };
        let mut concluded = Conclusion {
            worst: Severity::Ok,
            windows: Vec::new(),
            failure: None,
        };
        self.pipelines((&store, room), list.as_ref(), &mut concluded, read)
            .await?;
        if list.is_none() {
            for report in claims::claims(settings, store.as_ref(), &*self.clock) {
                concluded.worst = concluded.worst.max(report.verdict);
                // Nobody reading is no reason to stop: all of them were looked at.
                let _ = read(CheckReport::Claims(report))?;
            }
        }
        self.routes(store.as_ref(), list.as_ref(), &mut concluded, read)?;
        self.relays(&mut concluded, read).await?;
        match store {
            Ok(_) => self.producers(&mut concluded, read).await?,
            // That is told first.
            Err(error) => concluded.failure = Some(store::at_store(&settings.store, error)),
        }
        Ok(concluded)
    }

    async fn pipelines(
        &self,
        (store, room): (&Result<Inspection>, Room),
        list: Option<&ProductionLook>,
        concluded: &mut Conclusion,
        read: &mut Reader<'_>,
    ) -> Result<()> {
        let settings = self.settings;
        let paused = pauses::pauses((settings, &self.means), store, &self.clock).await;
        let mut refused = store.iter().flat_map(|looked| &looked.refused);
        let mut looks = stream::iter(self.looks(list)).buffered(self.means.at_once);
        for (pipeline, paused) in settings.pipelines.iter().zip(paused) {
            let sample = match self.sample {
                Some((file, limit)) => Some(sample::sample(file, pipeline, limit).await?),
                None => None,
            };
            let refused = statements(pipeline).and_then(|_| refused.next()?.as_ref());
            let Some((targets, broker, counted)) = looks.next().await else {
                break;
            };
            let pipeline = &targets.settings;
            concluded.away(targets.away);
            if let Err(error) = &broker.horizons
                && source::is_away(error)
            {
                concluded.away(Some(error.clone()));
            }
            let rules = &pipeline.pipeline;
            let mut found = certificate(pipeline);
            found.extend_from_slice(&targets.findings);
            found.extend(paused);
            let looked = store.as_ref().ok();
            let place = looked.map(|it| store_path::findings(&settings.store, it.is_there, &room));
            let subject = Subject {
                settings,
                pipeline,
                broker: &broker,
                place: &place.unwrap_or_default(),
                targets: &found,
                store: store.as_ref(),
                refused,
                sample: sample.as_ref(),
                storage: Storage::of(&settings.store, &rules.fingerprint, rules.window, self.rate),
            };
            let report = Report::of(&subject);
            let report = if let Some(look) = list {
                let list = look.list(&subject, &report, counted.as_ref());
                concluded.worst = concluded.worst.max(of_list(&list));
                CheckReport::Production(list)
            } else {
                concluded.worst = concluded.worst.max(report.verdict);
                let window = WindowLine::of(&broker, pipeline, report.class.clone());
                concluded.windows.extend(window);
                CheckReport::Pipeline(Box::new(report))
            };
            if read(report)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the looks at all pipelines, which have not begun.
    fn looks<'a>(&'a self, list: Option<&'a ProductionLook>) -> Vec<Looking<'a>> {
        let all = self.settings.pipelines.iter();
        all.map(|it| Box::pin(self.look(it, list)) as _).collect()
    }

    /// Returns the looks at all relays, which have not begun.
    fn looks_at_relays(&self) -> Vec<LookingAtRelay<'_>> {
        let (settings, means) = (self.settings, &self.means);
        let all = settings.relays.iter();
        all.map(|it| Box::pin(relays::relay(settings, it, means)) as _)
            .collect()
    }

    /// Looks at the targets and at the broker of a pipeline, and counts what of it waits for a person if there is a `list` to
    /// tell of that. All of it is waited for together: what is begun is asked by nobody else meanwhile.
    async fn look(&self, pipeline: &PipelineSettings, list: Option<&ProductionLook>) -> Seen {
        let asking = source::horizons(&pipeline.source, pipeline.pipeline.lease);
        let (patience, server) = (&self.means.patience, pipeline.source.server());
        let broker = ("the broker", Code::SourceUnavailable);
        let asking = patience.of_server(server, broker, asking);
        let looking = Targets::look(pipeline, patience);
        let counting = async { list?.count(pipeline).await };
        let (targets, horizons, counted) = join3(looking, asking, counting).await;
        let broker = Broker {
            horizons,
            at: self.clock.now(),
        };
        (targets, broker, counted)
    }

    /// Goes through the routes, if there is a gateway; with the list before production, through that instead.
    fn routes(
        &self,
        store: Result<&Inspection, &Error>,
        list: Option<&ProductionLook>,
        concluded: &mut Conclusion,
        read: &mut Reader<'_>,
    ) -> Result<()> {
        for report in RouteReport::all(self.settings, store) {
            let report = if let Some(look) = list {
                let list = Production::of_route(&report, self.settings, look.scrape());
                concluded.worst = concluded.worst.max(of_list(&list));
                CheckReport::Production(list)
            } else {
                concluded.worst = concluded.worst.max(report.verdict);
                CheckReport::Route(Box::new(report))
            };
            if read(report)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    async fn relays(&self, concluded: &mut Conclusion, read: &mut Reader<'_>) -> Result<()> {
        let mut looks = stream::iter(self.looks_at_relays()).buffered(self.means.at_once);
        while let Some((report, failure)) = looks.next().await {
            concluded.away(failure);
            concluded.worst = concluded.worst.max(report.verdict);
            if read(CheckReport::Relay(report))?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Looks at the producers of the store whose messages wait, page by page.
    async fn producers(&self, concluded: &mut Conclusion, read: &mut Reader<'_>) -> Result<()> {
        let (patience, most) = (&self.means.patience, self.means.most_producers);
        let mut producers = StoreProducers::new(&self.settings.store, &self.means.unfinished);
        loop {
            let looking = producers.next(self.clock.now());
            let page = match patience.within(STORE, looking).await {
                Ok(Some(page)) => page,
                Ok(None) => return Ok(()),
                Err(error) => {
                    concluded.away(Some(error));
                    return Ok(());
                }
            };
            for report in page {
                let report = match report {
                    Ok(report) => report,
                    Err(error) => {
                        concluded.away(Some(error));
                        continue;
                    }
                };
                concluded.worst = concluded.worst.max(report.verdict);
                if read(CheckReport::Producer(report))?.is_break() {
                    return Ok(());
                }
            }
            if most.is_some_and(|most| producers.count() >= most) {
                let beyond = patience.within(STORE, producers.beyond()).await;
                concluded.away(beyond.unwrap_or_else(Some));
                return Ok(());
            }
        }
    }

    /// Measures the room of the store, and what all of its pipelines need at the rate.
    fn room(&self) -> Room {
        let url = &self.settings.store;
        let mut needed = self.all.iter().map(|PipelineSettings { pipeline, .. }| {
            let fingerprint = &pipeline.fingerprint;
            Storage::of(url, fingerprint, pipeline.window, self.rate).disk_bytes()
        });
        Room {
            needed: needed.try_fold(0, |sum: u64, it| Some(sum.saturating_add(it?))),
            pipelines: self.all.len(),
            disk: store_path::disk(url, self.rate.is_some()),
        }
    }
}

/// A look at a pipeline.
type Looking<'a> = Pin<Box<dyn Future<Output = Seen> + Send + 'a>>;

/// A look at a pipeline that has ended: the targets, the broker, and what waits for a person, if that was counted.
type Seen = (Targets, Broker, Option<Result<SetAside>>);

/// A look at a relay.
type LookingAtRelay<'a> = Pin<Box<dyn Future<Output = (RelayReport, Option<Error>)> + Send + 'a>>;

/// The weight of a list before production.
fn of_list(list: &Production) -> Severity {
    match list.verdict {
        Standing::Fail => Severity::Fail,
        Standing::Pass | Standing::Unknown => Severity::Ok,
    }
}

#[cfg(test)]
mod tests;
