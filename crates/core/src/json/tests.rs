use super::*;

use proptest::prelude::*;
use serde_json::Value;

fn fault(text: impl AsRef<[u8]>) -> Option<Fault> {
    Document::parse(text.as_ref())
        .err()
        .map(|error| error.fault)
}

fn canonical(text: &str) -> Result<String, JsonError> {
    let document = Document::parse(text.as_bytes())?;
    let mut out = Vec::new();
    document.root().canonical(&mut out)?;
    Ok(String::from_utf8(out).expect("canonical bytes are text"))
}

fn find<'d>(document: &'d Document<'_>, pointer: &str) -> Result<Option<Node<'d>>, JsonError> {
    document.pointer(&Pointer::parse(pointer).expect("is a pointer"))
}

#[test]
fn valid_texts_are_accepted() {
    for text in [
        "null",
        " true ",
        "false\n",
        "0",
        "-0",
        "-1.5e+10",
        "1E9",
        "\"\"",
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "\r\n\t {\"a\":[1,{\"b\":null}],\"a\":\"x\"}",
        "\"\\u0000\\ud83d\\uDE00\\/\"",
        "\"\u{7f}é😀\"",
        "[[],[{}],[[[]]]]",
    ] {
        assert_eq!(fault(text), None, "{text}");
    }
}

#[test]
fn invalid_texts_are_refused_with_their_fault() {
    use Fault::*;
    let table: &[(&[u8], Fault, usize)] = &[
        (b"", UnexpectedEnd, 0),
        (b"  ", UnexpectedEnd, 2),
        (b"[1,]", UnexpectedByte, 3),
        (b"[1 2]", UnexpectedByte, 3),
        (b"[1}", UnexpectedByte, 2),
        (b"{\"a\":1]", UnexpectedByte, 6),
        (b"{,}", UnexpectedByte, 1),
        (b"{\"a\":1,}", UnexpectedByte, 7),
        (b"{a:1}", UnexpectedByte, 1),
        (b"{\"a\" 1}", UnexpectedByte, 5),
        (b"{\"a\"}", UnexpectedByte, 4),
        (b"{\"a\":", UnexpectedEnd, 5),
        (b"[", UnexpectedEnd, 1),
        (b"NaN", UnexpectedByte, 0),
        (b"Infinity", UnexpectedByte, 0),
        (b"tru", UnexpectedByte, 0),
        (b"nulll", TrailingBytes, 4),
        (b"1 2", TrailingBytes, 2),
        (b"{}{}", TrailingBytes, 2),
        (b"01", InvalidNumber, 1),
        (b"-01", InvalidNumber, 2),
        (b"-", UnexpectedEnd, 1),
        (b"-x", InvalidNumber, 1),
        (b"1.", UnexpectedEnd, 2),
        (b"1.e5", InvalidNumber, 2),
        (b"1e", UnexpectedEnd, 2),
        (b"[1e+]", InvalidNumber, 4),
        (b"+1", UnexpectedByte, 0),
        (b".5", UnexpectedByte, 0),
        (b"0x1", TrailingBytes, 1),
        (b"'a'", UnexpectedByte, 0),
        (b"\"a", UnexpectedEnd, 2),
        (b"\"\\", UnexpectedEnd, 1),
        (b"[\"\\u12\",1]", InvalidEscape, 2),
        (b"\"\\u12", UnexpectedEnd, 1),
        (b"\"\\x\"", InvalidEscape, 1),
        (b"\"\\u+123\"", InvalidEscape, 1),
        (b"\"a\tb\"", ControlCharacter, 2),
        (b"\"12345678\x1f\"", ControlCharacter, 9),
        (b"\"\\ud83d\"", LoneSurrogate, 1),
        (b"\"\\ude00\"", LoneSurrogate, 1),
        (b"\"\\ud83d\\u0041\"", LoneSurrogate, 1),
        (b"\"\\ud83d\\ud83d\"", LoneSurrogate, 1),
        (b"\"\xff\"", InvalidUtf8, 1),
        (b"\"\xed\xa0\x80\"", InvalidUtf8, 1),
        (b"\xef\xbb\xbf1", UnexpectedByte, 0),
        (b"[1]\x0c", TrailingBytes, 3),
    ];
    for (text, fault, offset) in table {
        let expected = Some(JsonError::new(*fault, *offset));
        assert_eq!(
            Document::parse(text).err(),
            expected,
            "{}",
            text.escape_ascii()
        );
    }
}

#[test]
fn nesting_ends_at_128() {
    let nested = |depth| [vec![b'['; depth], vec![b']'; depth]].concat();
    assert_eq!(fault(nested(128)), None);
    assert_eq!(fault(nested(129)), Some(Fault::TooDeep));
    let flat = format!("[{}]", vec!["[]"; 1_000].join(","));
    assert_eq!(fault(&flat), None, "closed arrays do not count");
}

#[test]
fn pointers_lead_as_rfc_6901_says() -> Result<(), JsonError> {
    let text = br#"{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6,
        " ":7,"m~n":8,"\u0061\u0062":9,"00":{"0":10}}"#;
    let document = Document::parse(text)?;
    for (pointer, expected) in [
        ("/foo/0", Some("bar")),
        ("/foo/1", Some("baz")),
        ("/", Some("0")),
        ("/a~1b", Some("1")),
        ("/c%d", Some("2")),
        ("/e^f", Some("3")),
        ("/g|h", Some("4")),
        ("/i\\j", Some("5")),
        ("/k\"l", Some("6")),
        ("/ ", Some("7")),
        ("/m~0n", Some("8")),
        ("/ab", Some("9")),
        ("/00/0", Some("10")),
        ("/foo/2", None),
        ("/foo/-", None),
        ("/foo/01", None),
        ("/foo/+1", None),
        ("/foo/", None),
        ("/foo/99999999999999999999999", None),
        ("/foo/0/x", None),
        ("/none/x", None),
    ] {
        let found = find(&document, pointer)?;
        assert_eq!(found.map(Node::raw), expected, "{pointer}");
    }
    assert_eq!(find(&document, "")?.map(Node::kind), Some(Kind::Object));
    assert_eq!(
        find(&document, "/foo")?.map(Node::raw),
        Some("[\"bar\",\"baz\"]")
    );
    assert_eq!(Pointer::parse("a"), Err(InvalidPointer::NoSlash));
    assert_eq!(Pointer::parse("/~2"), Err(InvalidPointer::Tilde));
    assert_eq!(Pointer::parse("/~"), Err(InvalidPointer::Tilde));
    Ok(())
}

#[test]
fn a_member_twice_matters_only_on_the_selected_path() -> Result<(), JsonError> {
    let document = Document::parse(br#"{"a":{"b":1,"\u0062":2},"c":{"d":3},"x":[{"y":1,"y":1}]}"#)?;
    let twice = |pointer| find(&document, pointer).err().map(|error| error.fault);
    assert_eq!(find(&document, "/c/d")?.map(Node::raw), Some("3"));
    assert_eq!(find(&document, "/a")?.map(Node::kind), Some(Kind::Object));
    assert_eq!(twice("/a/b"), Some(Fault::DuplicateMember));
    assert_eq!(twice("/x/0/y"), Some(Fault::DuplicateMember));
    assert_eq!(twice("/x/0/z"), None);
    let error = canonical(r#"{"a":[{"n":1,"n":1}]}"#).expect_err("is ambiguous");
    assert_eq!(error.fault, Fault::DuplicateMember);
    Ok(())
}

#[test]
fn canonical_bytes_forget_how_a_value_was_written() {
    for (text, expected) in [
        (
            " { \"b\" : 1.0 , \"a\" : [ 1e2 , -0 , true , null ] } ",
            r#"{"a":[100,0,true,null],"b":1}"#,
        ),
        (
            r#"{"\u0062":1,"a":2,"B":3,"é":4,"":5}"#,
            r#"{"":5,"B":3,"a":2,"b":1,"é":4}"#,
        ),
        (r#""\u0041\/\u00e9\ud83d\ude00""#, "\"A/é😀\""),
        (
            r#""\u0008\u000c\n\r\t\u0000\u001f\"\\\u007f""#,
            "\"\\b\\f\\n\\r\\t\\u0000\\u001f\\\"\\\\\u{7f}\"",
        ),
        ("[[],{},[{}]]", "[[],{},[{}]]"),
        (
            r#"{"a":{"y":1,"x":{"q":[{"d":1,"c":2}],"p":0}},"0":1}"#,
            r#"{"0":1,"a":{"x":{"p":0,"q":[{"c":2,"d":1}]},"y":1}}"#,
        ),
    ] {
        assert_eq!(canonical(text).as_deref(), Ok(expected), "{text}");
    }
    let long = canonical("[1e1000]").expect_err("is too long");
    assert_eq!(long, JsonError::new(Fault::NumberTooLong, 1));
}

#[test]
fn a_tape_is_used_again() -> Result<(), JsonError> {
    let mut tape = Document::parse(b"[1,2,3,4]")?.into_tape();
    let capacity = tape.0.capacity();
    assert!(capacity > 0);
    assert!(Document::parse_onto(b"[1,2,3", &mut tape).is_err());
    let document = Document::parse_onto(b"{\"a\":1}", &mut tape)?;
    assert_eq!(find(&document, "/a")?.map(Node::raw), Some("1"));
    assert_eq!(document.into_tape().0.capacity(), capacity);
    assert_eq!(size_of::<Entry>(), 16);
    Ok(())
}

/// Any JSON value, with members and elements that often share names.
fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            proptest::collection::btree_map("[a-e\"\\\\\u{1}é]{0,2}", inner, 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Writes the same value in another form: members reversed, white space, escapes.
fn write_otherwise(value: &Value, out: &mut String) {
    match value {
        Value::Array(elements) => {
            out.push_str("[ ");
            for (index, element) in elements.iter().enumerate() {
                out.push_str(if index > 0 { "\n,\t" } else { "" });
                write_otherwise(element, out);
            }
            out.push_str("\r]");
        }
        Value::Object(members) => {
            out.push('{');
            for (index, (name, member)) in members.iter().rev().enumerate() {
                out.push_str(if index > 0 { " , " } else { "" });
                write_escaped(name, out);
                out.push_str(" : ");
                write_otherwise(member, out);
            }
            out.push('}');
        }
        Value::String(text) => write_escaped(text, out),
        Value::Number(number) => out.extend([number.to_string().as_str(), ".0e0"]),
        other => out.push_str(&other.to_string()),
    }
}

fn write_escaped(text: &str, out: &mut String) {
    out.push('"');
    out.extend(text.encode_utf16().map(|unit| format!("\\u{unit:04X}")));
    out.push('"');
}

/// Texts that are nearly JSON.
fn nearly_json() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        4 => proptest::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"\"", "0", "-1", "1.5", "2e3", "01", "1.", "-", "true",
            "false", "null", " ", "\n", "\"", "\\", "\\u00e9", "\"\\ud83d\\ude00\"", "\"\\ud83d\"", "\"\\n\"",
            "\t", "é", "tru", "\"\u{1}\"", "e", "E+1", ".", "\"\\/\"", "\"\\u12\"",
        ]).prop_map(|token| token.as_bytes().to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..3),
    ];
    proptest::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat())
}

#[test]
fn a_byte_that_needs_an_escape_is_found_wherever_it_stands() {
    for len in 0..=50 {
        let mut bytes = vec![b' '; len];
        bytes.iter_mut().step_by(3).for_each(|byte| *byte = 0xff);
        assert_eq!(scan::plain_run(&bytes), len);
        for at in 0..len {
            let plain = bytes[at];
            for special in [b'"', b'\\', 0, 0x1f] {
                bytes[at] = special;
                assert_eq!(scan::plain_run(&bytes), at, "{special} in {len}");
            }
            bytes[at] = plain;
        }
    }
}

proptest! {
    #[test]
    fn accepts_what_serde_json_accepts(bytes in nearly_json()) {
        let theirs = serde_json::from_slice::<Value>(&bytes).map_err(|error| error.to_string());
        // Some numbers are valid JSON and yet too large for a double.
        prop_assume!(!theirs.as_ref().is_err_and(|why| why.starts_with("number out of range")));
        let ours = Document::parse(&bytes);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{}", bytes.escape_ascii());
    }

    #[test]
    fn canonical_bytes_say_the_same_value(value in any_value()) {
        let compact = canonical(&value.to_string()).expect("is valid");
        let mut otherwise = String::new();
        write_otherwise(&value, &mut otherwise);
        prop_assert_eq!(&canonical(&otherwise).expect("is valid"), &compact);
        prop_assert_eq!(&canonical(&compact).expect("is valid"), &compact);
        prop_assert_eq!(serde_json::from_str::<Value>(&compact).expect("is valid"), value);
    }

    #[test]
    fn different_values_have_different_bytes(a in any_value(), b in any_value()) {
        let bytes = |value: &Value| canonical(&value.to_string()).expect("is valid");
        prop_assert_eq!(a == b, bytes(&a) == bytes(&b));
    }

    #[test]
    fn strings_say_what_was_written(text: String) {
        let mut literal = Vec::new();
        write_string(&text, &mut literal);
        let document = Document::parse(&literal).expect("is a string");
        prop_assert_eq!(document.root().text(), &*text);
        prop_assert_eq!(serde_json::from_slice::<String>(&literal).expect("is a string"), text);
    }

    #[test]
    fn many_bytes_at_a_time_are_as_good_as_one(
        bytes in proptest::collection::vec(
            proptest::sample::select(b"\0\x1f \x21\"#[\\]\x7f\x80\x9f\xa2\xdc\xff".to_vec()), 0..40,
        ), plain in 0_usize..72,
    ) {
        let bytes = [vec![b'x'; plain], bytes].concat();
        let special = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
        let expected = bytes.iter().position(special).unwrap_or(bytes.len());
        prop_assert_eq!(scan::plain_run(&bytes), expected);
    }

    #[test]
    fn any_bytes_are_judged_without_panic(bytes: Vec<u8>) {
        let _ = Document::parse(&bytes).map(|document| document.root().canonical(&mut Vec::new()));
    }
}
