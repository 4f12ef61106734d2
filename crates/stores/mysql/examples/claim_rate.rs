//! How fast claims, completions and effects are, beside what people write by hand.
//!
//! `cargo run --release -p semel-store-mysql --example claim_rate -- URL [MESSAGES]`
//!
//! By hand: for each message a SELECT, and an INSERT where it found nothing, each committing by itself;
//! and for effects one transaction per message. Both sides run on the same server with prepared
//! statements, in rounds that alternate. Each line is the median of the rounds, with the least and the
//! most; ratios are of the medians.

#![expect(
    clippy::disallowed_methods,
    reason = "a measurement reads the real clock"
)]
#![expect(clippy::cast_precision_loss, reason = "a rate needs no 53 bits")]

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_core::port::transactional::{
    Application, Applied, Backoff, Statements, TransactionalStore, Value,
};
use semel_core::{
    Admission, ClaimId, ClaimRequest, Fingerprint, Key, Outcome, Scope, Settled, Settlement, Step,
    Store, Window,
};
use semel_store_mysql::mysql_async::prelude::Queryable;
use semel_store_mysql::mysql_async::{Conn, Opts, OptsBuilder, TxOpts};
use semel_store_mysql::{MysqlStore, Options};

type Failure = Box<dyn Error + Send + Sync>;

#[expect(clippy::print_stdout, reason = "the figures are the output")]
#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments
        .next()
        .ok_or("name the url of a server and an empty database")?;
    let messages: usize = arguments.next().map_or(Ok(50_000), |count| count.parse())?;
    let mut found: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for round in 0..ROUNDS {
        prepare(&url).await?;
        let store = Arc::new(MysqlStore::connect(&url, Options::default()).await?);
        let batches = batches(round, messages)?;
        let few: Vec<_> = batches
            .iter()
            .flatten()
            .take(messages / 20)
            .cloned()
            .collect();
        let rates = [
            (ONE, claim(&store, &batches, 1).await?),
            (REPLAY, claim(&store, &batches, 1).await?),
            (COMPLETE, complete(&store, &batches).await?),
            (
                FOUR,
                claim(&store, &self::batches(round + 100, messages)?, 4).await?,
            ),
            (HAND, by_hand(&url, &few, 1).await?),
            (HANDS, by_hand(&url, &few, 4).await?),
            (
                APPLY,
                apply(&store, &self::batches(round + 200, messages)?).await?,
            ),
            (APPLY_HAND, apply_by_hand(&url, &few).await?),
        ];
        for (name, rate) in rates {
            found.entry(name).or_default().push(rate);
        }
    }
    let mut medians = BTreeMap::new();
    for (name, rates) in &mut found {
        rates.sort_by(f64::total_cmp);
        let (least, median, most) = (rates[0], rates[ROUNDS / 2], rates[ROUNDS - 1]);
        println!("{name:48} {median:>8.0}/s  [{least:.0}..{most:.0}]");
        medians.insert(*name, median);
    }
    println!(
        "claims to by hand:            {:.1}",
        medians[ONE] / medians[HAND]
    );
    println!(
        "claims to by hand, four each: {:.1}",
        medians[FOUR] / medians[HANDS]
    );
    println!(
        "effects to by hand:           {:.1}",
        medians[APPLY] / medians[APPLY_HAND]
    );
    Ok(())
}

async fn connect(url: &str) -> Result<Conn, Failure> {
    let opts = OptsBuilder::from_opts(Opts::from_url(url)?).prefer_socket(false);
    Ok(Conn::new(opts).await?)
}

/// Tables that are empty.
async fn prepare(url: &str) -> Result<(), Failure> {
    let mut connection = connect(url).await?;
    for table in [
        "meta", "tokens", "records", "entities", "parked", "audit", "marks",
    ] {
        connection
            .query_drop(format!("DROP TABLE IF EXISTS semel_{table}"))
            .await?;
    }
    for statement in [
        "DROP TABLE IF EXISTS naive, payments",
        "CREATE TABLE naive (id VARCHAR(64) PRIMARY KEY, claimed_at DATETIME(3) NOT NULL) ENGINE=InnoDB",
        "CREATE TABLE payments (id VARCHAR(64) PRIMARY KEY, amount BIGINT NOT NULL) ENGINE=InnoDB",
    ] {
        connection.query_drop(statement).await?;
    }
    connection.disconnect().await?;
    Ok(())
}

/// Requests as a worker makes them, with keys in no order.
fn batches(round: usize, messages: usize) -> Result<Vec<Vec<ClaimRequest>>, Failure> {
    let scope = Scope::new("", "payments")?;
    let mut state = 88_172_645_463_325_252_u64 + round as u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.wrapping_mul(0x2545_F491_4F6C_DD1D)
    };
    let mut requests = Vec::with_capacity(messages);
    for number in 0..messages {
        let key = Key::new(&format!("{:016x}{:016x}", random(), random()))
            .map_err(|_| "a key of digits")?;
        let claim_id = ClaimId::from_u128((u128::from(random()) << 64) | number as u128);
        let mut request = ClaimRequest::new(scope.clone(), key, claim_id);
        let mut digest = [0; 16];
        digest[..8].copy_from_slice(&random().to_be_bytes());
        request.fingerprint = Some(Fingerprint { scheme: 1, digest });
        request.transport = Some(format!("payments/0/{number}").into());
        requests.push(request);
    }
    Ok(requests.chunks(BATCH).map(<[_]>::to_vec).collect())
}

/// Claims all batches, so many at once.
async fn claim(
    store: &Arc<MysqlStore>,
    batches: &[Vec<ClaimRequest>],
    at_once: usize,
) -> Result<f64, Failure> {
    let begin = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    for batch in batches {
        if running.len() == at_once {
            running.join_next().await.ok_or("nothing was running")???;
        }
        let (store, batch) = (Arc::clone(store), batch.clone());
        running.spawn(async move {
            let answers = store.claim(&batch).await?;
            let granted = |it: &Admission| matches!(it, Admission::Granted(_));
            if answers.iter().all(granted) {
                Ok(())
            } else {
                Err(Failure::from("not granted"))
            }
        });
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    Ok(rate(batches, begin))
}

async fn complete(store: &MysqlStore, batches: &[Vec<ClaimRequest>]) -> Result<f64, Failure> {
    let settlements: Vec<Vec<_>> = batches
        .iter()
        .map(|it| it.iter().map(settlement).collect())
        .collect();
    let begin = Instant::now();
    for batch in &settlements {
        let answers = store.settle(batch).await?;
        if !answers.iter().all(|it| matches!(it, Settled::Now(_))) {
            return Err("not completed".into());
        }
    }
    Ok(rate(batches, begin))
}

fn settlement(request: &ClaimRequest) -> Settlement {
    Settlement {
        operation: request.operation.clone(),
        claim_id: request.claim_id,
        step: Step::Complete {
            outcome: Outcome::empty(),
            window: Window::DEFAULT,
        },
    }
}

/// One SELECT and one INSERT per message, on so many connections.
async fn by_hand(url: &str, requests: &[ClaimRequest], at_once: usize) -> Result<f64, Failure> {
    let mut hands = Vec::new();
    for _ in 0..at_once {
        hands.push(connect(url).await?);
    }
    hands[0].query_drop("TRUNCATE naive").await?;
    let begin = Instant::now();
    let mut running = tokio::task::JoinSet::new();
    let share = requests.len().div_ceil(at_once);
    for (mut hand, share) in hands.into_iter().zip(requests.chunks(share)) {
        let share = share.to_vec();
        running.spawn(async move {
            let select = hand.prep("SELECT 1 FROM naive WHERE id = ?").await?;
            let insert = hand
                .prep("INSERT INTO naive VALUES (?, SYSDATE(3))")
                .await?;
            for request in &share {
                let key = request.operation.key.as_str();
                if hand
                    .exec_first::<u8, _, _>(&select, (key,))
                    .await?
                    .is_none()
                {
                    hand.exec_drop(&insert, (key,)).await?;
                }
            }
            hand.disconnect().await?;
            Ok::<_, Failure>(())
        });
    }
    while let Some(done) = running.join_next().await {
        done??;
    }
    Ok(requests.len() as f64 / begin.elapsed().as_secs_f64())
}

/// Claim, effect and completion of each message in the transaction of its batch.
async fn apply(store: &MysqlStore, batches: &[Vec<ClaimRequest>]) -> Result<f64, Failure> {
    let statements = Statements {
        sql: [Box::from(
            "INSERT INTO payments (id, amount) VALUES (:id, :amount)",
        )]
        .into(),
        params: ["id", "amount"].map(Box::from).into(),
    };
    let application = |claim: &ClaimRequest| Application {
        claim: claim.clone(),
        values: vec![
            Value::Text(claim.operation.key.as_str().into()),
            Value::Number("100".into()),
        ],
        window: Window::DEFAULT,
        backoff: Backoff {
            first: Duration::from_millis(200),
            most: Duration::from_secs(30),
        },
    };
    let messages: Vec<Vec<_>> = batches
        .iter()
        .map(|it| it.iter().map(application).collect())
        .collect();
    let begin = Instant::now();
    for batch in &messages {
        for applied in store.apply(&statements, batch).await? {
            if !matches!(applied, Applied::Completed { .. }) {
                return Err("not applied".into());
            }
        }
    }
    Ok(rate(batches, begin))
}

/// One transaction per message: look for the key, insert key and effect.
async fn apply_by_hand(url: &str, requests: &[ClaimRequest]) -> Result<f64, Failure> {
    let mut hand = connect(url).await?;
    hand.query_drop("TRUNCATE naive").await?;
    hand.query_drop("DELETE FROM payments").await?;
    let begin = Instant::now();
    for request in requests {
        let key = request.operation.key.as_str();
        let mut transaction = hand.start_transaction(TxOpts::default()).await?;
        let select = "SELECT 1 FROM naive WHERE id = ? FOR UPDATE";
        if transaction
            .exec_first::<u8, _, _>(select, (key,))
            .await?
            .is_none()
        {
            transaction
                .exec_drop("INSERT INTO naive VALUES (?, SYSDATE(3))", (key,))
                .await?;
            transaction
                .exec_drop("INSERT INTO payments VALUES (?, ?)", (key, 100))
                .await?;
        }
        transaction.commit().await?;
    }
    Ok(requests.len() as f64 / begin.elapsed().as_secs_f64())
}

fn rate(batches: &[Vec<ClaimRequest>], begin: Instant) -> f64 {
    let messages: usize = batches.iter().map(Vec::len).sum();
    messages as f64 / begin.elapsed().as_secs_f64()
}

const ROUNDS: usize = 5;
const BATCH: usize = 1_000;
const ONE: &str = "1 claim, 1000 a call";
const REPLAY: &str = "2 claim again, resumed";
const COMPLETE: &str = "3 complete, 1000 a call";
const FOUR: &str = "4 claim, 1000 a call, four calls at once";
const HAND: &str = "5 SELECT then INSERT, by hand";
const HANDS: &str = "6 SELECT then INSERT, by hand, four connections";
const APPLY: &str = "7 claim + effect + complete, 1000 a call";
const APPLY_HAND: &str = "8 one transaction a message, by hand";
