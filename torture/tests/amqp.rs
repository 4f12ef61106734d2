//! RabbitMQ: workers of one queue killed, stopped and joined by others, the server killed and restarted. Effects of
//! each payment, each once.
#![expect(clippy::print_stdout, reason = "the figures of a run")]

use torture::{Crew, Kind, RabbitMq, Shop, Storm, scaled};

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_a_store_in_postgresql() {
    let happened = [Kind::Takeover, Kind::Fenced, Kind::Revoked];
    storm(
        "RabbitMQ, PostgreSQL",
        &Shop::in_postgres(),
        81,
        Crew::Three,
        &happened,
    );
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_a_store_in_redis() {
    let happened = [Kind::Takeover, Kind::Fenced, Kind::Revoked];
    storm(
        "RabbitMQ, Redis",
        &Shop::in_redis(),
        82,
        Crew::Three,
        &happened,
    );
}

#[test]
#[ignore = "needs the semel binary: cargo xtask test runs it"]
fn effects_happen_once_with_the_embedded_store_and_one_worker() {
    let happened = [Kind::Takeover];
    storm(
        "RabbitMQ, embedded",
        &Shop::embedded(),
        83,
        Crew::One,
        &happened,
    );
}

fn storm(name: &str, shop: &Shop, seed: u64, crew: Crew, happened: &[Kind]) {
    let mut rabbitmq = RabbitMq::start();
    let site = shop.site(&mut rabbitmq);
    let mut storm = Storm::seeded(seed, scaled(20_000, 180_000), crew);
    let figures = storm.over(&mut rabbitmq, &site, shop.readers());
    println!("{name}: {figures}");
    shop.assert_once(&storm.payments, &site);
    figures.were_a_storm(happened);
    figures.tell(name);
}
