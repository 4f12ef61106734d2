//! No two typed keys share a text, and no two operations an id.

use bytes::Bytes;
use proptest::prelude::*;

use crate::json::write_string;
use crate::key::{Key, KeySelector, OpId, Scope};
use crate::select::{Message, Selector, View};

/// A typed value that can be a key, or a part of one.
#[derive(Debug, Clone, PartialEq)]
enum Typed {
    Text(String),
    Number(i64),
    Line(Vec<u8>),
}

fn typed() -> impl Strategy<Value = Typed> {
    prop_oneof![
        "(json:)?[\"\\\\\\[\\],:a1{}]{0,6}x".prop_map(Typed::Text),
        (-2_i64..12).prop_map(Typed::Number),
        proptest::collection::vec(proptest::sample::select(b"json:1\"[]\xff".to_vec()), 0..8)
            .prop_map(Typed::Line),
    ]
}

/// The key that a message with these values in it yields.
fn key_of_values(values: &[Typed]) -> Key {
    let mut line = Bytes::new();
    let mut headers = Vec::new();
    let mut selectors = Vec::new();
    for (index, value) in values.iter().enumerate() {
        match value {
            Typed::Text(text) => {
                headers.push((format!("h{index}").into(), Bytes::from(text.clone())));
                selectors.push(Selector::Header(format!("h{index}").into()));
            }
            Typed::Number(number) => {
                line = Bytes::from(number.to_string());
                selectors.push("json:".parse().expect("is a selector"));
            }
            Typed::Line(bytes) => {
                line = Bytes::from(bytes.clone());
                selectors.push(Selector::Line);
            }
        }
    }
    let view = View::new(Message {
        payload: &line,
        headers: &headers,
        coordinates: "",
    });
    let selector = KeySelector::try_from(selectors).expect("has at least one");
    selector.key(&view).expect("is usable")
}

/// One to three values, of which only the last may need the payload.
fn values() -> impl Strategy<Value = Vec<Typed>> {
    let texts = typed().prop_filter("a text", |value| matches!(value, Typed::Text(_)));
    (proptest::collection::vec(texts, 0..3), typed()).prop_map(|(mut texts, last)| {
        texts.push(last);
        texts
    })
}

/// The meaning of the values: a line and an equal text are the same string.
fn meaning(values: &[Typed]) -> Vec<Typed> {
    let text_of_line = |value: &Typed| match value {
        Typed::Line(bytes) => match String::from_utf8(bytes.clone()) {
            Ok(text) => Typed::Text(text),
            Err(_) => value.clone(),
        },
        Typed::Text(_) | Typed::Number(_) => value.clone(),
    };
    values.iter().map(text_of_line).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn different_values_never_share_a_key(a in values(), b in values()) {
        let (one, other) = (key_of_values(&a), key_of_values(&b));
        prop_assert_eq!(one == other, meaning(&a) == meaning(&b), "{:?} {:?}", one, other);
        prop_assert_eq!(Key::parse(one.as_str()), Ok(one), "what is shown can be typed");
    }

    #[test]
    fn any_string_survives_as_a_key(text: String) {
        let key = Key::of_text(Bytes::from(text.clone()));
        prop_assert_eq!(Key::parse(key.as_str()), Ok(key.clone()));
        let mut literal = Vec::from(b"json:");
        write_string(&text, &mut literal);
        let literal = String::from_utf8(literal).expect("is text");
        prop_assert_eq!(Key::parse(&literal), Ok(key));
    }

    #[test]
    fn an_operation_id_depends_on_every_part(
        parts in "[a-c]{3,9}", cut in (0_usize..9, 0_usize..9), other_cut in (0_usize..9, 0_usize..9),
    ) {
        let id = |(a, b): (usize, usize)| {
            let (a, b) = (a.min(b).min(parts.len() - 1), a.max(b).min(parts.len()));
            let b = b.max(a + 1);
            let (tenant, operation, key) = (&parts[..a], &parts[a..b], &parts[b..]);
            let scope = Scope::new(tenant, operation).expect("is valid");
            (OpId::of(&scope, &Key::parse(key).expect("is text")), (a, b))
        };
        let ((one, cut), (other, other_cut)) = (id(cut), id(other_cut));
        prop_assert_eq!(one == other, cut == other_cut, "split at {:?} and {:?}", cut, other_cut);
    }
}
