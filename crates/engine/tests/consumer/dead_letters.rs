//! Dead letters that go to a broker: published and confirmed before their delivery is acknowledged.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use semel_core::port::sink::{AnySink, Publication, Sink};
use semel_core::{Code, Error, ErrorKind, Result, StateKind};
use semel_engine::effect::Verdict;
use semel_engine::publication;
use semel_engine::summary::Fate;

use super::{broker_with, broker_with_many};
use crate::world::broker::Broker;
use crate::world::crash::Crash;
use crate::world::message::Message;
use crate::world::scripted::{Act, Scripted};
use crate::world::watch::Seen;
use crate::world::worker::{Manner, Run, Worker};
use crate::world::{PARK, World};

const SECOND: Duration = Duration::from_secs(1);

/// The broker of dead letters: it takes each after a second, unless its script says otherwise.
#[derive(Clone)]
struct Post(Arc<Mutex<Ledger>>);

#[derive(Default)]
struct Ledger {
    taken: Vec<Publication>,
    /// For each call, the count of acknowledged deliveries when it began, and when it ended.
    acknowledged: Vec<(usize, usize)>,
    script: VecDeque<Answer>,
    broker: Option<Broker>,
}

/// The answer to one call.
enum Answer {
    /// Fails as a whole.
    Fail(ErrorKind),
    /// The worker dies before the message is there.
    Die(Crash),
    /// The worker dies once the message is there.
    DieTaken(Crash),
}

impl Post {
    fn new(broker: &Broker, script: impl IntoIterator<Item = Answer>) -> Self {
        Self(Arc::new(Mutex::new(Ledger {
            script: script.into_iter().collect(),
            broker: Some(broker.clone()),
            ..Ledger::default()
        })))
    }

    fn worker(&self, world: &World, broker: &Broker) -> Worker {
        let mut worker = world.worker(broker);
        worker.dead_letters = Some(AnySink::new(self.clone()));
        worker
    }

    fn taken(&self) -> Vec<Publication> {
        self.ledger(|ledger| ledger.taken.clone())
    }

    fn ledger<T>(&self, read: impl FnOnce(&mut Ledger) -> T) -> T {
        read(&mut self.0.lock().expect("the ledger never panics"))
    }

    fn acknowledged(&self) -> usize {
        let broker = self.ledger(|ledger| ledger.broker.clone());
        broker.map_or(0, |broker| broker.acknowledged())
    }
}

impl Sink for Post {
    async fn publish(&self, batch: &[Publication]) -> Vec<Result<()>> {
        let before = self.acknowledged();
        let answer = self.ledger(|ledger| ledger.script.pop_front());
        tokio::time::sleep(SECOND).await;
        let after = self.acknowledged();
        self.ledger(|ledger| ledger.acknowledged.push((before, after)));
        match answer {
            Some(Answer::Fail(kind)) => {
                let error = Error::new(kind, "no").with_code(Code::TargetUnavailable);
                return vec![Err(error); batch.len()];
            }
            Some(Answer::Die(crash)) => return crash.now().await,
            Some(Answer::DieTaken(crash)) => {
                self.ledger(|ledger| ledger.taken.extend(batch.iter().cloned()));
                return crash.now().await;
            }
            None => {}
        }
        self.ledger(|ledger| ledger.taken.extend(batch.iter().cloned()));
        vec![Ok(()); batch.len()]
    }
}

fn dead() -> Act {
    Act::Say(Verdict::Dead {
        decisive: false,
        error: "card\nstolen".into(),
    })
}

fn header(publication: &Publication, wanted: &str) -> Option<String> {
    let mut headers = publication.headers.iter();
    let (_, value) = headers.find(|(name, _)| &**name == wanted)?;
    Some(String::from_utf8(value.to_vec()).expect("a text"))
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_confirmed_before_its_delivery_is_acknowledged() {
    for manner in Manner::ALL {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let post = Post::new(&broker, []);
        let worker = post.worker(&world, &broker);
        let effect = Scripted::always(&world, &worker.crash, dead());
        let run = worker.by(manner, effect, PARK).await;

        assert_eq!(run.summary().of(Fate::Dead), 1);
        assert_eq!(post.ledger(|ledger| ledger.acknowledged.clone()), [(0, 0)]);
        assert_eq!(broker.acknowledged(), 1);
        assert_eq!(world.parked().await.len(), 1, "the store keeps it too");
    }
}

#[tokio::test(start_paused = true)]
async fn a_dead_letter_is_the_message_and_says_what_became_of_it() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let post = Post::new(&broker, []);
    let worker = post.worker(&world, &broker);
    let effect = Scripted::always(&world, &worker.crash, dead());
    worker.each(effect, PARK).await.summary();

    let [letter] = &post.taken()[..] else {
        panic!("one letter");
    };
    let id = world.operation("a").id().to_string();
    let record = world.record("a").await.expect("a record");
    assert_eq!(&*letter.id, format!("dead-{id}"));
    assert_eq!(letter.order, Some(Bytes::from_static(b"a")));
    assert_eq!(letter.payload, "{\"key\":\"a\"}");
    for (name, value) in [
        (publication::OPERATION, "test"),
        (publication::OPERATION_ID, &id),
        (publication::ORIGIN, "test:0000"),
        (publication::KEY, "a"),
        (publication::REASON, "failed"),
        (publication::ERROR, "card\\nstolen"),
        (publication::ATTEMPTS, "1"),
        (
            publication::FIRST_SEEN,
            &record.created_at.as_millis().to_string(),
        ),
    ] {
        assert_eq!(header(letter, name).as_deref(), Some(value), "{name}");
    }
    assert!(header(letter, publication::FAILED_AT).is_some());
}

#[tokio::test(start_paused = true)]
async fn while_the_broker_is_away_the_rest_goes_on_and_nothing_dead_is_acknowledged() {
    let world = World::new();
    let broker = broker_with_many(&world, 21);
    let post = Post::new(
        &broker,
        (0..20).map(|_| Answer::Fail(ErrorKind::Unavailable)),
    );
    let worker = post.worker(&world, &broker);
    let effect = Scripted::new(&world, &worker.crash, [dead()]);
    let (run, ()) = tokio::join!(worker.each(effect, PARK), async {
        tokio::time::sleep(SECOND * 60).await;
        assert_eq!(broker.acknowledged(), 20, "all but the dead one");
        assert!(
            broker.extended().len() > 3,
            "the source hears that it is in hand"
        );
    });

    let summary = run.summary();
    assert_eq!((summary.of(Fate::Applied), summary.of(Fate::Dead)), (20, 1));
    assert_eq!(post.taken().len(), 1);
    assert_eq!(broker.acknowledged(), 21);
    let told = world.watch.times(&Seen::TargetAway);
    assert!((3..15).contains(&told), "told once in a while, not {told}");
}

#[tokio::test(start_paused = true)]
async fn a_letter_that_may_be_there_is_published_again_under_the_same_id() {
    for is_taken in [false, true] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let mut first = world.worker(&broker);
        let answer = if is_taken {
            Answer::DieTaken(first.crash.clone())
        } else {
            Answer::Die(first.crash.clone())
        };
        let post = Post::new(&broker, [answer]);
        first.dead_letters = Some(AnySink::new(post.clone()));
        let effect = Scripted::always(&world, &first.crash, dead());
        let run = first.each(effect, PARK).await;
        assert!(matches!(run, Run::Crashed), "{run:?}");
        assert_eq!(world.state("a").await, Some(StateKind::Dead));
        assert_eq!(broker.unacknowledged(), 1);

        let second = post.worker(&world, &broker);
        let effect = Scripted::new(&world, &second.crash, []);
        let summary = second.each(effect, PARK).await.summary();
        assert_eq!(summary.of(Fate::Dead), 1);
        assert_eq!(world.sink.applied("a"), 0);
        let letters = post.taken();
        assert_eq!(letters.len(), if is_taken { 2 } else { 1 });
        assert!(letters.iter().all(|letter| letter.id == letters[0].id));
        assert_eq!(
            header(&letters[0], publication::ERROR).as_deref(),
            Some("card\\nstolen"),
            "as the record has it"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn letters_that_wait_bound_what_is_taken_in() {
    let world = World::new();
    let broker = broker_with_many(&world, 400);
    let away = (0..12).map(|_| Answer::Fail(ErrorKind::Timeout));
    let post = Post::new(&broker, away);
    let worker = post.worker(&world, &broker);
    let most = worker.pipeline.batch * 2;
    // Two batches that were read ahead and the one that is being read.
    let most = most + worker.pipeline.batch * 4;
    let effect = Scripted::always(&world, &worker.crash, dead());
    let (run, ()) = tokio::join!(worker.each(effect, PARK), async {
        tokio::time::sleep(SECOND * 30).await;
        assert_eq!(broker.acknowledged(), 0);
        assert!(broker.in_hand() <= most, "{} in hand", broker.in_hand());
    });
    assert_eq!(run.summary().of(Fate::Dead), 400);
    assert_eq!(post.taken().len(), 400);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_confirmed_at_the_end_is_given_back() {
    let world = World::new();
    let broker = broker_with(&world, &["a", "b"]);
    let away = (0..1_000).map(|_| Answer::Fail(ErrorKind::Unavailable));
    let post = Post::new(&broker, away);
    let worker = post.worker(&world, &broker);
    let stop = worker.stop.clone();
    let effect = Scripted::new(&world, &worker.crash, [dead()]);
    let (run, ()) = tokio::join!(worker.each(effect, PARK), stop.after(SECOND * 20));
    let summary = run.summary();

    assert_eq!(summary.of(Fate::Released), 1, "{summary:?}");
    assert_eq!(summary.of(Fate::Applied), 1, "{summary:?}");
    assert_eq!((broker.acknowledged(), broker.requeued()), (1, 1));
    assert_eq!(post.taken(), []);
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_at_the_end_is_waited_for() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let post = Post::new(&broker, []);
    let worker = post.worker(&world, &broker);
    let stop = worker.stop.clone();
    let effect = Scripted::always(&world, &worker.crash, dead());
    let (run, ()) = tokio::join!(worker.each(effect, PARK), stop.after(SECOND / 2));

    assert_eq!(run.summary().of(Fate::Dead), 1);
    assert_eq!(broker.acknowledged(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_the_broker_never_takes_is_told_and_stays_in_the_store() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    let no = || Answer::Fail(ErrorKind::InvalidInput);
    let post = Post::new(&broker, [no(), no()]);
    let worker = post.worker(&world, &broker);
    let effect = Scripted::always(&world, &worker.crash, dead());
    let summary = worker.each(effect, PARK).await.summary();

    assert_eq!(summary.of(Fate::Dead), 1);
    assert_eq!(post.taken(), []);
    assert_eq!(broker.acknowledged(), 1);
    assert_eq!(world.parked().await.len(), 1);
    let told = Seen::DeadLetterRefused("test:0000".to_owned());
    assert_eq!(world.watch.times(&told), 1);
}

#[tokio::test(start_paused = true)]
async fn headers_that_the_broker_cannot_carry_are_left_out_at_a_second_try() {
    for refusals in [0, 1] {
        let world = World::new();
        let broker = broker_with(&world, &["a"]);
        let refused = (0..refusals).map(|_| Answer::Fail(ErrorKind::InvalidInput));
        let post = Post::new(&broker, refused);
        let mut worker = post.worker(&world, &broker);
        worker.feed.headers = vec![("trace".into(), Bytes::from_static(&[0xFF]))];
        let effect = Scripted::always(&world, &worker.crash, dead());
        assert_eq!(worker.each(effect, PARK).await.summary().of(Fate::Dead), 1);

        let [letter] = &post.taken()[..] else {
            panic!("one letter");
        };
        let has_theirs = letter.headers.iter().any(|(name, _)| &**name == "trace");
        assert_eq!(has_theirs, refusals == 0);
        assert!(header(letter, publication::ERROR).is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_is_dead_goes_to_the_broker() {
    let world = World::new();
    let broker = broker_with(&world, &["a"]);
    broker.publish(Message::with("a", "\"amount\":2"));
    broker.publish(Message::raw("no key"));
    broker.publish(Message::of("d"));
    let post = Post::new(&broker, []);
    let worker = post.worker(&world, &broker);
    let maybe = Act::Say(Verdict::MaybeApplied {
        error: "lost".into(),
    });
    let effect = Scripted::new(&world, &worker.crash, [Act::Do, maybe]);
    let summary = worker.each(effect, PARK).await.summary();

    for fate in [
        Fate::Applied,
        Fate::Conflict,
        Fate::Quarantined,
        Fate::InDoubt,
    ] {
        assert_eq!(summary.of(fate), 1, "{fate:?}");
    }
    assert_eq!(post.taken(), []);
}
