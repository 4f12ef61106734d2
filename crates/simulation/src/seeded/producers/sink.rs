//! The sink of a process: a broker that takes whatever comes, or the gate of an ingest source. Slow, away, or its answers
//! are lost; what was handed over arrives whatever becomes of the process.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel_core::ingest::{GateAnswer, Numbering, Submission};
use semel_core::port::ingest::IngestJournal;
use semel_core::port::sink::{Publication, Sink};
use semel_core::producer::{ProducerMessage, ProducerName, headers};
use semel_core::{Clock, Error, ErrorKind, Result};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::scene::{GAP, KNOWN, PUBLICATION, Published, STREAM, Scene};
use crate::seeded::course::secs;
use crate::seeded::dice::Dice;

pub(super) struct SimulatedSink {
    scene: Arc<Scene>,
    process: u64,
    life: u64,
    calls: AtomicU64,
}

/// The fate of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Taken,
    /// Taken, and its answer is lost.
    Unanswered,
    Away,
}

impl SimulatedSink {
    pub(super) fn new(scene: &Arc<Scene>, process: u64, life: u64) -> Self {
        Self {
            scene: Arc::clone(scene),
            process,
            life,
            calls: AtomicU64::new(0),
        }
    }

    /// The fates of a batch, and the time that each message takes.
    fn decided(&self, count: usize, dice: &mut Dice) -> (Vec<Fate>, Duration) {
        let course = &self.scene.course;
        let is_faulty = course.is_faulty();
        let is_outage = is_faulty && dice.one_in(12);
        let fate = |dice: &mut Dice| match dice.roll(60) {
            _ if !is_faulty => Fate::Taken,
            0..30 if is_outage => Fate::Unanswered,
            _ if is_outage => Fate::Away,
            0 => Fate::Unanswered,
            1 => Fate::Away,
            _ => Fate::Taken,
        };
        let mut fates: Vec<Fate> = (0..count).map(|_| fate(dice)).collect();
        if !self.scene.plan.is_in_waves {
            // Nothing is taken behind a message that is not.
            let first = fates.iter().position(|it| *it == Fate::Away);
            let behind = first.unwrap_or(count)..count;
            fates[behind].fill(Fate::Away);
        }
        if is_outage {
            course.blow("sink away");
        } else if fates.contains(&Fate::Unanswered) {
            course.blow("answer of the sink lost");
        }
        (
            fates,
            dice.between(Duration::ZERO, Duration::from_millis(60)),
        )
    }
}

impl Sink for SimulatedSink {
    async fn publish(&self, batch: &[Publication]) -> Vec<Result<()>> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let site = [PUBLICATION, self.process, self.life, call];
        let mut dice = self.scene.course.dice(&site);
        let messages: Option<Vec<Message>> = batch.iter().map(Message::of).collect();
        let Some(messages) = messages else {
            let what = "a message without its identity".to_owned();
            self.scene.course.violation(what);
            return batch.iter().map(|_| Ok(())).collect();
        };
        if let Some(last) = messages.last() {
            self.scene.sends(last.epoch, last.published.sequence);
        }
        let (fates, each) = self.decided(messages.len(), &mut dice);
        // Longer than the journal is believed, now and then.
        let longest = if dice.one_in(10) {
            secs(25)
        } else {
            Duration::from_millis(300)
        };
        let late = dice.between(Duration::ZERO, longest);
        let answers = if self.scene.plan.has_gate {
            self.submit(messages, fates, late, &mut dice).await
        } else {
            self.produce(messages, fates, each, late).await
        };
        let through = batch.iter().zip(&answers);
        let through = through.filter(|(_, answer)| answer.is_ok());
        let through = through.filter_map(|(it, _)| Some(Message::of(it)?.published.sequence));
        if let Some(highest) = through.max() {
            let mut state = self.scene.state();
            let answered = state.answered.entry((self.process, self.life)).or_default();
            *answered = highest.max(*answered);
        }
        answers
    }
}

impl SimulatedSink {
    /// Hands messages to the broker.
    async fn produce(
        &self,
        messages: Vec<Message>,
        fates: Vec<Fate>,
        each: Duration,
        late: Duration,
    ) -> Vec<Result<()>> {
        let (told, answered) = oneshot::channel();
        let scene = Arc::clone(&self.scene);
        let answers = fates.iter().map(|fate| answer(*fate)).collect();
        self.scene.course.begin(async move {
            for (message, fate) in messages.into_iter().zip(fates) {
                sleep(each).await;
                if fate != Fate::Away {
                    let published = message.published;
                    scene.course.log(format_args!("published {published:?}"));
                    scene.state().topic.push(published);
                }
            }
            sleep(late).await;
            // Nobody may wait any more.
            let _ = told.send(());
        });
        // Whoever is killed meanwhile does not stop what is under way.
        let _ = answered.await;
        answers
    }

    /// Sends messages to the gate, in a few requests that may overtake each other.
    async fn submit(
        &self,
        messages: Vec<Message>,
        fates: Vec<Fate>,
        late: Duration,
        dice: &mut Dice,
    ) -> Vec<Result<()>> {
        let (mut answers, mut requests) = (Vec::with_capacity(messages.len()), Vec::new());
        let piece = 1 + dice.place(30);
        for (messages, fates) in pieces(messages, fates, piece) {
            // A request is answered as a whole.
            let fate = if fates.contains(&Fate::Away) {
                Fate::Away
            } else if fates.contains(&Fate::Unanswered) {
                Fate::Unanswered
            } else {
                Fate::Taken
            };
            let usual = dice.between(Duration::ZERO, Duration::from_millis(200));
            let (told, answered) = oneshot::channel();
            let scene = Arc::clone(&self.scene);
            let size = messages.len();
            self.scene.course.begin(async move {
                sleep(usual).await;
                let done = match fate {
                    Fate::Away => answer(Fate::Away),
                    Fate::Unanswered => take(&scene, messages).await.and(answer(fate)),
                    Fate::Taken => take(&scene, messages).await,
                };
                sleep(late).await;
                // Nobody may wait any more.
                let _ = told.send(done);
            });
            requests.push((size, answered));
        }
        for (size, answered) in requests {
            let done = answered.await.unwrap_or_else(|_| answer(Fate::Unanswered));
            answers.extend((0..size).map(|_| done.clone()));
        }
        answers
    }
}

/// Divides messages into requests, in each of which they follow each other: what is between them may be there already.
fn pieces(messages: Vec<Message>, fates: Vec<Fate>, most: usize) -> Vec<(Vec<Message>, Vec<Fate>)> {
    let mut pieces: Vec<(Vec<Message>, Vec<Fate>)> = Vec::new();
    let mut next = None;
    for (message, fate) in messages.into_iter().zip(fates) {
        let sequence = message.published.sequence;
        match pieces.last_mut() {
            Some(piece) if piece.0.len() < most && next == Some(sequence) => {
                piece.0.push(message);
                piece.1.push(fate);
            }
            Some(_) | None => pieces.push((vec![message], vec![fate])),
        }
        next = Some(sequence + 1);
    }
    pieces
}

/// Lets the gate decide about a request.
async fn take(scene: &Scene, messages: Vec<Message>) -> Result<()> {
    let Some(first) = messages.first() else {
        return Ok(());
    };
    let (sequence, epoch) = (first.published.sequence, first.epoch);
    let epochs: BTreeSet<u64> = messages.iter().map(|it| it.epoch).collect();
    if epochs.len() > 1 {
        let what = format!("messages of epochs {epochs:?} in one call");
        scene.course.violation(what);
    }
    let submission = Submission {
        numbering: Numbering::Sender {
            producer: first.producer.clone(),
            epoch,
            first: sequence,
            is_any_first: false,
        },
        stream: STREAM.into(),
        messages: messages.iter().map(|it| it.sent.clone()).collect(),
        at: Clock::now(&*scene.course),
    };
    let answered = scene.gate.submit(&submission).await?;
    scene
        .course
        .log(format_args!("gate: {sequence}, {epoch}: {answered:?}"));
    let refused = |why| Err(Error::new(ErrorKind::Unavailable, why).not_applied());
    match answered {
        GateAnswer::Taken { known, .. } => {
            if known > 0 {
                scene.course.saw(KNOWN);
            }
            let before = scene.state().gate_epoch;
            if epoch < before {
                let what = format!("the gate took epoch {epoch} behind {before}");
                scene.course.violation(what);
            }
            scene.state().gate_epoch = epoch.max(before);
            Ok(())
        }
        GateAnswer::Fenced { .. } => refused("fenced"),
        GateAnswer::Gap { .. } | GateAnswer::Unknown { .. } => {
            scene.course.saw(GAP);
            refused("messages are missing")
        }
    }
}

/// A message with its identity.
struct Message {
    published: Published,
    producer: ProducerName,
    epoch: u64,
    sent: ProducerMessage,
}

impl Message {
    fn of(publication: &Publication) -> Option<Self> {
        let header = |name: &str| {
            let mut headers = publication.headers.iter();
            let (_, value) = headers.find(|(it, _)| *it == name)?;
            std::str::from_utf8(value).ok()
        };
        let row = std::str::from_utf8(&publication.payload).ok()?;
        Some(Self {
            published: Published {
                id: publication.id.clone(),
                row: row.parse().ok()?,
                sequence: header(headers::SEQUENCE)?.parse().ok()?,
            },
            producer: ProducerName::of_sender(header(headers::PRODUCER)?).ok()?,
            epoch: header(headers::EPOCH)?.parse().ok()?,
            sent: ProducerMessage {
                id: Some((*publication.id).into()),
                order: publication.order.clone(),
                ..ProducerMessage::new(publication.payload.clone())
            },
        })
    }
}

fn answer(fate: Fate) -> Result<()> {
    match fate {
        Fate::Taken => Ok(()),
        Fate::Unanswered => Err(Error::new(ErrorKind::Timeout, "no answer")),
        Fate::Away => Err(Error::new(ErrorKind::Unavailable, "away").not_applied()),
    }
}
