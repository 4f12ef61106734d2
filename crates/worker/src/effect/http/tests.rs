use super::*;

fn handed_on(parent: &str, state: Option<&str>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let trace = TraceHeaders {
        parent: parent.into(),
        state: state.map(Into::into),
    };
    hand_on(&trace, &mut headers);
    headers
}

#[test]
fn a_trace_that_no_header_can_carry_is_left_out() {
    let both = handed_on("parent", Some("state"));
    assert_eq!(
        (&both[TRACEPARENT], &both[TRACESTATE]),
        (
            &HeaderValue::from_static("parent"),
            &HeaderValue::from_static("state")
        )
    );
    for bad in ["a\0b", "a\r\nevil: 1"] {
        assert!(handed_on(bad, Some("state")).is_empty(), "{bad:?}");
        let alone = handed_on("parent", Some(bad));
        assert!(
            alone.contains_key(TRACEPARENT) && alone.len() == 1,
            "{bad:?}"
        );
    }
}
