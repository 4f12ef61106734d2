use std::collections::BTreeSet;

use bytes::Bytes;

use super::*;

const GOOD: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn headers(of: &[(&str, &str)]) -> Vec<(ByteString, Bytes)> {
    let of = of.iter();
    of.map(|(name, value)| ((*name).into(), Bytes::copy_from_slice(value.as_bytes())))
        .collect()
}

#[test]
fn what_is_read_is_written_again() {
    let context = TraceContext::parse(GOOD.as_bytes()).expect("a good one");
    assert_eq!(context.to_string(), GOOD);
    assert!(context.flags.is_sampled());
    assert_eq!(context.trace_id.randomness(), 0xce_929d_0e0e_4736);
    let other = context.with_span(SpanId::from_bytes([1; 8]).expect("not zero"));
    assert_eq!(
        other.to_string(),
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0101010101010101-01"
    );
}

#[test]
fn marks_that_are_not_known_are_not_passed_on() {
    let text = GOOD.replace("-01", "-ff");
    let context = TraceContext::parse(text.as_bytes()).expect("a good one");
    assert_eq!(context.flags, TraceFlags::SAMPLED.and(TraceFlags::RANDOM));
    let text = GOOD.replace("-01", "-02");
    let context = TraceContext::parse(text.as_bytes()).expect("a good one");
    assert!(!context.flags.is_sampled());
    assert_eq!(context.to_string(), text);
}

#[test]
fn of_a_later_version_the_known_members_are_read() {
    for text in [
        GOOD.replacen("00-", "01-", 1),
        GOOD.replacen("00-", "cc-", 1) + "-what-the-future-will-be-like",
        GOOD.replacen("00-", "cc-", 1) + "-",
    ] {
        let context = TraceContext::parse(text.as_bytes());
        assert_eq!(context.expect(&text).to_string(), GOOD);
    }
}

#[test]
fn anything_else_is_none() {
    let zeros = "00000000000000000000000000000000";
    let bad = [
        String::new(),
        "00".into(),
        "00-ab-cd-01".into(),
        GOOD[..54].into(),
        format!("{GOOD} "),
        format!(" {GOOD}"),
        format!("{GOOD}-"),
        format!("{GOOD}-more"),
        GOOD.to_uppercase(),
        GOOD.replacen("00-", "ff-", 1),
        GOOD.replacen("00-", "0-", 1),
        GOOD.replacen("00-", "0x-", 1),
        GOOD.replacen("00-", "cc-", 1) + ".more",
        GOOD.replace("4bf92f3577b34da6a3ce929d0e0e4736", zeros),
        GOOD.replace("00f067aa0ba902b7", &zeros[..16]),
        GOOD.replace("4bf9", "4bF9"),
        GOOD.replace("4bf9", "4bg9"),
        GOOD.replace('-', "_"),
        GOOD.replace("-01", "-1"),
        GOOD.replace("-01", "-0A"),
        GOOD.replace("4bf92f", "4bf9é"),
    ];
    for text in bad {
        assert_eq!(TraceContext::parse(text.as_bytes()), None, "{text:?}");
    }
    // The same length, not in UTF-8.
    assert_eq!(TraceContext::parse(&[0xff; 55]), None);
}

#[test]
fn headers_carry_a_trace_whatever_the_case_of_their_names() {
    let carried = Carried::of(&headers(&[
        ("other", "x"),
        ("TraceParent", GOOD),
        ("TRACESTATE", "vendor=1"),
        ("tracestate", "other=2"),
    ]));
    let carried = carried.expect("a trace");
    assert_eq!(carried.context.to_string(), GOOD);
    assert_eq!(&*carried.parent, GOOD);
    assert_eq!(carried.state.as_deref(), Some("vendor=1,other=2"));
}

#[test]
fn a_doubtful_parent_is_none() {
    let other = GOOD.replace("-01", "-00");
    assert_eq!(Carried::of(&headers(&[("tracestate", "vendor=1")])), None);
    assert_eq!(
        Carried::of(&headers(&[("traceparent", GOOD), ("traceparent", &other)])),
        None
    );
    assert_eq!(
        Carried::of(&headers(&[("traceparent", "00-ab-cd-01")])),
        None
    );
    let twice = headers(&[("traceparent", GOOD), ("Traceparent", GOOD)]);
    assert!(Carried::of(&twice).is_some(), "the same, said twice");
}

#[test]
fn a_later_version_is_passed_on_as_it_came_only_while_it_is_short_and_printable() {
    let later = GOOD.replacen("00", "cc", 1);
    let carried = |rest: &[u8]| {
        let value = [later.as_bytes(), rest].concat();
        let carried = Carried::of(&[("traceparent".into(), Bytes::from(value))]);
        carried.expect("a trace").parent
    };
    let long = format!("-{}", "x".repeat(200));
    for rest in ["", "-", "-more ~", &long] {
        assert_eq!(&*carried(rest.as_bytes()), format!("{later}{rest}"));
    }
    let huge = format!("-{}", "x".repeat(200_000));
    let over = format!("-{}", "x".repeat(201));
    for rest in ["-a\0b", "-a\r\nevil: 1", "-\u{e9}", "-\t", &over, &huge] {
        assert_eq!(&*carried(rest.as_bytes()), GOOD, "{:?}", rest.len());
    }
    assert_eq!(&*carried(b"-\xff"), GOOD, "not in UTF-8");
}

#[test]
fn a_state_that_may_not_be_passed_on_is_left_out_whole() {
    let long = "x".repeat(513);
    for state in ["", "vendor=\u{e9}", "vendor=1\r\nevil: 1", "a\0b", &long] {
        let carried = Carried::of(&headers(&[("traceparent", GOOD), ("tracestate", state)]));
        assert_eq!(carried.expect("a trace").state, None, "{state:?}");
    }
}

#[test]
fn ids_that_follow_from_others_are_never_zero_and_differ() {
    let claim = |bits| TraceId::of_claim(ClaimId::from_u128(bits));
    assert_eq!(claim(0xabc).to_string(), format!("{:032x}", 0xabc));
    assert_ne!(claim(0).to_bytes(), [0; 16]);
    for random in [0, 1, 0b100, 0b111, u64::MAX] {
        let ids: BTreeSet<_> = SpanId::four(random).into_iter().collect();
        assert_eq!(ids.len(), 4, "{random}");
        assert!(ids.iter().all(|id| id.to_bytes() != [0; 8]), "{random}");
    }
    assert_eq!(SpanId::four(0b101), SpanId::four(0b110));
    assert_ne!(SpanId::four(0b1000)[0], SpanId::four(0b1100)[0]);
}
