//! The verbs of operators, as far as they are MySQL's own.

use std::collections::BTreeSet;

use semel_core::Note;
use semel_core::outbox::OutboxId;
use semel_core::port::outbox::operations::{DeadMessage, DeadOrder, OutboxOperations};
use semel_store_mysql::{MysqlOutboxStore, Options};

use super::outbox;
use super::rights::Guest;
use crate::database::Database;
use crate::lab::fresh_database;

/// Writes so many messages without an order key in one statement, which gives all of them one place, and has them dead.
async fn dead_together(database: &Database, count: usize) {
    let rows = vec!["('orders', 'x')"; count].join(", ");
    database
        .run(&format!(
            "INSERT INTO semel_outbox (stream, payload) VALUES {rows}"
        ))
        .await;
    let place = "UPDATE semel_outbox SET place = 7, due_at = 9223372036854775807, dead_at = 9, attempts = 1";
    database.run(place).await;
}

#[tokio::test]
async fn dead_messages_of_one_place_are_listed_once_each() {
    let database = fresh_database().await;
    let outbox = outbox(&database).await;
    dead_together(&database, 10).await;
    let mut found: Vec<DeadMessage> = Vec::new();
    loop {
        let after = found.last().map(DeadMessage::position);
        let page = outbox.dead("orders", after.as_ref(), 3).await;
        let page = page.expect("a page");
        if page.is_empty() {
            break;
        }
        found.extend(page);
        assert!(found.len() <= 10, "each once");
    }
    let ids: BTreeSet<OutboxId> = found.iter().map(|it| it.id).collect();
    assert_eq!(ids.len(), 10);
}

#[tokio::test]
async fn an_order_is_carried_out_where_its_user_may_not_write_the_audit_trail() {
    let database = fresh_database().await;
    let administrator = outbox(&database).await;
    dead_together(&database, 2).await;
    let guest = Guest::of(&database, "operator").await;
    guest.may("SELECT, UPDATE, DELETE", "semel_outbox").await;
    for seen in ["semel_outbox_format", "semel_audit"] {
        guest.may("SELECT", seen).await;
    }
    let outbox = MysqlOutboxStore::new(&guest.url, &Options::default()).expect("an outbox");
    let note = Note {
        by: "ann".into(),
        reason: "sent by hand".into(),
    };
    let dead = outbox.dead("orders", None, 10).await.expect("a page");
    for (it, (outbox, is_audited)) in dead.iter().zip([(&outbox, false), (&administrator, true)]) {
        let ids = [it.id];
        let order = outbox.order_dead("orders", &ids, DeadOrder::Drop, Some(&note));
        let changed = order.await.expect("an answer");
        assert_eq!((changed.count, changed.is_audited), (1, is_audited));
    }
    let left = administrator.backlog("orders").await.expect("counts");
    assert_eq!((left.waiting, left.dead), (0, 0));
    guest.leave().await;
}

#[tokio::test]
async fn a_stream_that_mysql_would_take_for_another_is_refused_by_every_verb() {
    let database = fresh_database().await;
    let outbox = outbox(&database).await;
    dead_together(&database, 1).await;
    outbox.dead("orders ", None, 10).await.expect_err("refused");
    outbox.backlog("orders ").await.expect_err("refused");
    let ids = [OutboxId::from_u128(7)];
    let order = outbox.order_dead("orders ", &ids, DeadOrder::Drop, None);
    order.await.expect_err("refused");
    let whole = outbox.dead_whole("orders ", ids[0]);
    whole.await.expect_err("refused");
}
