//! Rates of a Redis store on one connection, beside what people do by hand: `GET` and `SETEX` per message.
//!
//! `cargo run --release -p semel-store-redis --example rate -- URL [MESSAGES [ROUNDS [SIDE]]]`; the sides take turns, and
//! medians are printed. Keys are random. The prefix `rate-…` is left behind for its expiry.

#![expect(clippy::disallowed_methods, reason = "measures")]
#![expect(clippy::print_stdout, reason = "tells what it measured")]

use std::error::Error;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use semel_core::{
    Admission, ClaimId, ClaimRequest, Key, Operation, Outcome, Scope, Settled, Settlement,
    StateKind, Step, Store, Window,
};
use semel_store_redis::{Options, RedisStore};

#[tokio::main(flavor = "multi_thread", worker_threads = 1)]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("give the url of a server")?;
    let messages: usize = arguments.next().map_or(Ok(50_000), |text| text.parse())?;
    let rounds: usize = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let only = arguments.next().unwrap_or_default();
    let run = random(8)?;
    let ours = format!("{url}?prefix=rate-{run}&connections=1");
    let store = RedisStore::connect(&ours, Options::default()).await?;
    let client = redis::Client::open(url)?;
    let bare = client.get_multiplexed_async_connection().await?;
    let sides: [(&str, usize); 6] = [
        ("GET and SETEX per message", 0),
        ("claim, 100 a call", 100),
        ("claim, 1000 a call", 1_000),
        ("claim and complete, 100 a call", 100),
        ("claim and complete, 1000 a call", 1_000),
        ("replay, 1000 a call", 1_000),
    ];
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); sides.len()];
    let mut costs: Vec<Vec<f64>> = vec![Vec::new(); sides.len()];
    for _ in 0..rounds {
        for (place, (name, batch)) in sides.iter().enumerate() {
            if !name.contains(&only) && *batch > 0 {
                continue;
            }
            let count = if *batch == 0 { messages / 10 } else { messages };
            let mut meter = Meter(bare.clone(), 0.0);
            let took = match *batch {
                0 => by_hand(&mut meter, count).await?,
                batch => in_batches(&store, &mut meter, count, batch, name).await?,
            };
            #[expect(clippy::cast_precision_loss, reason = "a rate")]
            let count = count as f64;
            rates[place].push(count / took.as_secs_f64());
            costs[place].push(meter.1 / count * 1e6);
        }
    }
    let mut base = 0.0;
    println!(
        "{:<34}{:>12}  {:>20}  {:>8}  server's CPU",
        "", "median", "least to most", "ratio"
    );
    for (((name, _), rates), costs) in sides.iter().zip(&mut rates).zip(&mut costs) {
        if rates.is_empty() {
            continue;
        }
        rates.sort_by(f64::total_cmp);
        costs.sort_by(f64::total_cmp);
        let cost = costs[costs.len() / 2];
        let median = rates[rates.len() / 2];
        if base == 0.0 {
            base = median;
        }
        let (least, most) = (rates[0], rates[rates.len() - 1]);
        let spread = format!("{least:.0} to {most:.0}");
        println!(
            "{name:<34}{median:>10.0}/s  {spread:>20}  {:>6.1} x  {cost:.2} us",
            median / base
        );
    }
    Ok(())
}

/// The processor time of the server's main thread: the part of a rate that other work on the machine leaves alone.
struct Meter(redis::aio::MultiplexedConnection, f64);

impl Meter {
    async fn read(&mut self) -> Result<f64, Box<dyn Error>> {
        let info: String = redis::cmd("INFO")
            .arg("cpu")
            .query_async(&mut self.0)
            .await?;
        let main = |name: &str| {
            let mut fields = info.lines().filter_map(|line| line.split_once(':'));
            let field = fields.find(|(field, _)| *field == name);
            field
                .and_then(|(_, value)| value.trim().parse::<f64>().ok())
                .unwrap_or(0.0)
        };
        Ok(main("used_cpu_user_main_thread") + main("used_cpu_sys_main_thread"))
    }

    async fn begin(&mut self) -> Result<Instant, Box<dyn Error>> {
        self.1 = self.read().await?;
        Ok(Instant::now())
    }

    async fn end(&mut self, began: Instant) -> Result<Duration, Box<dyn Error>> {
        let took = began.elapsed();
        self.1 = self.read().await? - self.1;
        Ok(took)
    }
}

/// What a careful service does without us, one message after the other.
async fn by_hand(meter: &mut Meter, messages: usize) -> Result<Duration, Box<dyn Error>> {
    let mut connection = meter.0.clone();
    let keys: Vec<_> = (0..messages)
        .map(|_| random(16))
        .collect::<Result<_, _>>()?;
    let began = meter.begin().await?;
    for key in keys {
        let key = format!("by-hand-{key}");
        let found: Option<String> = redis::cmd("GET")
            .arg(&key)
            .query_async(&mut connection)
            .await?;
        if found.is_none() {
            let mut set = redis::cmd("SETEX");
            let _: () = set
                .arg(&key)
                .arg(600)
                .arg("done")
                .query_async(&mut connection)
                .await?;
        }
    }
    meter.end(began).await
}

async fn in_batches(
    store: &RedisStore,
    meter: &mut Meter,
    messages: usize,
    batch: usize,
    name: &str,
) -> Result<Duration, Box<dyn Error>> {
    let scope = Scope::new("", "payments")?;
    let mut batches = Vec::new();
    for at in (0..messages).step_by(batch) {
        let mut requests = Vec::new();
        for number in at..(at + batch).min(messages) {
            let key = Key::new(&random(16)?)?;
            let mut request =
                ClaimRequest::new(scope.clone(), key, ClaimId::from_u128(number as u128));
            request.window = Window::new(Duration::from_secs(600));
            requests.push(request);
        }
        batches.push(requests);
    }
    if name.starts_with("replay") {
        for requests in &batches {
            let _ = store.claim(requests).await?;
            complete(store, requests).await?;
        }
    }
    let completes = name.contains("complete");
    let began = meter.begin().await?;
    for requests in &batches {
        let answers = store.claim(requests).await?;
        let expected = |answer: &Admission| match answer {
            Admission::Granted(_) => !name.starts_with("replay"),
            Admission::Replay { .. } => name.starts_with("replay"),
            _ => false,
        };
        assert!(answers.iter().all(expected), "{:?}", answers.first());
        if completes {
            complete(store, requests).await?;
        }
    }
    meter.end(began).await
}

async fn complete(store: &RedisStore, requests: &[ClaimRequest]) -> Result<(), Box<dyn Error>> {
    let settlement = |request: &ClaimRequest| Settlement {
        operation: Operation::clone(&request.operation),
        claim_id: request.claim_id,
        step: Step::Complete {
            outcome: Outcome::empty(),
            window: request.window,
        },
    };
    let batch: Vec<_> = requests.iter().map(settlement).collect();
    let settled = store.settle(&batch).await?;
    let is_done = |it: &Settled| matches!(it, Settled::Now(StateKind::Completed));
    assert!(settled.iter().all(is_done), "{:?}", settled.first());
    Ok(())
}

fn random(bytes: usize) -> Result<String, Box<dyn Error>> {
    let mut random = vec![0; bytes];
    getrandom::fill(&mut random).map_err(|error| error.to_string())?;
    Ok(random.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
