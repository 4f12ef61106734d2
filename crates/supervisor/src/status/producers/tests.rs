use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use semel_conformance::TestClock;
use semel_core::Timestamp;
use semel_core::port::producer::AnyProducerJournal;
use semel_core::producer::{
    Batch, Incarnation, InputMark, Opened, Opening, ProducerName, ProducerOrder, Standing,
    StoredBatch,
};
use semel_store_memory::MemoryProducers;

use super::shown::PLACES;
use super::*;

/// A journal whose lists and answers do as they are told, and are counted.
#[derive(Default)]
struct Lab {
    inner: MemoryProducers,
    /// The time that a page takes.
    page_takes: Mutex<Duration>,
    /// The failure of each page.
    fails: Mutex<Option<ErrorKind>>,
    /// The producer whose messages cannot be read, and why.
    unreadable: Mutex<Option<(ProducerName, ErrorKind)>>,
    /// The producers of the largest page, and the counts of pages and of looks at messages.
    largest: AtomicU64,
    pages: AtomicU64,
    looks: AtomicU64,
}

impl Lab {
    /// Opens a producer, and appends so many messages at this second, beside what it has confirmed.
    async fn appends(&self, name: &str, stream: &str, count: u32, at: u64) {
        let opened = self.opened(name, stream).await;
        let batch = Batch {
            first: opened.next,
            count,
            body: Bytes::from_static(b"orders"),
            input: None,
            confirmed: 0,
            at: Timestamp::from_millis(at * 1_000),
        };
        let appended = self.inner.append(&opened.incarnation, stream, &batch);
        appended.await.expect("appended");
    }

    /// Opens a producer, and confirms all messages up to this one.
    async fn confirms(&self, name: &str, stream: &str, through: u64) {
        let opened = self.opened(name, stream).await;
        let confirmed = self.inner.confirm(&opened.incarnation, stream, through);
        confirmed.await.expect("confirmed");
    }

    async fn opened(&self, name: &str, stream: &str) -> Opened {
        let opening = Opening {
            name: name.parse().expect("a name"),
            stream: stream.into(),
            target: "nats here".into(),
            chance: [7; 8],
        };
        self.inner.open(&opening).await.expect("opened")
    }

    async fn ordered(&self, name: &str, order: ProducerOrder) {
        let name = name.parse().expect("a name");
        assert!(self.inner.order(&name, order).await.expect("an answer"));
    }

    fn pages(&self) -> u64 {
        self.pages.load(Ordering::Relaxed)
    }

    fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    fn takes(&self, time: Duration) {
        *self.page_takes.lock().expect("no panic") = time;
    }

    fn cannot_read(&self, name: &str, kind: ErrorKind) {
        let name = name.parse().expect("a name");
        *self.unreadable.lock().expect("no panic") = Some((name, kind));
    }

    fn fails(&self, kind: Option<ErrorKind>) {
        *self.fails.lock().expect("no panic") = kind;
    }
}

impl ProducerJournal for Lab {
    async fn open(&self, _: &Opening) -> Result<Opened> {
        unreachable!("a count opens nothing")
    }

    async fn append(&self, _: &Incarnation, _: &str, _: &Batch) -> Result<Standing> {
        unreachable!("a count writes nothing")
    }

    async fn confirm(&self, _: &Incarnation, _: &str, _: u64) -> Result<Standing> {
        unreachable!("a count writes nothing")
    }

    async fn pending(
        &self,
        incarnation: &Incarnation,
        stream: &str,
        after: u64,
        most: u32,
    ) -> Result<Vec<StoredBatch>> {
        self.looks.fetch_add(1, Ordering::Relaxed);
        let unreadable = self.unreadable.lock().expect("no panic").clone();
        if let Some((_, kind)) = unreadable.filter(|(name, _)| *name == incarnation.name) {
            return Err(Error::new(kind, "a frame does not check out"));
        }
        self.inner.pending(incarnation, stream, after, most).await
    }

    async fn input(&self, _: &Incarnation, _: &str, _: &[u8; 32]) -> Result<Option<InputMark>> {
        unreachable!("a count asks for no input")
    }

    async fn page(&self, after: Option<&ProducerName>, most: u32) -> Result<Vec<ProducerEntry>> {
        self.pages.fetch_add(1, Ordering::Relaxed);
        self.largest.fetch_max(most.into(), Ordering::Relaxed);
        let takes = *self.page_takes.lock().expect("no panic");
        sleep(takes).await;
        let fails = *self.fails.lock().expect("no panic");
        match fails {
            Some(kind) => Err(Error::new(kind, "no")),
            None => self.inner.page(after, most).await,
        }
    }

    async fn order(&self, _: &ProducerName, _: ProducerOrder) -> Result<bool> {
        unreachable!("a count writes nothing")
    }
}

/// The journal as a count has it.
fn journal(lab: &Arc<Lab>) -> AnyProducerJournal {
    AnyProducerJournal::shared(Arc::clone(lab))
}

/// Remembers the failures that were told.
#[derive(Default)]
struct Told(Mutex<Vec<ErrorKind>>);

impl Told {
    fn tell(&self, error: &Error) {
        self.0.lock().expect("no panic").push(error.kind());
    }

    fn all(&self) -> Vec<ErrorKind> {
        self.0.lock().expect("no panic").clone()
    }
}

/// A journal without producers, and the samples and the words that are still to come of it.
fn watched() -> (Arc<Lab>, ProducerSamples, Told) {
    Default::default()
}

/// A clock at this second.
fn clock_at(second: u64) -> TestClock {
    let clock = TestClock::new();
    let now = clock.now().as_millis() / 1_000;
    clock.advance(Duration::from_secs(second.saturating_sub(now)));
    clock
}

/// A time, in seconds, that is not before the first one of a [`TestClock`].
fn later(seconds: u64) -> u64 {
    TestClock::new().now().as_millis() / 1_000 + 10_000 + seconds
}

/// Counts once; returns the name, the messages that wait, those that are kept, and the age in seconds.
async fn counted(
    counts: &mut Counts,
    lab: &Arc<Lab>,
    second: u64,
) -> Vec<(String, u64, u64, Option<u64>)> {
    let clock = clock_at(second);
    let (rows, trouble) = counts
        .count(&journal(lab), 7, &clock)
        .await
        .expect("a count");
    assert!(trouble.is_none(), "{trouble:?}");
    let rows = rows.into_iter().map(|it| {
        let age = it.oldest.map(|it| it.as_secs());
        (it.producer.into(), it.figures.waiting, it.figures.kept, age)
    });
    rows.collect()
}

fn row(name: &str, waiting: u64, kept: u64, age: u64) -> (String, u64, u64, Option<u64>) {
    (name.to_owned(), waiting, kept, Some(age))
}

#[tokio::test]
async fn what_waits_is_counted_by_producer_and_what_is_kept_has_no_age() {
    let (lab, mut counts) = (Arc::new(Lab::default()), Counts::default());
    assert_eq!(counted(&mut counts, &lab, later(0)).await, []);
    lab.appends("billing", "orders", 3, later(10)).await;
    lab.appends("billing", "orders", 2, later(40)).await;
    lab.appends("billing", "refunds", 1, later(30)).await;
    lab.appends("till", "orders", 4, later(5)).await;
    lab.confirms("till", "orders", 4).await;
    let rows = counted(&mut counts, &lab, later(100)).await;
    assert_eq!(rows, [row("billing", 6, 0, 90), row("till", 0, 0, 0)]);
    // A part of the oldest batch is not the whole.
    lab.confirms("billing", "orders", 2).await;
    let rows = counted(&mut counts, &lab, later(100)).await;
    assert_eq!(rows[0], row("billing", 4, 0, 90));
    lab.confirms("billing", "orders", 3).await;
    let rows = counted(&mut counts, &lab, later(100)).await;
    assert_eq!(rows[0], row("billing", 3, 0, 70));
    lab.ordered("billing", ProducerOrder::Freeze).await;
    let rows = counted(&mut counts, &lab, later(100)).await;
    assert_eq!(rows[0], row("billing", 3, 3, 0));
    lab.ordered("billing", ProducerOrder::Release).await;
    lab.appends("billing", "orders", 5, later(100)).await;
    let rows = counted(&mut counts, &lab, later(100)).await;
    assert_eq!(rows[0], row("billing", 8, 5, 70));
    lab.ordered("billing", ProducerOrder::Thaw).await;
    let rows = counted(&mut counts, &lab, later(100)).await;
    assert_eq!(rows[0], row("billing", 8, 0, 70));
}

#[tokio::test]
async fn messages_that_stand_still_are_looked_at_once() {
    let (lab, mut counts) = (Arc::new(Lab::default()), Counts::default());
    lab.appends("billing", "orders", 3, later(0)).await;
    for second in [10, 20, 30] {
        let rows = counted(&mut counts, &lab, later(second)).await;
        assert_eq!(rows, [row("billing", 3, 0, second)]);
        assert_eq!(lab.looks(), 1);
    }
    lab.confirms("billing", "orders", 3).await;
    lab.appends("billing", "orders", 1, later(30)).await;
    let rows = counted(&mut counts, &lab, later(40)).await;
    assert_eq!((rows, lab.looks()), (vec![row("billing", 1, 0, 10)], 2));
}

#[tokio::test]
async fn of_many_producers_a_hundred_are_looked_at_in_a_count_and_those_that_are_shown_first() {
    let (lab, mut counts) = (Arc::new(Lab::default()), Counts::default());
    for number in 0..180 {
        // The last ones by name have most that waits, and the oldest of all is among the others.
        let name = format!("till-{number:03}");
        let at = later(if number == 150 { 0 } else { 50 });
        lab.appends(&name, "orders", number + 1, at).await;
    }
    let rows = counted(&mut counts, &lab, later(100)).await;
    assert_eq!((rows.len(), lab.looks()), (PLACES + 1, 100));
    assert_eq!(rows[0], row("till-160", 161, 0, 50));
    let waiting = (1..=160).sum();
    assert_eq!(rows[PLACES], row("other", waiting, 0, 50));
    let rows = counted(&mut counts, &lab, later(100)).await;
    assert_eq!(
        (&rows[PLACES], lab.looks()),
        (&row("other", waiting, 0, 100), 180)
    );
}

#[tokio::test(start_paused = true)]
async fn who_is_shown_keeps_the_place_and_does_not_vanish_with_it() {
    let (lab, mut counts) = (Arc::new(Lab::default()), Counts::default());
    let name = |number: usize| format!("till-{number:02}");
    for number in 0..PLACES {
        lab.appends(&name(number), "orders", 100, later(0)).await;
    }
    // One that is called so is one of them.
    lab.appends("other", "orders", 9_000, later(70)).await;
    lab.appends("zebra", "orders", 120, later(80)).await;
    let rows = counted(&mut counts, &lab, later(90)).await;
    let (last, first) = (name(PLACES - 1), row("till-00", 100, 0, 90));
    assert!(rows.contains(&first) && rows.contains(&row("zebra", 120, 0, 10)));
    assert!(rows.contains(&row("other", 9_100, 0, 90)), "with {last}");
    lab.confirms("zebra", "orders", 120).await;
    for number in 0..PLACES {
        lab.confirms(&name(number), "orders", 100).await;
    }
    // Nothing waits: nobody takes a place, and all series are there with nothing.
    let rows = counted(&mut counts, &lab, later(90)).await;
    assert_eq!(rows.len(), PLACES + 1);
    assert!(
        rows.iter()
            .all(|it| it.0 == "other" || *it == row(&it.0, 0, 0, 0))
    );
    lab.confirms("other", "orders", 9_000).await;
    lab.appends(&last, "orders", 50, later(60)).await;
    let once = counted(&mut counts, &lab, later(90)).await;
    assert!(once.iter().all(|row| row.0 != last), "once is an accident");
    let twice = counted(&mut counts, &lab, later(90)).await;
    assert!(twice.contains(&row(&last, 50, 0, 30)), "{twice:?}");
    // Whoever lost the place is there with nothing, for longer than the last value is asked for.
    let is_told = |rows: &[(String, u64, u64, Option<u64>)]| rows.len() == PLACES + 2;
    assert!(is_told(&twice), "{twice:?}");
    sleep(Duration::from_secs(605)).await;
    assert!(is_told(&counted(&mut counts, &lab, later(90)).await));
    sleep(Duration::from_secs(60)).await;
    assert!(!is_told(&counted(&mut counts, &lab, later(90)).await));
    // Somewhat more is no reason.
    for number in 0..PLACES {
        if name(number) != last {
            lab.appends(&name(number), "orders", 40, later(60)).await;
        }
    }
    lab.appends("zebra", "orders", 48, later(60)).await;
    for _ in 0..3 {
        counted(&mut counts, &lab, later(90)).await;
    }
    lab.appends("aardvark", "orders", 49, later(60)).await;
    for _ in 0..3 {
        let rows = counted(&mut counts, &lab, later(90)).await;
        assert!(rows.iter().all(|row| row.0 != "aardvark"), "{rows:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn places_change_hands_a_few_times_in_a_while_however_many_want_them() {
    let (lab, mut counts) = (Arc::new(Lab::default()), Counts::default());
    for number in 0..400 {
        lab.appends(&format!("till-{number:03}"), "orders", 1, later(0))
            .await;
    }
    let mut names = std::collections::BTreeSet::new();
    for turn in 0..10 {
        for number in turn * 40..turn * 40 + 40 {
            let name = format!("till-{number:03}");
            lab.appends(&name, "orders", 100 << turn, later(0)).await;
        }
        for _ in 0..2 {
            let rows = counted(&mut counts, &lab, later(0)).await;
            assert!(rows.len() <= 2 * PLACES + 1);
            names.extend(rows.into_iter().map(|it| it.0));
        }
    }
    assert!(names.len() <= 2 * PLACES + 1, "{}", names.len());
}

/// Polls the counts for as long as `told` takes.
async fn beside(
    samples: &ProducerSamples,
    lab: &Arc<Lab>,
    told: &Told,
    course: impl Future<Output = ()>,
) {
    let clock = clock_at(later(0));
    tokio::select! {
        () = samples.take(journal(lab), 2, &clock, |it| told.tell(it)) => {}
        () = course => {}
    }
}

fn is_shown(samples: &ProducerSamples) -> bool {
    samples.lock().as_ref().and_then(Reading::value).is_some()
}

async fn seconds(count: u64) {
    sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn a_journal_that_may_not_be_read_is_told_of_once_and_asked_seldom() {
    for kind in [
        ErrorKind::InvalidConfig,
        ErrorKind::Unsupported,
        ErrorKind::Corrupt,
    ] {
        let (lab, samples, told) = watched();
        lab.appends("billing", "orders", 3, later(0)).await;
        lab.fails(Some(kind));
        beside(&samples, &lab, &told, async {
            seconds(3_500).await;
            assert_eq!((lab.pages(), told.all()), (6, vec![kind]));
            assert!(!is_shown(&samples));
            lab.fails(None);
            seconds(600).await;
            assert!(is_shown(&samples), "soon after it may");
            lab.fails(Some(kind));
            seconds(1_300).await;
            assert_eq!(told.all(), [kind, kind], "told anew");
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn series_end_while_the_store_is_away_and_come_back_soon() {
    let (lab, samples, told) = watched();
    for name in ["a", "b", "c", "d", "e"] {
        lab.appends(name, "orders", 1, later(0)).await;
    }
    beside(&samples, &lab, &told, async {
        seconds(25).await;
        assert!(is_shown(&samples));
        assert_eq!((lab.pages(), lab.largest.load(Ordering::Relaxed)), (9, 2));
        lab.fails(Some(ErrorKind::Unavailable));
        seconds(20).await;
        assert!(!is_shown(&samples));
        seconds(600).await;
        lab.fails(None);
        seconds(11).await;
        assert!(is_shown(&samples));
        assert_eq!(told.all(), [], "others tell of a store that is away");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_journal_takes_a_twentieth_and_shows_what_was_there_in_time() {
    let (lab, samples, told) = watched();
    for name in ["a", "b", "c", "d", "e", "f"] {
        lab.appends(name, "orders", 1, later(0)).await;
    }
    lab.takes(Duration::from_secs(2));
    beside(&samples, &lab, &told, async {
        seconds(6).await;
        let reading = samples.lock().as_ref().and_then(|it| it.value().cloned());
        let names: Vec<_> = reading
            .into_iter()
            .flatten()
            .map(|it| it.producer)
            .collect();
        assert_eq!(names, ["a", "b", "c", "d"].map(Box::from));
        // A count takes five seconds, in which it begins three pages.
        seconds(1_000).await;
        assert!(lab.pages() <= 30, "{}", lab.pages());
        lab.takes(Duration::from_secs(60));
        seconds(120).await;
        let before = lab.pages();
        seconds(1_000).await;
        assert!(lab.pages() - before <= 10, "{}", lab.pages() - before);
        assert!(!is_shown(&samples), "not even the first page");
        assert_eq!(told.all(), [ErrorKind::Timeout], "told once");
        lab.takes(Duration::ZERO);
        seconds(1_000).await;
        assert!(is_shown(&samples), "when it is quick again");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_damaged_producer_hides_no_other() {
    let (lab, samples, told) = watched();
    lab.appends("billing", "orders", 3, later(0)).await;
    lab.appends("till", "orders", 2, later(0)).await;
    lab.cannot_read("billing", ErrorKind::Corrupt);
    beside(&samples, &lab, &told, async {
        seconds(95).await;
        let reading = samples.lock().as_ref().and_then(|it| it.value().cloned());
        let rows: Vec<_> = reading.into_iter().flatten().collect();
        let figures: Vec<_> = rows
            .iter()
            .map(|it| (it.figures.waiting, it.oldest.is_some()))
            .collect();
        assert_eq!(figures, [(3, false), (2, true)]);
        assert_eq!(told.all(), [ErrorKind::Corrupt], "told once");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_goes_away_during_the_looks_keeps_what_was_counted() {
    let (lab, samples, told) = watched();
    lab.appends("billing", "orders", 3, later(0)).await;
    lab.appends("till", "orders", 2, later(0)).await;
    lab.cannot_read("billing", ErrorKind::Unavailable);
    beside(&samples, &lab, &told, async {
        seconds(95).await;
        let reading = samples.lock().as_ref().and_then(|it| it.value().cloned());
        let waiting: Vec<_> = reading.into_iter().flatten().collect();
        let waiting: Vec<_> = waiting.iter().map(|it| it.figures.waiting).collect();
        assert_eq!(waiting, [3, 2]);
        assert_eq!(told.all(), [], "others tell of a store that is away");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_count_now_and_then_is_not_told() {
    let (lab, samples, told) = watched();
    lab.appends("billing", "orders", 3, later(0)).await;
    beside(&samples, &lab, &told, async {
        for _ in 0..5 {
            lab.takes(Duration::from_secs(60));
            let before = lab.pages();
            while lab.pages() < before + 2 {
                seconds(1).await;
            }
            lab.takes(Duration::ZERO);
            seconds(600).await;
            assert!(is_shown(&samples));
        }
        assert_eq!(told.all(), []);
    })
    .await;
}
