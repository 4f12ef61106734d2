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
    let mut answers = Answers::to(Stream::new(Vec::new()), output, screen);
    for _ in 0..count {
        assert!(answers.print(&STORY).expect("a vector").is_continue());
    }
    String::from_utf8(answers.stream.into_inner()).expect("text")
}

#[derive(Serialize)]
struct Checklist;

impl Answer for Checklist {
    fn describe(&self, block: &mut Block) {
        block
            .heading("pay: 1 fails")
            .item(TextStyle::Good, "pass", "owner", "team\u{7}", None)
            .item(
                TextStyle::Bad,
                "unknown",
                "key",
                "the whole key is not seen",
                Some("capture some messages"),
            );
    }
}

#[test]
fn a_checklist_is_broken_beside_its_names() {
    let laid_out = |width| {
        let mut block = Block::default();
        Checklist.describe(&mut block);
        let colour = false;
        block.laid_out(Screen { width, colour })
    };
    let piped = "pay: 1 fails\n\
                 pass     owner  team\\u{7}\n\
                 unknown  key    the whole key is not seen\n\
                 \x20               do: capture some messages\n";
    assert_eq!(laid_out(None), piped);
    assert_eq!(laid_out(Some(80)), piped);
    let narrow = "pay: 1 fails\n\
                  pass     owner  team\\u{7}\n\
                  unknown  key    the whole key is not\n\
                  \x20               seen\n\
                  \x20               do: capture some\n\
                  \x20               messages\n";
    assert_eq!(laid_out(Some(40)), narrow);
    assert_eq!(laid_out(Some(3)), narrow, "there is always some room");
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
