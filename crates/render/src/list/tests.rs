use super::*;

#[derive(Serialize)]
struct Number {
    id: u64,
    name: &'static str,
}

impl Entry for Number {
    const COLUMNS: &'static [Column] = &[Column::number("id"), Column::text("name")];
    const NONE: &'static str = "no numbers";

    fn fill(&self, row: &mut Row) {
        row.show(self.id).text(self.name);
    }
}

/// A pipe that remembers what is written, and whose reader is gone after `most` bytes.
#[derive(Default)]
struct Pipe {
    bytes: Vec<u8>,
    flushed: usize,
    most: Option<usize>,
    error: Option<std::io::ErrorKind>,
}

impl Write for Pipe {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if let Some(kind) = self.error {
            return Err(kind.into());
        }
        if self.most.is_some_and(|most| self.bytes.len() >= most) {
            return Err(std::io::ErrorKind::BrokenPipe.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.flushed = self.bytes.len();
        Ok(())
    }
}

fn list(output: Output, limit: u64, pipe: Pipe) -> List<Number, Pipe> {
    let listing = Listing {
        output,
        limit: NonZeroU64::new(limit),
    };
    let screen = Screen {
        width: None,
        colour: false,
    };
    List::to(Stream::new(pipe), listing, screen)
}

fn number(id: u64) -> Number {
    Number { id, name: "é\"" }
}

fn printed(output: Output, limit: u64, count: u64) -> String {
    let mut list = list(output, limit, Pipe::default());
    for id in 1..=count {
        if list.push(&number(id)).expect("a pipe").is_break() {
            break;
        }
    }
    list.finish().expect("a pipe");
    String::from_utf8(list.stream.into_inner().bytes).expect("text")
}

#[test]
fn json_is_one_document_and_jsonl_an_object_a_line() {
    assert_eq!(
        printed(Output::Json, 0, 2),
        "{\"semel\":1,\"items\":[\n{\"id\":1,\"name\":\"é\\\"\"},\n{\"id\":2,\"name\":\"é\\\"\"}\n],\"complete\":true}\n"
    );
    assert_eq!(
        printed(Output::Json, 0, 0),
        "{\"semel\":1,\"items\":[\n\n],\"complete\":true}\n"
    );
    assert_eq!(
        printed(Output::Jsonl, 0, 2),
        "{\"id\":1,\"name\":\"é\\\"\"}\n{\"id\":2,\"name\":\"é\\\"\"}\n"
    );
    assert_eq!(printed(Output::Jsonl, 0, 0), "");
    assert_eq!(printed(Output::Table, 0, 1), "ID  NAME\n 1  é\"\n");
    for output in [Output::Json, Output::Jsonl] {
        for count in 0..3 {
            let text = printed(output, 0, count);
            let mut values =
                serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>();
            assert!(values.all(|value| value.is_ok()), "{text}");
        }
    }
}

#[test]
fn a_limit_ends_the_list_and_the_document_says_so() {
    assert_eq!(printed(Output::Jsonl, 2, 9).lines().count(), 2);
    let document = printed(Output::Json, 2, 9);
    let value: serde_json::Value = serde_json::from_str(&document).expect("JSON");
    assert_eq!(value["complete"], false);
    assert_eq!(value["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(printed(Output::Table, 2, 9).lines().count(), 3);

    let mut list = list(Output::Jsonl, 1, Pipe::default());
    assert!(list.push(&number(1)).expect("a pipe").is_break(), "at once");
    assert!(list.push(&number(2)).expect("a pipe").is_break());
    assert_eq!(list.count, 1);
}

#[test]
fn the_first_entry_is_shown_at_once() {
    for output in [Output::Json, Output::Jsonl] {
        let mut list = list(output, 0, Pipe::default());
        assert!(list.push(&number(1)).expect("a pipe").is_continue());
        assert!(list.stream.into_inner().flushed > 0, "{output:?}");
    }
    let mut list = list(Output::Table, 0, Pipe::default());
    assert!(list.push(&number(1)).expect("a pipe").is_continue());
    assert!(list.show().expect("a pipe").is_continue());
    assert!(list.stream.into_inner().flushed > 0);
}

#[test]
fn a_list_of_any_length_holds_no_more_than_a_page() {
    for output in [Output::Table, Output::Json, Output::Jsonl] {
        let mut list = list(output, 0, Pipe::default());
        for id in 0..100_000 {
            assert!(list.push(&number(id)).expect("a pipe").is_continue());
        }
        assert!(list.text.capacity() < 64 << 10, "{}", list.text.capacity());
        assert!(list.line.capacity() < 64 << 10, "{}", list.line.capacity());
    }
}

#[test]
fn a_closed_pipe_stops_the_work_and_is_no_failure() {
    for output in [Output::Table, Output::Json, Output::Jsonl] {
        let pipe = Pipe {
            most: Some(1),
            ..Pipe::default()
        };
        let mut list = list(output, 0, pipe);
        let printed =
            (0..1_000_000).position(|id| list.push(&number(id)).expect("no failure").is_break());
        assert!(
            printed.is_some_and(|printed| printed < 20_000),
            "{printed:?}"
        );
        assert!(
            list.push(&number(1)).expect("no failure").is_break(),
            "for good"
        );
        list.finish().expect("no failure");
    }
}

#[test]
fn an_output_that_takes_nothing_is_a_failure() {
    let pipe = Pipe {
        error: Some(std::io::ErrorKind::StorageFull),
        ..Pipe::default()
    };
    let error = list(Output::Jsonl, 0, pipe)
        .push(&number(1))
        .expect_err("nowhere to print to");
    assert_eq!(error.code().as_str(), "target-unavailable");
}
