//! Spans of calls: an observer that wants them, the trace of a request, and what the effect hands on.
#![expect(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use semel::trace::{SampleShare, Spans, TraceHeaders};
use semel::{Event, Observer, Semel};

/// Prints spans; yours would send them to a collector.
struct Printing;

impl Observer for Printing {
    fn observe(&self, _name: &str, _event: &Event<'_>) {}

    /// Records every trace that begins here. Where a request has one, its own mark decides.
    fn wants_spans(&self) -> Option<SampleShare> {
        Some(SampleShare::ALL)
    }

    fn observe_spans(&self, name: &str, spans: &Spans<'_>) {
        // Whatever went wrong is worth keeping, also of traces that are not recorded.
        if !spans.process.context.flags.is_sampled() && !spans.are_always_kept() {
            return;
        }
        let decision = spans.decision.unwrap_or_default();
        println!("process {name}, {decision}, {:?}", spans.end);
        println!("  in trace {}", spans.process.context.trace_id);
        let parent = spans.parent.map(|it| it.span_id.to_string());
        println!("  below {}", parent.as_deref().unwrap_or("nothing"));
        let children = [
            ("claim", spans.claim),
            ("effect", spans.effect),
            ("settle", spans.settle),
        ];
        for (child, span) in children {
            println!("  {child}: {}", if span.is_some() { "yes" } else { "no" });
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let builder = Semel::builder().observer(Arc::new(Printing));
    let semel = builder.open("memory:").await?;
    // As they came with an HTTP request, or from the span that your program is in.
    let request = TraceHeaders {
        parent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into(),
        state: None,
    };
    let charge = semel.operation("charge").trace(request);
    for _ in 0..2 {
        let receipt = charge.once("payment-1", async |op| {
            let told = op.trace().map(|trace| trace.parent.to_string());
            // The header `traceparent` of the call to the provider: the same trace, and the span of this effect.
            let told = told.unwrap_or_default();
            println!("calling the provider in {}…", &told[..35]);
            Ok(())
        });
        let _ = receipt.await?;
    }
    Ok(())
}

// prints:
// calling the provider in 00-4bf92f3577b34da6a3ce929d0e0e4736…
// process charge, granted, Fate(Applied)
//   in trace 4bf92f3577b34da6a3ce929d0e0e4736
//   below 00f067aa0ba902b7
//   claim: yes
//   effect: yes
//   settle: yes
// process charge, replay, Fate(Replayed)
//   in trace 4bf92f3577b34da6a3ce929d0e0e4736
//   below 00f067aa0ba902b7
//   claim: yes
//   effect: no
//   settle: no
