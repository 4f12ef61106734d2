use super::*;

const COMMA: Csv = Csv {
    delimiter: b',',
    has_header: true,
};

/// Records of `input`, handed over in parts of these lengths, over and over; those that are too long by their
/// figures.
fn cut(input: &[u8], parts: &[usize], most_bytes: usize) -> Vec<Vec<u8>> {
    let mut splitter = Splitter::new(&COMMA, most_bytes);
    let (mut records, mut rest) = (Vec::new(), input);
    let mut take = |piece| match piece {
        Piece::Records { block, ends } => {
            let mut from = 0;
            for end in ends {
                records.push(block[from..end].to_vec());
                from = end;
            }
            assert_eq!(from, block.len());
        }
        Piece::Overlong {
            head,
            len_bytes,
            taken_bytes,
            lines,
        } => {
            assert_eq!(head.len(), HEAD_BYTES);
            records.push(format!("{len_bytes} {taken_bytes} {lines}").into());
        }
        Piece::Lines(_) => panic!("not of lines"),
    };
    for part in parts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let space = splitter.space();
        let count = (*part).min(rest.len()).min(space.len());
        space[..count].copy_from_slice(&rest[..count]);
        splitter.filled(count, &mut take);
        rest = &rest[count..];
    }
    splitter.finish(&mut take);
    records
}

fn fields(record: &str) -> Vec<String> {
    Record::new(&COMMA).names(record.as_bytes())
}

#[test]
fn records_are_whole_however_the_bytes_come() {
    let records: [&[u8]; 8] = [
        b"a,b\r\n",
        b"\n",
        b"\r\n",
        b"\"two\nlines, \"\"so\"\"\",1\n",
        b"\"\r\n\n\",2\r\n",
        b"\n",
        b"x\"y,3\n",
        b"\"open\nto the end",
    ];
    for parts in [&[1][..], &[2, 3], &[100], &[4, 1], &[5, 1, 7]] {
        assert_eq!(cut(&records.concat(), parts, 1 << 20), records, "{parts:?}");
    }
}

#[test]
fn a_record_that_is_too_long_is_measured_and_not_held() {
    let long = format!("\"{}\n\"", "x".repeat(3 * HEAD_BYTES));
    for (end, taken) in [("\n", 1), ("", 0)] {
        let input = format!("a\n{long}{end}");
        let expected = [
            b"a\n".to_vec(),
            format!("{} {} 2", long.len(), long.len() + taken).into(),
        ];
        assert_eq!(cut(input.as_bytes(), &[HEAD_BYTES], HEAD_BYTES), expected);
    }
    let input = format!("{long}\nb\nc");
    let records = cut(input.as_bytes(), &[HEAD_BYTES, 5], HEAD_BYTES);
    assert_eq!(records[1..], [b"b\n".to_vec(), b"c".to_vec()]);
}

#[test]
fn fields_are_without_their_quotes_and_the_end_of_the_line() {
    for (record, expected) in [
        ("a,b", vec!["a", "b"]),
        ("a,b\n", vec!["a", "b"]),
        ("a,b\r\n", vec!["a", "b"]),
        ("\"a\"\r\n", vec!["a"]),
        ("\"a\r\"\n", vec!["a\r"]),
        ("\"a,\"\"b\"\"\nc\",\"\"\n", vec!["a,\"b\"\nc", ""]),
        ("a b,\n", vec!["a b", ""]),
        ("\u{feff}id,n\n", vec!["id", "n"]),
        ("", vec![]),
    ] {
        assert_eq!(fields(record), expected, "{record:?}");
    }
    let many = vec!["some words"; 1_000];
    assert_eq!(fields(&many.join(",")), many);
}

#[test]
fn a_header_is_read_off_and_what_follows_it_is_kept() {
    for (input, header, names, rest) in [
        (
            "id,\"a\nb\"\r\n1,2\n",
            "id,\"a\nb\"\r\n",
            vec!["id", "a\nb"],
            "1,2\n",
        ),
        ("id", "id", vec!["id"], ""),
        ("", "", vec![], ""),
        ("\n1\n", "\n", vec![""], "1\n"),
    ] {
        let read = super::header(&COMMA, &mut input.as_bytes(), 1 << 20).expect("a header");
        assert_eq!(read.0, header);
        assert_eq!(read.1, names);
        assert_eq!(read.2, rest);
    }
    let open = format!("\"{}", "x".repeat(1 << 20));
    let error = super::header(&COMMA, &mut open.as_bytes(), 1 << 10).expect_err("too long");
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
}
