use std::collections::VecDeque;
use std::sync::Mutex;

use semel_core::{Claim, ClaimId, Code, FencingToken, Key, Operation, Scope, Timestamp};

use super::*;

/// Answers each call as its script says, and after that with success.
#[derive(Clone, Debug, Default)]
struct Script(Arc<Mutex<Played>>);

#[derive(Debug, Default)]
struct Played {
    answers: VecDeque<Vec<Result<()>>>,
    /// Payloads of each call.
    calls: Vec<Vec<Bytes>>,
    ids: Vec<Box<str>>,
    needs_no_ids: bool,
}

impl Script {
    fn new(answers: impl IntoIterator<Item = Vec<Result<()>>>) -> Self {
        let script = Self::default();
        script.play(|played| played.answers.extend(answers));
        script
    }

    fn play<T>(&self, play: impl FnOnce(&mut Played) -> T) -> T {
        play(&mut self.0.lock().expect("the script never panics"))
    }

    fn calls(&self) -> Vec<Vec<Bytes>> {
        self.play(|played| played.calls.clone())
    }
}

impl Sink for Script {
    async fn publish(&self, batch: &[Publication]) -> Vec<Result<()>> {
        self.play(|played| {
            let payloads = batch.iter().map(|it| it.payload.clone()).collect();
            played.calls.push(payloads);
            played.ids.extend(batch.iter().map(|it| it.id.clone()));
            let answers = played.answers.pop_front();
            answers.unwrap_or_else(|| vec![Ok(()); batch.len()])
        })
    }

    fn sends_ids(&self) -> bool {
        !self.play(|played| played.needs_no_ids)
    }
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a script")
    }
}

/// Looks fail for as long as there are answers; then there is a window of a minute.
impl Target for Script {
    fn sink(&self) -> Result<AnySink> {
        Ok(AnySink::new(self.clone()))
    }

    fn inspect(&self) -> Inspection<'_> {
        let answer = self.play(|played| played.answers.pop_front());
        Box::pin(async move {
            answer.into_iter().flatten().collect::<Result<()>>()?;
            Ok(facts(60))
        })
    }

    fn timeout(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn destination(&self) -> Destination {
        Destination {
            system: "kafka",
            name: "a script".into(),
            server: None,
        }
    }
}

#[derive(Debug, Default)]
struct Told(Mutex<Vec<String>>);

impl Observer for Told {
    fn observe(&self, pipeline: &str, event: &Event<'_>) {
        let text = match event {
            Event::Paused { error, .. } => format!("{pipeline}: {error}"),
            Event::Resumed { lasted, .. } => format!("{pipeline}: back after {lasted:?}"),
            other => panic!("{other:?} is told by nobody here"),
        };
        let mut told = self.0.lock().expect("observers never panic");
        told.push(text);
    }
}

fn around() -> (Around, Arc<Told>, watch::Sender<bool>) {
    let told = Arc::new(Told::default());
    let (sender, stop) = watch::channel(false);
    let around = Around {
        pipeline: "test".into(),
        observer: told.clone(),
        stop,
        recalled: None,
    };
    (around, told, sender)
}

fn calls(payloads: &[&'static str]) -> Vec<Call> {
    let call = |payload: &&'static str| Call {
        claim: Claim {
            operation: Operation::new(
                Scope::new("", "test").expect("a scope"),
                Key::new(payload).expect("a key"),
            ),
            claim_id: ClaimId::from_u128(1),
            token: FencingToken::new(7),
            lease_until: Timestamp::EPOCH,
            attempt: 1,
            takeover: false,
            resumed: false,
            formerly_expired: false,
            possible_repeat: false,
            first_started_at: None,
        },
        payload: Bytes::from_static(payload.as_bytes()),
        headers: Vec::new(),
        coordinates: "in:1".into(),
        span: None,
    };
    payloads.iter().map(call).collect()
}

fn fails(kind: ErrorKind) -> Result<()> {
    Err(Error::new(kind, "no").with_code(Code::TargetUnavailable))
}

fn away(kind: ErrorKind) -> Result<()> {
    fails(kind).map_err(Error::not_applied)
}

fn done() -> Verdict {
    Verdict::Done(Bytes::new())
}

#[tokio::test(start_paused = true)]
async fn each_message_has_the_verdict_of_its_own_answer() {
    let script = Script::new([vec![
        Ok(()),
        fails(ErrorKind::InvalidInput),
        fails(ErrorKind::Timeout),
        fails(ErrorKind::Unavailable),
        away(ErrorKind::Internal),
        fails(ErrorKind::Internal),
    ]]);
    let effect = PublishEffect::new(AnySink::new(script.clone()));
    let verdicts = effect.call(&calls(&["a", "b", "c", "d", "e", "f"])).await;
    let error = || "no".into();
    let maybe = || Verdict::MaybeApplied { error: error() };
    let not = Verdict::NotApplied {
        error: error(),
        retry_after: None,
    };
    let dead = Verdict::Dead {
        error: error(),
        decisive: false,
    };
    assert_eq!(verdicts, [done(), dead, maybe(), maybe(), not, maybe()]);
    assert_eq!(script.calls().len(), 1, "the whole batch at once");
}

#[tokio::test(start_paused = true)]
async fn an_id_is_made_where_it_goes_out() {
    for needs_no_ids in [false, true] {
        let script = Script::new([]);
        script.play(|played| played.needs_no_ids = needs_no_ids);
        let effect = PublishEffect::new(AnySink::new(script.clone()));
        let calls = calls(&["a"]);
        assert_eq!(effect.call(&calls).await, [done()]);
        let made = calls[0].idempotency_key();
        let expected = if needs_no_ids { "" } else { &made };
        assert_eq!(script.play(|played| played.ids.clone()), [expected.into()]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_surely_is_not_there_since_the_broker_takes_none_is_away() {
    for kind in [
        ErrorKind::Unavailable,
        ErrorKind::Timeout,
        ErrorKind::Throttled,
        ErrorKind::InvalidConfig,
        ErrorKind::Unsupported,
    ] {
        let script = Script::new([vec![Ok(()), away(kind)]]);
        let effect = PublishEffect::new(AnySink::new(script.clone()));
        let verdicts = effect.call(&calls(&["a", "b"])).await;
        let error = "no".into();
        assert_eq!(verdicts, [done(), Verdict::Away { error }], "{kind:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_target_is_waited_for_unless_a_setting_is_wrong() {
    let (around, told, stop) = around();
    let away_twice = Script::new([
        vec![away(ErrorKind::Unavailable)],
        vec![fails(ErrorKind::Timeout)],
    ]);
    let inspection = found(&away_twice, around.clone()).await;
    assert_eq!(inspection.expect("it is there"), Some(facts(60)));
    let heard = told.0.lock().expect("observers never panic").clone();
    assert_eq!(heard.len(), 2, "once each: {heard:?}");
    assert!(heard[0] == "test: no" && heard[1].starts_with("test: back after 60"));

    let wrong = Script::new([vec![fails(ErrorKind::InvalidConfig)]]);
    let error = found(&wrong, around.clone()).await.expect_err("no place");
    assert_eq!(error.kind(), ErrorKind::InvalidConfig);

    let gone = Script::new((0..1_000).map(|_| vec![away(ErrorKind::Unavailable)]));
    let (inspection, ()) = tokio::join!(found(&gone, around), async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        stop.send_replace(true);
    });
    assert_eq!(inspection.expect("a stop is no error"), None);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_recalled_waits_for_no_target() {
    let (around, _, _stop) = around();
    let (recall, recalled) = watch::channel(false);
    let around = Around {
        recalled: Some(recalled),
        ..around
    };
    let gone = Script::new((0..1_000).map(|_| vec![away(ErrorKind::Unavailable)]));
    let (inspection, ()) = tokio::join!(found(&gone, around), async {
        tokio::time::sleep(Duration::from_secs(60)).await;
        recall.send_replace(true);
    });
    assert_eq!(inspection.expect("that is no error"), None);
}

#[test]
fn the_window_is_the_brokers_and_never_longer() {
    let settings = |seconds: Option<u64>| Settings {
        target: Arc::new(Script::default()),
        promise: Promise::Keyed {
            provider_window: seconds.map(Duration::from_secs),
        },
    };
    let keyed = |seconds| Class::Keyed {
        provider_window: within_provider_window(Duration::from_secs(seconds)),
    };
    let class = |declared, real| settings(declared).class_at(real);
    assert_eq!(class(None, facts(120)).expect("read"), keyed(120));
    assert_eq!(class(Some(60), facts(120)).expect("shorter"), keyed(60));
    assert_eq!(
        class(Some(60), Facts::default()).expect("declared"),
        keyed(60)
    );
    for (declared, real) in [
        (Some(121), facts(120)),
        (None, facts(0)),
        (None, Facts::default()),
    ] {
        let error = class(declared, real).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
    }
    assert_eq!(settings(Some(60)).class(), keyed(60));
}

fn facts(seconds: u64) -> Facts {
    Facts {
        duplicate_window: Some(Duration::from_secs(seconds)),
    }
}
