use super::*;

fn variables(parent: &str, state: Option<&str>) -> Vec<String> {
    let mut command = Command::new("true");
    let trace = TraceHeaders {
        parent: parent.into(),
        state: state.map(Into::into),
    };
    hand_on(&trace, &mut command);
    let set = command.as_std().get_envs();
    set.map(|(name, _)| name.to_string_lossy().into_owned())
        .collect()
}

#[test]
fn a_trace_that_no_environment_can_carry_is_left_out() {
    let both = variables("parent", Some("state"));
    assert_eq!(both, ["TRACEPARENT", "TRACESTATE"]);
    for bad in ["a\0b", &"x".repeat(200_000)] {
        assert!(variables(bad, Some("state")).is_empty());
        assert_eq!(variables("parent", Some(bad)), ["TRACEPARENT"]);
    }
}
