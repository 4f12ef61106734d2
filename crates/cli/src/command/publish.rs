//! `semel publish`: rows to a broker, under an identity that outlives the process.

mod named_store;

use std::sync::Arc;
use std::time::Duration;

use semel_backends::{producers, sink, store};
use semel_config::{SinkPlace, SinkSettings};
use semel_core::port::producer::{AnyProducerJournal, ProducerJournal};
use semel_core::port::sink::AnySink;
use semel_core::producer::{Incarnation, InputMark, Opening, ProducerEntry, ProducerName};
use semel_core::{Clock, Entropy, Error, ErrorKind, Result};
use semel_engine::system::{SystemClock, SystemEntropy};
use semel_operate::producers::Producers;
use semel_outbox::Producer;
use semel_outbox::producer::{
    CheckedInput, Feed, ProducerSettings, ProducerSummary, RowInput, RowSelectors, close_or_stop,
};
use semel_render::run::publication::{self, PublicationReport, PublicationTeller};
use semel_worker::effect::Target;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::args::Publish;
use crate::command::run::listen;
use crate::progress::{Bars, Unit};
use crate::shell::quoted;
use crate::{Exit, output};

use self::named_store::NamedStore;

/// Publishes the rows of an input.
pub(crate) fn publish(arguments: &Publish) -> Result<Exit> {
    let typed = |flag: &str, why: String| {
        Error::new(ErrorKind::InvalidInput, format!("{flag}: {why}")).not_applied()
    };
    let settings = SinkSettings::parse(&arguments.to, &arguments.stream);
    let settings = settings.map_err(|why| typed("--to", why.to_string()))?;
    let producer = match &arguments.producer {
        Some(name) => name.clone(),
        None => arguments.stream.parse().map_err(|_| {
            let why = "the stream is no name of a producer; give it one of its own";
            typed("--producer", why.to_owned())
        })?,
    };
    let store = match NamedStore::of(arguments)? {
        Ok(store) => store,
        Err(faults) => {
            output::errors(faults);
            return Ok(Exit::Usage);
        }
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Error::new(ErrorKind::Unavailable, "cannot start").with_source(error))?;
    let result = runtime.block_on(async {
        let journal = producers::open(&store.url)?;
        let job = Job {
            arguments,
            address: settings.address(),
            in_waves: !matches!(settings.place, SinkPlace::Kafka { .. }),
            remembers_ids: matches!(settings.place, SinkPlace::Nats { .. }),
            target: sink::target(settings),
            journal,
            producer,
            store: &store,
        };
        let done = job.run().await;
        done.map_err(|error| store::at_store(&store.url, error))
    });
    // A read of standard input cannot be cancelled; it must not delay the exit.
    runtime.shutdown_background();
    result
}

/// One call of the verb.
struct Job<'a> {
    arguments: &'a Publish,
    address: String,
    in_waves: bool,
    /// True if the broker drops what another process has sent before.
    remembers_ids: bool,
    target: Arc<dyn Target>,
    journal: AnyProducerJournal,
    producer: ProducerName,
    store: &'a NamedStore,
}

impl Job<'_> {
    async fn run(&self) -> Result<Exit> {
        let bars = Bars::new();
        let rules = RowSelectors {
            order: self.arguments.order.clone(),
            id: self.arguments.id.clone(),
        };
        // From here on a stop ends with a report, also while nobody writes to a pipe or answers yet.
        let (stop, mut stopped) = watch::channel(false);
        let mut beside = JoinSet::new();
        beside.spawn(listen(stop, bars.clone())?);
        let opened = tokio::select! {
            biased;
            opened = self.opened() => Some(opened?),
            _ = stopped.wait_for(|stop| *stop) => None,
        };
        let Some(input) = opened else {
            beside.shutdown().await;
            bars.clear();
            return self.end_unopened(&RowInput::name_of(self.arguments.input.as_deref()), false);
        };
        let sink = self.target.sink()?;
        let (name, is_kept) = (input.name.clone(), input.is_kept);
        if self.arguments.dry_run {
            let mut report = self.trial();
            let tried = tokio::select! {
                biased;
                tried = self.try_out(input, rules, &bars, &mut report) => Some(tried?),
                _ = stopped.wait_for(|stop| *stop) => None,
            };
            beside.shutdown().await;
            bars.clear();
            let stop = tried.is_none().then(|| not_all_seen(&name));
            return self.end(report, &ProducerSummary::default(), stop.as_deref(), false);
        }
        let begun = tokio::select! {
            biased;
            begun = self.begin(input, sink, &rules, &bars) => Some(begun?),
            _ = stopped.wait_for(|stop| *stop) => None,
        };
        let Some(begun) = begun else {
            beside.shutdown().await;
            bars.clear();
            return self.end_unopened(&name, is_kept);
        };
        let (checked, mark, producer) = (begun.checked, begun.mark, begun.producer);
        let stream = &self.arguments.stream;
        let (skipped, bytes) = mark.map_or((0, 0), |it| (it.rows, it.bytes));
        let mut report =
            PublicationReport::of(producer.incarnation(), stream, &self.address, skipped);
        report.warnings = begun.warnings;
        let input = begun.input;
        let rows = is_left(checked, mark).then(|| input.read(rules, checked, (skipped, bytes)));
        let mut handed_over = Feed::default();
        let fed = handed_over
            .hand_over(&producer, rows, stopped.clone())
            .await;
        report.count(handed_over.rows, handed_over.blank);
        let summary = match &fed {
            // An input that breaks off does not take along what came before.
            Ok(true) | Err(_) => close_or_stop(producer, stopped).await,
            Ok(false) => producer.stop().await.map(|summary| (summary, true)),
        };
        beside.shutdown().await;
        bars.clear();
        let (summary, is_stopped) = summary?;
        report.elapsed = begun.clock.monotonic().saturating_sub(begun.began);
        if let Err(error) = fed {
            return self.broken_off(report, &summary, error);
        }
        let stop = match (is_stopped, is_kept) {
            (false, _) => has_changed(checked, mark).then(|| read_before(&name)),
            (true, true) => Some(GOES_ON.to_owned()),
            (true, false) => {
                let taken = handed_over.taken().await;
                let (producer, at) = (quoted(self.producer.as_str()), &self.store.typed);
                let show = format!("semel producers show {producer} --output json{at}");
                Some(publication::stopped_pipe(&name, &taken, &show))
            }
        };
        self.end(report, &summary, stop.as_deref(), begun.teller.is_frozen())
    }

    /// Opens the input, on a thread that may wait until somebody writes to a named pipe.
    async fn opened(&self) -> Result<RowInput> {
        let path = self.arguments.input.clone();
        let opening = tokio::task::spawn_blocking(move || RowInput::open(path.as_deref()));
        opening.await.unwrap_or_else(|panicked| {
            let message = "the opening of the input did not end";
            Err(Error::new(ErrorKind::Internal, message).with_source(panicked))
        })
    }

    /// Prints the summary of a run that was stopped before its producer was opened.
    fn end_unopened(&self, name: &str, is_kept: bool) -> Result<Exit> {
        let stop = if is_kept {
            GOES_ON.to_owned()
        } else {
            format!("stopped at the start: no row of {name} is taken")
        };
        let (producer, stream) = (&self.producer, &self.arguments.stream);
        let report = if self.arguments.dry_run {
            self.trial()
        } else {
            PublicationReport::unopened(producer, stream, &self.address)
        };
        self.end(report, &ProducerSummary::default(), Some(&stop), false)
    }

    /// Begins the report of a run that publishes nothing.
    fn trial(&self) -> PublicationReport {
        PublicationReport::trial(&self.producer, &self.arguments.stream, &self.address)
    }

    /// Reads a kept input, makes sure of the place on the broker and of the store, and opens the producer.
    ///
    /// # Cancel safety   as a kill: an opening that nobody knows of fences earlier ones all the same
    async fn begin(
        &self,
        input: RowInput,
        sink: AnySink,
        rules: &RowSelectors,
        bars: &Bars,
    ) -> Result<Begun> {
        let (input, checked) = self.checked(input, rules).await?;
        let window = self.contact(bars).await?;
        let broker_window = (!self.remembers_ids).then_some(Duration::ZERO).or(window);
        let mut chance = [0; 8];
        SystemEntropy.fill(&mut chance);
        let opening = Opening {
            name: self.producer.clone(),
            stream: self.arguments.stream.as_str().into(),
            target: self.address.as_str().into(),
            chance,
        };
        let rules_of_producer = ProducerSettings {
            is_sent_in_waves: self.in_waves,
            broker_window,
        };
        let warnings = self.warned(bars).await?;
        let bar = bars.of_work("publish", Unit::Records, None);
        let teller = Arc::new(PublicationTeller::new(
            bars.clone(),
            bar,
            &self.address,
            &self.producer,
        ));
        let clock = Arc::new(SystemClock::new());
        let began = clock.monotonic();
        let producer = Producer::open(
            self.journal.clone(),
            sink,
            &opening,
            rules_of_producer,
            clock.clone(),
            teller.clone(),
        )
        .await?;
        let mark = match checked {
            Some(checked) => self.progress(producer.incarnation(), &checked).await?,
            None => None,
        };
        if let Some(checked) = checked {
            let skipped = mark.map_or(0, |it| it.rows);
            teller.ends_at(checked.rows - skipped);
            let is_whole = mark.is_some_and(|it| it.is_whole);
            if skipped > 0 && skipped == checked.rows && is_whole {
                bars.note(&format!(
                    "{} was published before: nothing of it is new",
                    input.name
                ));
            } else if skipped > 0 && skipped < checked.rows {
                bars.note(&format!("{}: going on behind row {skipped}", input.name));
            }
        }
        Ok(Begun {
            producer,
            input,
            checked,
            mark,
            warnings,
            teller,
            clock,
            began,
        })
    }

    /// Reads an input that is kept once, on a thread that may wait for the disk.
    async fn checked(
        &self,
        mut input: RowInput,
        rules: &RowSelectors,
    ) -> Result<(RowInput, Option<CheckedInput>)> {
        if !input.is_kept {
            return Ok((input, None));
        }
        let (address, rules) = (self.address.clone(), rules.clone());
        let checking = tokio::task::spawn_blocking(move || {
            let checked = input.checked(&address, &rules)?;
            Ok((input, Some(checked)))
        });
        checking.await.unwrap_or_else(|panicked| {
            let message = "the look at the input did not end";
            Err(Error::new(ErrorKind::Internal, message).with_source(panicked))
        })
    }

    /// Prints the summary of an input that broke off: what came before is published, and has to be known where the rest is
    /// sent again.
    fn broken_off(
        &self,
        mut report: PublicationReport,
        summary: &ProducerSummary,
        error: Error,
    ) -> Result<Exit> {
        report.take(summary);
        report.print(self.arguments.format.output)?;
        Err(error)
    }

    /// Prints the summary, and says what is to be done.
    fn end(
        &self,
        mut report: PublicationReport,
        summary: &ProducerSummary,
        stop: Option<&str>,
        is_frozen: bool,
    ) -> Result<Exit> {
        report.take(summary);
        report.print(self.arguments.format.output)?;
        if is_frozen && summary.kept > 0 {
            let (name, kept) = (&self.producer, summary.kept);
            let (typed, at) = (quoted(name.as_str()), &self.store.typed);
            output::note(format_args!(
                "producer {name} is frozen: {kept} messages are kept; `semel producers thaw {typed} --yes{at}`{}, and \
                 the next `semel publish` of it sends them",
                self.store.remark()
            ));
        }
        if let Some(stop) = stop {
            output::note(stop);
        }
        if summary.refused > 0 {
            output::error(format!(
                "{} takes {} of the messages in no case; they are left out",
                self.address, summary.refused
            ));
        }
        let is_done = stop.is_none() && summary.refused == 0;
        Ok(if is_done { Exit::Done } else { Exit::No })
    }

    /// Looks whether the place is there. A broker that is away is told of at once, and waited for.
    async fn contact(&self, bars: &Bars) -> Result<Option<Duration>> {
        let looking = self.target.inspect();
        tokio::pin!(looking);
        let looked = tokio::select! {
            looked = &mut looking => looked,
            () = tokio::time::sleep(IMPATIENCE) => {
                bars.note(&format!("{}: no answer yet", self.address));
                looking.await
            }
        };
        match looked {
            Ok(facts) => Ok(facts.duplicate_window),
            Err(error) if matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout) => {
                bars.warning(&format!(
                    "{} is away: {error}; waiting for it",
                    self.address
                ));
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Tells what the server of the store promises less than a producer needs, before anything is sent.
    async fn warned(&self, bars: &Bars) -> Result<Vec<Box<str>>> {
        let warnings = producers::warnings(&self.store.url).await?;
        for warning in &warnings {
            bars.warning(&format!("{}: {warning}", self.store.url));
        }
        Ok(warnings)
    }

    /// Returns how much of an input was appended before.
    async fn progress(
        &self,
        of: &Incarnation,
        checked: &CheckedInput,
    ) -> Result<Option<InputMark>> {
        let stream = &self.arguments.stream;
        self.journal.input(of, stream, &checked.digest).await
    }

    /// Reads everything, asks the broker for the place, and publishes and opens nothing.
    ///
    /// # Cancel safety   safe: the report has what was read by then
    async fn try_out(
        &self,
        input: RowInput,
        rules: RowSelectors,
        bars: &Bars,
        report: &mut PublicationReport,
    ) -> Result<()> {
        let (input, checked) = self.checked(input, &rules).await?;
        self.target.inspect().await?;
        let warnings = self.warned(bars).await?;
        let producers = Producers {
            own: self.journal.clone(),
            others: None,
        };
        let entries = producers.named(&[self.producer.as_str()]).await?;
        let mut entries = entries.into_iter().map(|(_, it)| it);
        let known = entries.find(|it| it.name == self.producer);
        if let Some(fault) = known.as_ref().and_then(ProducerEntry::fault) {
            return Err(fault);
        }
        let incarnation = known.as_ref().map(|it| Incarnation {
            name: it.name.clone(),
            id: it.id.clone(),
            epoch: it.epoch,
        });
        let mut streams = known.iter().flat_map(|it| &it.streams);
        let stream = streams.find(|it| *it.stream == *self.arguments.stream);
        let mark = match (&incarnation, stream, &checked) {
            (Some(incarnation), Some(_), Some(checked)) => {
                self.progress(incarnation, checked).await?
            }
            _ => None,
        };
        let skipped = mark.map_or((0, 0), |it| (it.rows, it.bytes));
        report.warnings = warnings;
        report.skipped = skipped.0;
        report.waiting = Some(stream.map_or(0, semel_core::producer::StreamEntry::waiting));
        if is_left(checked, mark) {
            let mut rows = input.read(rules, checked, skipped);
            while let Some(rows) = rows.recv().await {
                let rows = rows?;
                report.count(rows.messages.len() as u64, rows.blank);
            }
        }
        Ok(())
    }
}

/// A publication that has begun.
struct Begun {
    producer: Producer,
    input: RowInput,
    checked: Option<CheckedInput>,
    /// The progress of earlier runs in the input.
    mark: Option<InputMark>,
    warnings: Vec<Box<str>>,
    teller: Arc<PublicationTeller>,
    clock: Arc<SystemClock>,
    began: Duration,
}

/// Tells whether there is anything to be read behind what was appended before.
fn is_left(checked: Option<CheckedInput>, mark: Option<InputMark>) -> bool {
    let bytes = mark.map_or(0, |it| it.bytes);
    !checked.is_some_and(|it| it.bytes <= bytes && it.rows > 0)
}

/// Tells whether an earlier run read this content to its end, and found then that the file had changed.
fn has_changed(checked: Option<CheckedInput>, mark: Option<InputMark>) -> bool {
    mark.is_some_and(|it| !it.is_whole) && checked.is_some() && !is_left(checked, mark)
}

fn read_before(name: &str) -> String {
    format!(
        "an earlier run read {name} to its end, and the file changed meanwhile: perhaps not all of its rows are published \
         as they are now; look at what the broker has, and publish what is missing as a file of its own"
    )
}

fn not_all_seen(name: &str) -> String {
    format!("stopped before the end: not all of {name} was looked at")
}

const GOES_ON: &str = "stopped before the end; run it again, and it goes on";
/// The time after which a broker that has not answered at the begin is told of.
const IMPATIENCE: Duration = Duration::from_secs(1);
