use serde::{Deserialize, Serialize};

use super::*;

const LIMIT: usize = 1024;

fn kept(outcome: &Outcome) -> &str {
    let Outcome::Kept {
        codec: TYPED_JSON,
        bytes,
    } = outcome
    else {
        panic!("kept as typed JSON: {outcome:?}");
    };
    std::str::from_utf8(bytes).expect("JSON is UTF-8")
}

fn comes_back<T: Remember + Clone + std::fmt::Debug + PartialEq>(value: T) {
    let outcome = value.to_outcome(LIMIT);
    assert_eq!(T::from_outcome(&outcome), Ok(value));
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Lenient {
    note: Option<String>,
}

impl Typed for Lenient {
    const TYPE: &'static str = "lenient";
    const VERSION: u32 = 1;
}

/// The same shape under another name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Stranger {
    note: Option<String>,
}

impl Typed for Stranger {
    const TYPE: &'static str = "stranger";
    const VERSION: u32 = 1;
}

/// The next version, which reads the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Newer {
    text: String,
}

impl Typed for Newer {
    const TYPE: &'static str = "lenient";
    const VERSION: u32 = 2;

    fn upgrade(version: u32, json: &str) -> Option<Self> {
        let old: Lenient = (version == 1).then(|| serde_json::from_str(json).ok())??;
        let text = old.note?;
        Some(Self { text })
    }
}

fn lenient() -> Lenient {
    let note = Some("hello".to_owned());
    Lenient { note }
}

#[test]
fn every_ready_made_type_comes_back_exactly() {
    comes_back(());
    comes_back(true);
    comes_back("über".to_owned());
    comes_back(u64::MAX);
    comes_back(u128::MAX);
    comes_back(i128::MIN);
    comes_back(0.1_f64 + 0.2);
    comes_back(f64::MIN_POSITIVE);
    comes_back(vec!["a".to_owned(), String::new()]);
    comes_back(Vec::<u64>::new());
    comes_back(Some(7_u32));
    comes_back(None::<u32>);
    comes_back(Bytes::from_static(b"\xff\x00"));
    comes_back(serde_json::json!({"a": [1, null]}));
    comes_back(lenient());
}

#[test]
fn a_typed_outcome_is_json_that_people_can_read() {
    assert_eq!(
        kept(&7_u64.to_outcome(LIMIT)),
        r#"{"type":"integer","version":1,"value":7}"#
    );
    assert_eq!(
        kept(&().to_outcome(LIMIT)),
        r#"{"type":"null","version":1,"value":null}"#
    );
    assert_eq!(
        kept(&vec![lenient()].to_outcome(LIMIT)),
        r#"{"type":"[lenient]","version":1,"value":[{"note":"hello"}]}"#
    );
}

#[test]
fn a_value_of_another_type_is_never_read_even_where_it_would_fit() {
    let outcome = lenient().to_outcome(LIMIT);
    let refused = Stranger::from_outcome(&outcome).expect_err("another type");
    assert_eq!(
        refused.to_string(),
        "the outcome on record is `lenient` version 1, not `stranger` version 1"
    );
    assert!(Option::<Lenient>::from_outcome(&outcome).is_err());
    assert!(Bytes::from_outcome(&outcome).is_err());
    let raw = Outcome::raw(Bytes::from_static(b"7"), LIMIT);
    assert!(u64::from_outcome(&raw).is_err());
    let foreign = Outcome::Kept {
        codec: 9,
        bytes: Bytes::from_static(b"7"),
    };
    let refused = u64::from_outcome(&foreign).expect_err("an unknown codec");
    assert!(refused.to_string().contains("of codec 9"), "{refused}");
}

#[test]
fn an_old_version_is_read_only_by_who_says_how() {
    let old = lenient().to_outcome(LIMIT);
    assert_eq!(
        Newer::from_outcome(&old),
        Ok(Newer {
            text: "hello".to_owned()
        })
    );
    let both = vec![lenient(), lenient()].to_outcome(LIMIT);
    assert_eq!(
        Vec::<Newer>::from_outcome(&both).map(|all| all.len()),
        Ok(2)
    );
    let some = Some(lenient()).to_outcome(LIMIT);
    assert!(Option::<Newer>::from_outcome(&some).is_ok_and(|newer| newer.is_some()));
    let none = None::<Lenient>.to_outcome(LIMIT);
    assert_eq!(Option::<Newer>::from_outcome(&none), Ok(None));
    // A program that was rolled back meets outcomes that the newer one wrote.
    let text = String::new();
    let newer = Newer { text }.to_outcome(LIMIT);
    assert!(matches!(
        Lenient::from_outcome(&newer),
        Err(Unreadable::Other { .. })
    ));
    // An old version that the upgrade itself refuses.
    let unfit = Lenient { note: None }.to_outcome(LIMIT);
    assert!(matches!(
        Newer::from_outcome(&unfit),
        Err(Unreadable::Other { .. })
    ));
}

#[test]
fn a_number_that_does_not_fit_is_refused() {
    let big = 300_u64.to_outcome(LIMIT);
    assert_eq!(u16::from_outcome(&big), Ok(300));
    assert!(matches!(
        u8::from_outcome(&big),
        Err(Unreadable::Broken { .. })
    ));
}

#[test]
fn an_outcome_over_the_limit_is_named_and_not_cut() {
    let outcome = "x".repeat(LIMIT).to_outcome(LIMIT);
    let refused = String::from_outcome(&outcome).expect_err("too large");
    assert!(
        matches!(
            refused,
            Unreadable::TooLarge {
                len_bytes: 1_060..,
                ..
            }
        ),
        "{refused:?}"
    );
    let refused = Bytes::from_outcome(&outcome);
    assert!(matches!(refused, Err(Unreadable::TooLarge { .. })));
}

#[test]
fn a_value_that_cannot_be_written_leaves_an_outcome_that_says_so() {
    #[derive(Debug, PartialEq, Deserialize)]
    struct Unwritable;

    impl Serialize for Unwritable {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("no"))
        }
    }

    impl Typed for Unwritable {
        const TYPE: &'static str = "unwritable";
        const VERSION: u32 = 1;
    }

    let outcome = Unwritable.to_outcome(LIMIT);
    assert_eq!(kept(&outcome), r#"{"type":"unwritable","version":1}"#);
    assert!(matches!(
        Unwritable::from_outcome(&outcome),
        Err(Unreadable::Broken { .. })
    ));
    // Numbers that JSON does not have are written as nothing, and read as that.
    let nan = f64::NAN.to_outcome(LIMIT);
    assert!(matches!(
        f64::from_outcome(&nan),
        Err(Unreadable::Broken { .. })
    ));
}

#[test]
fn damaged_json_is_no_value() {
    for text in [
        "",
        "{",
        "7",
        r#"{"type":"integer"}"#,
        r#"{"type":"integer","version":1,"value":}"#,
    ] {
        let outcome = Outcome::Kept {
            codec: TYPED_JSON,
            bytes: Bytes::copy_from_slice(text.as_bytes()),
        };
        assert!(u64::from_outcome(&outcome).is_err(), "{text}");
    }
}
