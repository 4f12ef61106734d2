use super::*;

#[derive(Serialize)]
struct Story {
    key: &'static str,
    attempts: u32,
}

impl Answer for Story {
    fn describe(&self, block: &mut Block) {
        block
            .field("key", self.key)
            .state("state", StateKind::InDoubt)
            .some("held", None::<bool>)
            .field("last error", "")
            .bytes("payload", b"{\"id\":1}")
            .heading("attempts")
            .prose("one two three four five six")
            .bytes("stdout", b"one\n\ttwo\x1b\n")
            .bytes("stderr", b"\xff\xfe");
    }
}

const STORY: Story = Story {
    key: "pay-1\u{7}",
    attempts: 2,
};

fn printed(output: Output, width: Option<usize>, count: usize) -> String {
    let screen = Screen {
        width,
        colour: false,
    };
    let mut answers = Answers::to(Stream::new(Vec::new()), Format { output }, screen);
    for _ in 0..count {
        assert!(answers.print(&STORY).expect("a vector").is_continue());
    }
    String::from_utf8(answers.stream.into_inner()).expect("text")
}

#[test]
fn people_get_labels_and_values() {
    assert_eq!(
        printed(Output::Table, Some(14), 1),
        "key:             pay-1\\u{7}\n\
         state:           in doubt\n\
         last error:      -\n\
         payload:         {\"id\":1}\n\
         \n\
         attempts\n\
         one two three\n\
         four five six\n\
         stdout:\n  one\n  \\ttwo\\u{1b}\n\
         stderr (base64): //4=\n"
    );
    let piped = printed(Output::Table, None, 2);
    assert!(piped.contains("\none two three four five six\n"), "{piped}");
    assert!(piped.contains("//4=\n\nkey: "), "an empty line between two");
}

#[test]
fn programs_get_an_object_a_line() {
    for output in [Output::Json, Output::Jsonl] {
        assert_eq!(
            printed(output, None, 2),
            "{\"key\":\"pay-1\\u0007\",\"attempts\":2}\n{\"key\":\"pay-1\\u0007\",\"attempts\":2}\n"
        );
    }
}
