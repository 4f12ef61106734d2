use lapin::types::FieldArray;

use super::*;

fn raw(properties: BasicProperties, data: &[u8]) -> Raw {
    let mut raw = Raw::mock(1, "".into(), "key".into(), false, data.to_vec());
    raw.properties = properties;
    raw
}

fn handed_over(properties: BasicProperties, data: &[u8]) -> Delivery {
    delivery(DeliveryId(1), "q", raw(properties, data), 100)
}

fn value<'a>(delivery: &'a Delivery, name: &str) -> &'a [u8] {
    let header = delivery.headers.iter().find(|(it, _)| &**it == name);
    &header
        .unwrap_or_else(|| panic!("{name}: {:?}", delivery.headers))
        .1
}

#[test]
fn the_publishers_id_is_the_place_of_a_message() {
    let with_id = BasicProperties::default().with_message_id("m-1".into());
    assert_eq!(&*handed_over(with_id, b"x").coordinates, "amqp:q:m-1");
    let without = handed_over(BasicProperties::default(), b"x").coordinates;
    let empty = BasicProperties::default().with_message_id("".into());
    assert_eq!(handed_over(empty, b"x").coordinates, without);
    assert!(without.starts_with("amqp-hash:q:"), "{without}");
    assert_ne!(
        handed_over(BasicProperties::default(), b"y").coordinates,
        without
    );
}

#[test]
fn headers_are_flattened() {
    let mut death = FieldTable::default();
    death.insert(
        "reason".into(),
        AMQPValue::LongString("rejected \"so\"".into()),
    );
    death.insert("count".into(), AMQPValue::LongLongInt(2));
    let mut table = FieldTable::default();
    table.insert("x-delivery-count".into(), AMQPValue::LongLongInt(3));
    table.insert("yes".into(), AMQPValue::Boolean(true));
    table.insert("raw".into(), AMQPValue::ByteArray(vec![0, 255].into()));
    table.insert("text".into(), AMQPValue::LongString(vec![b'a', 254].into()));
    table.insert(
        "x-death".into(),
        AMQPValue::FieldArray(FieldArray::from(vec![AMQPValue::FieldTable(death)])),
    );
    let properties = BasicProperties::default()
        .with_message_id("m".into())
        .with_correlation_id("c".into())
        .with_type("t".into())
        .with_app_id("a".into())
        .with_content_type("j".into())
        .with_headers(table);
    let got = handed_over(properties, b"");
    assert_eq!(value(&got, "x-delivery-count"), b"3");
    assert_eq!(value(&got, "yes"), b"true");
    assert_eq!(value(&got, "raw"), [0, 255]);
    assert_eq!(value(&got, "text"), [b'a', 254]);
    let death = br#"[{"count":2,"reason":"rejected \"so\""}]"#;
    assert_eq!(value(&got, "x-death"), death);
    for (name, text) in [
        ("amqp-message-id", "m"),
        ("amqp-correlation-id", "c"),
        ("amqp-type", "t"),
        ("amqp-app-id", "a"),
        ("amqp-content-type", "j"),
    ] {
        assert_eq!(value(&got, name), text.as_bytes());
    }
}

#[test]
fn how_often_a_message_came_is_what_the_broker_says_of_it() {
    let received = |redelivered: bool, count: Option<AMQPValue>| {
        let mut table = FieldTable::default();
        if let Some(count) = count {
            table.insert("x-delivery-count".into(), count);
        }
        let mut raw = raw(BasicProperties::default().with_headers(table), b"x");
        raw.redelivered = redelivered;
        delivery(DeliveryId(1), "q", raw, 100).received
    };
    let count = |count: i64| Some(AMQPValue::LongLongInt(count));
    assert_eq!(received(false, None), Some(1));
    assert_eq!(received(false, count(7)), Some(1), "of another queue");
    assert_eq!(received(true, None), None, "a classic queue does not count");
    assert_eq!(received(true, count(1)), Some(2));
    assert_eq!(received(true, Some(AMQPValue::LongUInt(2))), Some(3));
    assert_eq!(received(true, Some(AMQPValue::LongInt(3))), Some(4));
    for no_count in [-1, i64::from(u32::MAX), i64::MAX] {
        assert_eq!(received(true, count(no_count)), None);
    }
    let text = AMQPValue::LongString("2".into());
    assert_eq!(received(true, Some(text)), None);
    let without = raw(BasicProperties::default(), b"x");
    let redelivered = Raw {
        redelivered: true,
        ..without
    };
    let got = delivery(DeliveryId(1), "q", redelivered, 100);
    assert_eq!(got.received, None, "no table at all");
}

#[test]
fn of_a_long_message_the_beginning_is_kept() {
    let got = delivery(
        DeliveryId(1),
        "q",
        raw(BasicProperties::default(), &[7; 100]),
        99,
    );
    assert_eq!((got.oversize_bytes, got.payload.len()), (Some(100), 100));
    let long = vec![7; HEAD_BYTES + 1];
    let got = delivery(
        DeliveryId(1),
        "q",
        raw(BasicProperties::default(), &long),
        99,
    );
    assert_eq!(got.payload.len(), HEAD_BYTES);
    assert_eq!(got.oversize_bytes, Some(HEAD_BYTES as u64 + 1));
    assert_eq!(
        handed_over(BasicProperties::default(), &[7; 100]).oversize_bytes,
        None
    );
}

fn publication(id: &str, headers: &[(&str, &[u8])]) -> Publication {
    let headers = headers.iter();
    let headers = headers.map(|(name, value)| ((*name).into(), Bytes::copy_from_slice(value)));
    Publication {
        id: id.into(),
        order: None,
        payload: Bytes::new(),
        headers: headers.collect(),
    }
}

#[test]
fn what_a_source_handed_over_is_published_the_same() {
    let headers: [(&str, &[u8]); 4] = [
        ("amqp-message-id", b"old"),
        ("amqp-type", b"t"),
        ("amqp-app-id", &[255]),
        ("n", &[1, 255]),
    ];
    let made = properties(&publication("new", &headers), 1_000).expect("properties");
    assert_eq!(made.delivery_mode(), &Some(PERSISTENT));
    let got = handed_over(made, b"");
    assert_eq!(value(&got, "amqp-message-id"), b"new");
    assert_eq!(value(&got, "amqp-type"), b"t");
    assert_eq!(value(&got, "amqp-app-id"), [255], "no text, so a header");
    assert_eq!(value(&got, "n"), [1, 255]);
    assert_eq!(got.headers.len(), 4);
}

#[test]
fn what_the_protocol_cannot_carry_is_refused() {
    let long = "n".repeat(256);
    for publication in [
        publication(&long, &[]),
        publication("id", &[(&long, b"")]),
        publication("id", &[("CC", b"other-queue")]),
        publication("id", &[("n", &[0; 1_000])]),
    ] {
        let error = properties(&publication, 1_000).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}
