use super::*;

/// Returns the lines of `text`, read in pieces of `piece` bytes: length or text, and number.
fn split(text: &[u8], format: Format, max_message_bytes: usize, piece: usize) -> Vec<Line> {
    let mut splitter = Splitter::new(Options {
        format,
        max_message_bytes,
    });
    let mut lines = Vec::new();
    for piece in text.chunks(piece) {
        let space = splitter.space();
        let mut taken = 0;
        let count = piece.len().min(space.len());
        space[..count].copy_from_slice(&piece[..count]);
        taken += count;
        splitter.filled(count, &mut lines);
        assert_eq!(taken, piece.len(), "pieces fit");
    }
    splitter.finish(&mut lines);
    assert_eq!(splitter.taken_bytes(), text.len() as u64);
    lines
}

fn shown(lines: &[Line]) -> Vec<(u64, &[u8])> {
    lines
        .iter()
        .map(|line| (line.number, &line.payload[..]))
        .collect()
}

#[test]
fn lines_are_the_same_however_they_are_read() {
    let text = b"\xEF\xBB\xBF{\"a\":1}\r\n \t\r\n\n[2]\n\xFFlast";
    for piece in 1..=text.len() {
        let lines = split(text, Format::Ndjson, 100, piece);
        assert_eq!(
            shown(&lines),
            [(1, &b"{\"a\":1}\r"[..]), (4, b"[2]"), (5, b"\xFFlast")],
            "in pieces of {piece}"
        );
        assert_eq!(lines[1].end_bytes, 21);
        let lines = split(text, Format::Lines, 100, piece);
        assert_eq!(
            shown(&lines),
            [
                (1, &b"\xEF\xBB\xBF{\"a\":1}\r"[..]),
                (2, b" \t\r"),
                (3, b""),
                (4, b"[2]"),
                (5, b"\xFFlast")
            ],
            "in pieces of {piece}"
        );
    }
}

#[test]
fn what_is_empty_has_no_lines() {
    for text in [
        &b""[..],
        b"\n",
        b"\xEF\xBB\xBF",
        b"\xEF\xBB\xBF \r\n\t",
        b"\n\n  ",
    ] {
        for piece in [1, 100] {
            assert_eq!(split(text, Format::Ndjson, 100, piece), [], "{text:?}");
        }
    }
    assert_eq!(split(b"", Format::Lines, 100, 1), []);
    assert_eq!(shown(&split(b"\n", Format::Lines, 100, 1)), [(1, &b""[..])]);
}

#[test]
fn a_byte_order_mark_counts_only_at_the_very_start() {
    let text = b"\n\xEF\xBB\xBF1\n";
    for piece in 1..=text.len() {
        let lines = split(text, Format::Ndjson, 100, piece);
        assert_eq!(
            shown(&lines),
            [(2, &b"\xEF\xBB\xBF1"[..])],
            "in pieces of {piece}"
        );
    }
    assert_eq!(
        shown(&split(b"\xEF\xBB", Format::Ndjson, 100, 1)),
        [(1, &b"\xEF\xBB"[..])]
    );
}

#[test]
fn a_line_that_is_too_long_says_its_length_and_shows_its_head() {
    let head: Vec<u8> = (0..HEAD_BYTES)
        .map(|at| b'a' + u8::try_from(at % 26).unwrap_or_default())
        .collect();
    for (long, max) in [
        (11, 10),
        (HEAD_BYTES, 10),
        (300_000, 10),
        (300_000, 299_999),
    ] {
        let mut line = head.clone();
        line.resize(long, b'z');
        for (end, after) in [(&b"\nnext\n"[..], true), (b"", false)] {
            let text = [b"one\n", &line[..], end].concat();
            for piece in [1, 4_096, 4_095] {
                let lines = split(&text, Format::Lines, max, piece);
                assert_eq!(lines.len(), 2 + usize::from(after));
                assert_eq!(lines[1].oversize_bytes, Some(long as u64), "{piece}");
                assert_eq!(lines[1].payload, line[..long.min(HEAD_BYTES)]);
                assert_eq!(
                    (lines[1].number, lines[1].end_bytes),
                    (2, text.len() as u64 - 5 * u64::from(after))
                );
                assert!(!after || lines[2].payload == "next" && lines[2].number == 3);
            }
        }
    }
    let exact = split(b"0123456789\n", Format::Lines, 10, 3);
    assert_eq!(exact[0].oversize_bytes, None, "the limit itself will do");
}

#[test]
fn a_line_over_many_blocks_is_joined_and_none_beyond_the_limit_is_held() {
    let long = vec![b'x'; 3 * BLOCK_BYTES + 5];
    let lines = split(&long, Format::Lines, long.len(), 4_096);
    assert_eq!(lines[0].payload, long);

    let mut splitter = Splitter::new(Options {
        format: Format::Lines,
        max_message_bytes: 1,
    });
    let mut lines = Vec::new();
    for _ in 0..10_000 {
        splitter.space()[..4_096].fill(b'x');
        splitter.filled(4_096, &mut lines);
        assert!(splitter.block.len() <= BLOCK_BYTES);
    }
    splitter.finish(&mut lines);
    assert_eq!(lines[0].oversize_bytes, Some(40_960_000));
}
