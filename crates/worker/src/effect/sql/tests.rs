use semel_core::select::Message;

use super::*;

type Params = Vec<(String, Selector)>;

#[test]
fn placeholders_are_those_of_the_dialect_each_once() {
    let statements = [
        r"insert into t values ('it\'s 12:noon', :id) # :no",
        "delete :b, :id",
    ];
    let of = |dialect| names(dialect, &statements).join(" ");
    assert_eq!(of(Dialect::Mysql), "id b");
    assert_eq!(of(Dialect::Sqlite), "noon b id");
}

#[test]
fn every_placeholder_has_a_selector() {
    let amount = "json:/amount/value"
        .parse::<Selector>()
        .expect("a selector");
    let binding = SqlBinding::new(
        Dialect::Sqlite,
        &[
            "insert into a values (:id, :amount)",
            "update b set n = n + :amount where id = :id;",
        ],
        [("amount".to_owned(), amount.clone())],
    )
    .expect("bound");
    let names: Vec<_> = binding
        .statements()
        .params
        .iter()
        .map(|name| &**name)
        .collect();
    assert_eq!(names, ["id", "amount"]);
    assert_eq!(binding.selectors()[0].to_string(), "json:/id");
    assert_eq!(binding.selectors()[1], amount);
}

#[test]
fn a_mistake_names_the_setting() {
    let line = || Selector::Line;
    let cases: [(&[&str], Params, &str); 5] = [
        (&[], vec![], "an effect of kind sql needs a statement"),
        (
            &["select 1", " -- nothing\n;"],
            vec![],
            "a statement is empty",
        ),
        (
            &["select ':a'"],
            vec![("a".into(), line())],
            "params.a: no statement has a placeholder :a",
        ),
        (
            &["select :a"],
            vec![("a".into(), line()), (":a".into(), line())],
            "params.a: it is named twice",
        ),
        (
            &["select :a"],
            vec![("A".into(), line())],
            "params.A: no statement",
        ),
    ];
    for (statements, params, message) in cases {
        let error = SqlBinding::new(Dialect::Sqlite, statements, params).expect_err(message);
        assert_eq!(error.kind(), ErrorKind::InvalidConfig);
        assert!(error.to_string().starts_with(message), "{error}");
    }
}

#[test]
fn values_keep_their_type() {
    let binding = SqlBinding::new(
        Dialect::Sqlite,
        &["x(:s, :i, :f, :t, :n, :missing, :o, :l, :raw, :head, :event)"],
        [
            ("raw".to_owned(), Selector::Line),
            ("head".to_owned(), Selector::Header("H".into())),
            ("event".to_owned(), Selector::CloudEvents),
        ],
    )
    .expect("bound");
    let payload = Bytes::from_static(
        br#"{"s":"a\"b","i":12345678901234567890,"f":1.50,"t":true,"n":null,"o":{ "x":1.0 },"l":[1 ,2],"source":"a\"","id":"1"}"#,
    );
    let headers = [("h".into(), Bytes::from_static(b"\xFF"))];
    let view = View::new(Message {
        payload: &payload,
        headers: &headers,
        coordinates: "f:1",
    });
    let text = |text: &str| Value::Text(text.into());
    assert_eq!(
        binding.values(&view).expect("values"),
        [
            text("a\"b"),
            Value::Number("12345678901234567890".into()),
            Value::Number("1.5".into()),
            Value::Boolean(true),
            Value::Null,
            Value::Null,
            Value::Json("{ \"x\":1.0 }".into()),
            Value::Json("[1 ,2]".into()),
            text(std::str::from_utf8(&payload).expect("text")),
            Value::Bytes(Bytes::from_static(b"\xFF")),
            Value::Json("[\"a\\\"\",\"1\"]".into()),
        ]
    );
    let payload = Bytes::from_static(b"no json");
    let view = View::new(Message {
        payload: &payload,
        headers: &[],
        coordinates: "f:1",
    });
    assert!(binding.values(&view).is_err());
}
