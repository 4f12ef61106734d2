use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;

use super::*;
use crate::dedup::{Csv, Dedup, Separator};

const TABS: Format = Format::Lines(Separator::Tab);
const COMMA: Csv = Csv {
    delimiter: b',',
    has_header: true,
};
const COUNTED: Shown = Shown::AtEnd {
    least: 1,
    most: u64::MAX,
    is_counted: true,
};
const ONCE: Shown = Shown::AtEnd {
    least: 1,
    most: 1,
    is_counted: false,
};

fn nobody() -> OnProgress {
    Arc::new(|_, _| {})
}

struct Sevens;

impl Entropy for Sevens {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

fn ephemeral(key: &str, format: Format, shown: Shown) -> Ephemeral {
    Ephemeral {
        key: key.parse().expect("a selector"),
        format,
        shown,
        max_line_bytes: Dedup::MAX_LINE_BYTES,
    }
}

fn ran(ephemeral: Ephemeral, input: impl Into<Vec<u8>>) -> (String, Counts) {
    let mut input = Input::from_stream("in", io::Cursor::new(input.into()));
    if let Format::Csv(csv) = &ephemeral.format {
        input.read_header(csv).expect("a header");
    }
    let mut output = Vec::new();
    let counts = ephemeral.run(input, &mut output, &Sevens, &nobody());
    let output = String::from_utf8(output).expect("text");
    (output, counts.expect("a good end"))
}

fn fates(counts: &Counts) -> [u64; 3] {
    [Fate::Applied, Fate::Replayed, Fate::Quarantined].map(|fate| counts.summary.of(fate))
}

#[test]
fn each_way_shows_one_line_of_a_key() {
    let input = "b\na\nb\n\nc\r\nb\na\nlast";
    for (shown, expected, applied) in [
        (Shown::First, "b\na\n\nc\r\nlast", 5),
        (Shown::Repeated, "b\na\n", 2),
        (ONCE, "\nc\r\nlast\n", 3),
        (
            COUNTED,
            "      3 b\n      2 a\n      1 \n      1 c\r\n      1 last\n",
            5,
        ),
        (
            Shown::AtEnd {
                least: 2,
                most: u64::MAX,
                is_counted: true,
            },
            "      3 b\n      2 a\n",
            2,
        ),
    ] {
        let (output, counts) = ran(ephemeral("line", TABS, shown), input);
        assert_eq!(output, expected, "{shown:?}");
        assert_eq!(fates(&counts), [applied, 8 - applied, 0], "{shown:?}");
    }
}

#[test]
fn lines_without_a_usable_key_are_left_out_and_counted() {
    for shown in [Shown::First, Shown::Repeated, ONCE, COUNTED] {
        let (_, counts) = ran(
            ephemeral("field:2", TABS, shown),
            "no\na\tx\nb\tx\nneither\n",
        );
        assert_eq!(counts.summary.of(Fate::Quarantined), 2);
        assert_eq!(counts.summary.deliveries(), 4);
        let (at, why) = counts.first_unusable.expect("one");
        assert_eq!((&*at, why.code()), ("in:1", "key-missing"));
    }
    let mut short = ephemeral("line", TABS, Shown::First);
    short.max_line_bytes = 3;
    let (output, counts) = ran(short, "abc\nabcd\nabc\n");
    assert_eq!((&*output, fates(&counts)), ("abc\n", [1, 1, 1]));
}

#[test]
fn keys_are_found_between_separators_of_every_kind() {
    for (separator, input, expected) in [
        (Separator::Tab, "1\tx\n2\tx\n", "1\tx\n"),
        (Separator::Text(",".into()), "1,x\n2,x,y\n", "1,x\n"),
        (Separator::Text(" ".into()), "1 x\n1  x\n2 x\n", "1 x\n"),
        (Separator::Blanks, " 1 \t x\n2 x \n", " 1 \t x\n"),
    ] {
        let format = Format::Lines(separator);
        let (output, _) = ran(ephemeral("field:2", format, Shown::First), input);
        assert_eq!(output, expected);
    }
}

#[test]
fn a_header_goes_through_once_and_is_no_line() {
    let csv = Format::Csv(COMMA);
    let input = "id,note\n1,\"two\nlines\"\nid,note\n1,other\n\n\"id\",x\n";
    let (output, counts) = ran(ephemeral("field:1", csv.clone(), Shown::First), input);
    assert_eq!(output, "id,note\n1,\"two\nlines\"\nid,note\n");
    assert_eq!(fates(&counts), [2, 2, 1]);
    let (at, _) = counts.first_unusable.expect("the empty line");
    assert_eq!(&*at, "in:6");
    let (output, _) = ran(ephemeral("line", csv, ONCE), "id\n1\n2\n1\n");
    assert_eq!(output, "id\n2\n");
}

#[test]
fn many_lines_are_told_apart_as_a_map_of_them_does_it() {
    let mut state = 1_u64;
    let mut lines = Vec::new();
    for _ in 0..200_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        lines.push(format!(
            "{}-{}",
            state >> 47,
            "x".repeat(usize::try_from(state >> 60).expect("four bits"))
        ));
    }
    let mut counts: HashMap<&str, u64> = HashMap::new();
    for line in &lines {
        *counts.entry(line).or_default() += 1;
    }
    let input = lines.join("\n");
    let (first, _) = ran(ephemeral("line", TABS, Shown::First), &*input);
    assert_eq!(first.lines().count(), counts.len());
    let (counted, _) = ran(ephemeral("line", TABS, COUNTED), &*input);
    for (line, first) in counted.lines().zip(first.lines()) {
        let (count, line) = line.trim_start().split_once(' ').expect("a count");
        assert_eq!((line, count.parse()), (first, Ok(counts[line])));
    }
    let (repeated, _) = ran(ephemeral("line", TABS, Shown::Repeated), &*input);
    let (once, _) = ran(ephemeral("line", TABS, ONCE), &*input);
    assert_eq!(
        repeated.lines().count() + once.lines().count(),
        counts.len()
    );
    assert!(once.lines().all(|line| counts[line] == 1));
}

#[test]
fn a_reader_that_has_had_enough_is_a_good_end() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for shown in [Shown::First, COUNTED] {
        let input = Input::from_stream("in", io::repeat(b'\n').take(10 << 20));
        let counts = ephemeral("line", TABS, shown).run(input, &mut Closed, &Sevens, &nobody());
        counts.expect("a good end");
    }
}
