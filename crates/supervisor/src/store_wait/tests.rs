use std::future::pending;

use semel_backends::BACKENDS;
use semel_config::{Backends, Overrides, PipelineSettings, Servers, Settings};
use semel_conformance::TestClock;
use semel_engine::surroundings::OnProgress;

use super::*;

/// Remembers what is told of the store.
#[derive(Default)]
struct Heard(Mutex<Vec<String>>);

impl Heard {
    fn all(&self) -> Vec<String> {
        self.0.lock().expect("no panic").clone()
    }
}

impl Reporter for Heard {
    fn report(&self, notice: &Notice<'_>) {
        let word = match notice {
            Notice::StoreAway(error) => format!("away: {}", error.code()),
            Notice::StoreBack { .. } => "back".to_owned(),
            _ => "another notice".to_owned(),
        };
        self.0.lock().expect("no panic").push(word);
    }

    fn progress(&self, _: &PipelineSettings) -> OnProgress {
        Arc::new(|_, _| {})
    }
}

/// The url of a store on a server, whatever is built in.
pub(crate) fn on_a_server() -> StoreUrl {
    let backends = Backends {
        servers: Servers {
            is_built_in: |_| true,
            check: |_| Ok(()),
        },
        ..BACKENDS
    };
    let text = "[store]\nurl = \"postgres://semel@db.example/semel\"\n[pipelines.pay]\nkey = \"json:/id\"\n\
                source = { kind = \"stdin\" }\neffect = { kind = \"stdout\", on_doubt = \"park\" }\n";
    let overrides = Overrides::default();
    let settings = Settings::of("semel.toml", text, std::iter::empty(), &overrides, backends);
    settings.expect("sound settings").store
}

struct World {
    health: Arc<Health>,
    heard: Arc<Heard>,
    wait: StoreWait,
}

impl World {
    fn with(url: &StoreUrl) -> Self {
        let health = Arc::new(Health::new(PROMPT, Arc::new(TestClock::new())));
        let heard = Arc::new(Heard::default());
        let reporter: Arc<dyn Reporter> = heard.clone();
        let wait = StoreWait::new(url, &health, &reporter);
        Self {
            health,
            heard,
            wait,
        }
    }
}

/// A start with some calls of the store, one of which fails a few times.
struct Calls<'w> {
    wait: &'w StoreWait,
    count: usize,
    failing: usize,
    failures: usize,
    error: Error,
    attempts: usize,
}

impl<'w> Calls<'w> {
    fn of(world: &'w World, failing: usize, error: Error) -> Self {
        Self {
            wait: &world.wait,
            count: 4,
            failing,
            failures: 3,
            error,
            attempts: 0,
        }
    }
}

impl Start for Calls<'_> {
    type Made = usize;
    type Failure = Error;

    async fn attempt(&mut self) -> Result<usize> {
        self.attempts += 1;
        for call in 0..self.count {
            let fails = call == self.failing && self.failures > 0;
            if fails {
                self.failures -= 1;
                return Err(self.error.clone());
            }
            self.wait.asks(async { Ok(()) }).await?;
        }
        self.wait.answers();
        Ok(self.attempts)
    }

    fn fails(&mut self, error: Error) -> Result<Duration> {
        if self.wait.is_for(&error) {
            return Ok(self.wait.fails(&error));
        }
        Err(error)
    }
}

fn away() -> Error {
    Error::new(ErrorKind::Unavailable, "connection refused")
}

#[tokio::test(start_paused = true)]
async fn a_start_is_tried_until_it_is_made_whichever_of_its_calls_fails() {
    for failing in 0..4 {
        let world = World::with(&on_a_server());
        let mut start = Calls::of(&world, failing, away());
        let made = world.wait.until_made(&mut start, pending()).await;
        assert_eq!(made.expect("no error"), Some(4), "call {failing}");
        assert_eq!(world.heard.all(), ["away: store-unavailable", "back"]);
        assert!(!world.health.is_store_awaited());
        assert!(!world.health.store_fails());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_ends_a_start_and_so_does_what_is_away_on_this_machine() {
    let refused = Error::new(ErrorKind::InvalidConfig, "refused login");
    let refused = refused.with_code(Code::StoreUnavailable);
    let here = StoreUrl::Sqlite("semel.db".into());
    for (url, error) in [(on_a_server(), refused), (here, away())] {
        let world = World::with(&url);
        let mut start = Calls::of(&world, 2, error.clone());
        let ended = world.wait.until_made(&mut start, pending()).await;
        let ended = ended.expect_err("it is tried once");
        assert_eq!((ended.kind(), start.attempts), (error.kind(), 1));
        assert!(world.heard.all().is_empty(), "{:?}", world.heard.all());
    }
}

/// Asks, and gets no answer.
struct Mute<'w>(&'w StoreWait);

impl Start for Mute<'_> {
    type Made = ();
    type Failure = Error;

    async fn attempt(&mut self) -> Result<()> {
        self.0.asks(pending()).await
    }

    fn fails(&mut self, error: Error) -> Result<Duration> {
        Err(error)
    }
}

#[tokio::test(start_paused = true)]
async fn a_start_that_is_called_off_ends_while_it_waits_and_while_it_asks() {
    let world = World::with(&on_a_server());
    let mut start = Calls {
        failures: usize::MAX,
        ..Calls::of(&world, 0, away())
    };
    let called_off = sleep(RETRY / 2);
    let made = world.wait.until_made(&mut start, called_off).await;
    assert_eq!((made.expect("no error"), start.attempts), (None, 1));
    assert_eq!(world.heard.all(), ["away: store-unavailable"]);
    assert!(!world.health.is_store_awaited(), "the probe asks again");

    let world = World::with(&on_a_server());
    let mut start = Mute(&world.wait);
    let made = world.wait.until_made(&mut start, sleep(PROMPT * 2)).await;
    assert_eq!(made.expect("no error"), None);
    assert_eq!(
        world.heard.all(),
        ["away: store-unavailable"],
        "silence is told of"
    );
    assert!(world.health.store_fails());
}

/// Several pipelines may wait at once.
#[tokio::test(start_paused = true)]
async fn starts_that_wait_together_are_told_of_once() {
    let world = World::with(&on_a_server());
    let mut both = [Calls::of(&world, 0, away()), Calls::of(&world, 0, away())];
    let [first, second] = &mut both;
    let made = tokio::join!(
        world.wait.until_made(first, pending()),
        world.wait.until_made(second, pending()),
    );
    assert!(made.0.is_ok() && made.1.is_ok());
    assert_eq!(world.heard.all(), ["away: store-unavailable", "back"]);
}

#[test]
fn only_what_may_pass_by_itself_is_waited_for() {
    let unavailable = |code| Error::new(ErrorKind::Unavailable, "words").with_code(code);
    assert!(is_away(&unavailable(Code::StoreUnavailable)));
    assert!(is_away(&Error::new(ErrorKind::Timeout, "no answer")));
    for code in [
        Code::StoreForeign,
        Code::StoreNewer,
        Code::StoreReadOnly,
        Code::StoreFull,
    ] {
        assert!(!is_away(&unavailable(code)), "{code}");
    }
    let refused = Error::new(ErrorKind::InvalidConfig, "refused login");
    assert!(!is_away(&refused.with_code(Code::StoreUnavailable)));
}
