use semel_core::{StateKind, Timestamp};

use super::*;

const COLUMNS: &[Column] = &[
    Column::text("key"),
    Column::text("operation_id"),
    Column::state("state"),
    Column::number("attempts"),
    Column::word("reason"),
];
const PIPED: Screen = Screen {
    width: None,
    colour: false,
};

fn terminal(width: usize) -> Screen {
    Screen {
        width: Some(width),
        colour: false,
    }
}

fn shown(columns: &'static [Column], screen: Screen, fills: &[&dyn Fn(&mut Row)]) -> String {
    let mut table = Table::new(columns, screen);
    let mut out = String::new();
    for fill in fills {
        table.push(fill, &mut out);
    }
    table.settle(&mut out);
    out
}

fn key(key: &str, attempts: u64) -> impl Fn(&mut Row) + use<'_> {
    move |row| {
        row.text(key).text(&"ab".repeat(32));
        row.state(StateKind::InDoubt).show(attempts).nothing();
    }
}

#[test]
fn columns_line_up_and_numbers_stand_to_the_right() {
    let columns = const {
        &[
            Column::text("key"),
            Column::number("attempts"),
            Column::text("reason"),
        ]
    };
    let row = |key: &'static str, attempts: u64, reason: &'static str| {
        move |row: &mut Row| {
            row.text(key).show(attempts).text(reason);
        }
    };
    assert_eq!(
        shown(
            columns,
            PIPED,
            &[
                &row("支払-1", 3, ""),
                &row("pay-1", 123_456_789, "too late ")
            ]
        ),
        "KEY      ATTEMPTS  REASON\n\
         支払-1          3\n\
         pay-1   123456789  too late\n"
    );
}

#[test]
fn a_pipe_gets_every_value_whole() {
    let long = "k".repeat(300);
    let out = shown(COLUMNS, PIPED, &[&key("pay-1", 1), &key(&long, 2)]);
    for value in [&long, &"ab".repeat(32)] {
        assert!(out.contains(value.as_str()));
    }
    assert!(!out.contains('…'));
    assert!(out.lines().all(|line| !line.ends_with(' ')), "{out}");
}

#[test]
fn a_terminal_gets_lines_that_fit_with_texts_shortened_first() {
    for width in [60, 80, 100] {
        let out = shown(
            COLUMNS,
            terminal(width),
            &[&key("pay-1", 1), &key("支払い", 1_000)],
        );
        for line in out.lines() {
            assert!(text::width(line) <= width, "{width}: {line}");
            assert!(!line.ends_with(' '));
        }
        assert!(
            out.contains("abab") && out.contains("…  in doubt       1000  -\n"),
            "{out}"
        );
        assert!(out.contains("pay-1 "), "what is narrow stays whole: {out}");
    }
    let out = shown(COLUMNS, terminal(200), &[&key("pay-1", 1)]);
    assert!(
        !out.contains('…'),
        "where there is room, nothing is shortened"
    );
}

#[test]
fn a_terminal_too_narrow_for_anything_still_shows_each_row_on_a_line() {
    let out = shown(COLUMNS, terminal(10), &[&key("payment-1", 1_234_567)]);
    assert_eq!(
        out, "KEY   OPE…  STA…  ATTEMPTS  REA…\npay…  aba…  in …   1234567  -\n",
        "and a number is whole"
    );
}

#[test]
fn the_first_page_decides_the_widths_and_later_rows_keep_to_them() {
    let late = "a-key-that-is-much-wider-than-those-of-the-first-page";
    for screen in [PIPED, terminal(120)] {
        let mut table = Table::new(COLUMNS, screen);
        let mut out = String::new();
        for _ in 0..FIRST_PAGE {
            table.push(key("pay-1", 1), &mut out);
        }
        assert_eq!(
            out.lines().count(),
            FIRST_PAGE + 1,
            "shown without being asked"
        );
        table.push(key(late, 2), &mut out);
        let last = out.lines().last().unwrap_or_default().to_owned();
        assert_eq!(last.contains(late), screen.width.is_none(), "{last}");
        assert_eq!(
            last.starts_with("a-k…") || last.starts_with("a-ke…"),
            screen.width.is_some()
        );
        assert!(table.held.is_empty(), "and nothing is held any more");
    }
}

#[test]
fn a_pause_without_rows_decides_nothing() {
    let mut table = Table::new(COLUMNS, PIPED);
    let mut out = String::new();
    table.settle(&mut out);
    assert_eq!(out, "");
    table.push(key("a-longer-key", 1), &mut out);
    table.settle(&mut out);
    assert!(out.starts_with("KEY           OPERATION ID"), "{out}");
}

#[test]
fn a_last_column_of_text_may_use_what_is_left() {
    let columns = const { &[Column::text("key"), Column::text("detail")] };
    let row = |detail: &'static str| {
        move |row: &mut Row| {
            row.text("a").text(detail);
        }
    };
    let mut table = Table::new(columns, terminal(20));
    let mut out = String::new();
    table.push(row("short"), &mut out);
    table.settle(&mut out);
    table.push(row("fifteen letters"), &mut out);
    table.push(row("sixteen letters!"), &mut out);
    assert_eq!(
        out,
        "KEY  DETAIL\na    short\na    fifteen letters\na    sixteen letter…\n"
    );
}

#[test]
fn control_characters_are_escaped_and_counted_as_such() {
    let columns = const { &[Column::text("key"), Column::number("n")] };
    let row = |row: &mut Row| {
        row.text("a\u{1b}[31m\nb").show(1);
    };
    assert_eq!(
        shown(columns, PIPED, &[&row]),
        "KEY             N\na\\u{1b}[31m\\nb  1\n"
    );
    let mut shown = Row::default();
    shown.show("x\r").show_some(None::<u64>).show_some(Some(7));
    assert_eq!(
        shown.cells().map(|(text, _)| text).collect::<Vec<_>>(),
        ["x\\r", "-", "7"]
    );
}

#[test]
fn colours_change_nothing_but_the_colour() {
    let colour = Screen {
        width: None,
        colour: true,
    };
    let plain = shown(COLUMNS, PIPED, &[&key("pay-1", 1)]);
    let painted = shown(COLUMNS, colour, &[&key("pay-1", 1)]);
    assert!(
        painted.contains("\u{1b}[33min doubt\u{1b}[0m"),
        "{painted:?}"
    );
    assert!(painted.starts_with("\u{1b}[1mKEY\u{1b}[0m"), "{painted:?}");
    assert_eq!(anstream::adapter::strip_str(&painted).to_string(), plain);
}

#[test]
fn the_heading_of_a_number_gives_way_before_a_text_does() {
    let columns = const {
        &[
            Column::text("key"),
            Column::number("possible_repeats").or("repeats"),
            Column::number("attempts"),
        ]
    };
    let row = |row: &mut Row| {
        row.text("payment-1").show(0).show(123_456_789_012_u64);
    };
    assert_eq!(
        shown(columns, terminal(33), &[&row]),
        "KEY         REPEATS      ATTEMPTS\npayment-1         0  123456789012\n"
    );
    assert_eq!(
        shown(columns, terminal(80), &[&row]),
        "KEY        POSSIBLE REPEATS      ATTEMPTS\npayment-1                 0  123456789012\n"
    );
}

const WITH_SPARE: &[Column] = &[
    Column::key("key"),
    Column::text("pipeline"),
    Column::time("since"),
    Column::number("attempts").spare(),
    Column::number("possible_repeats").spare(),
    Column::text("reason"),
];

fn with_spare(key: &'static str) -> impl Fn(&mut Row) {
    move |row| {
        row.text(key).text("payments").time(Timestamp::EPOCH);
        row.show(3).show(0).text("exit code 3: card declined");
    }
}

#[test]
fn a_key_stays_whole_while_milliseconds_and_spare_columns_can_go() {
    let uuid = "0b4c8f5e-6f1d-4d5c-9a39-7d2f0c7e6a11";
    for (width, expected) in [
        (
            200,
            "KEY                                   PIPELINE  SINCE                     ATTEMPTS  \
             POSSIBLE REPEATS  REASON\n\
             0b4c8f5e-6f1d-4d5c-9a39-7d2f0c7e6a11  payments  1970-01-01T00:00:00.000Z         3  \
             \u{20}              0  exit code 3: card declined\n",
        ),
        (
            100,
            "KEY                                   PIPELINE  SINCE                 ATTEMPTS  REASON\n\
             0b4c8f5e-6f1d-4d5c-9a39-7d2f0c7e6a11  payments  1970-01-01T00:00:00Z         3  \
             exit code 3: card d…\n",
        ),
        (
            80,
            "KEY                                   PIPELINE  SINCE                 REASON\n\
             0b4c8f5e-6f1d-4d5c-9a39-7d2f0c7e6a11  payments  1970-01-01T00:00:00Z  exit code…\n",
        ),
    ] {
        let out = shown(WITH_SPARE, terminal(width), &[&with_spare(uuid)]);
        assert_eq!(out, expected, "{width}");
        assert!(out.lines().all(|line| text::width(line) <= width), "{out}");
    }
}

#[test]
fn in_a_pipe_one_long_value_does_not_push_away_every_row() {
    let long: &'static str = "k".repeat(1_000).leak();
    let out = shown(
        WITH_SPARE,
        PIPED,
        &[&with_spare("pay-1"), &with_spare(long)],
    );
    let lines: Vec<_> = out.lines().collect();
    assert!(lines[1].len() < 200, "{}", lines[1]);
    assert!(
        lines[2].starts_with(&format!("{long}  payments  1970")),
        "{out}"
    );
}

#[test]
fn a_column_that_no_row_needs_is_left_out_until_one_does() {
    let columns = const {
        &[
            Column::text("key"),
            Column::text("tenant").if_any(),
            Column::number("n"),
        ]
    };
    let row = |key: &'static str, tenant: Option<&'static str>| {
        move |row: &mut Row| {
            row.text(key).show_some(tenant).show(1);
        }
    };
    let alone = shown(columns, PIPED, &[&row("a", None), &row("b", None)]);
    assert_eq!(alone, "KEY  N\na    1\nb    1\n");
    let both = shown(columns, PIPED, &[&row("a", None), &row("b", Some("acme"))]);
    assert_eq!(both, "KEY  TENANT  N\na    -       1\nb    acme    1\n");
    // The widths are settled between two pages.
    let mut table = Table::new(columns, PIPED);
    let mut out = String::new();
    table.push(row("a", None), &mut out);
    table.settle(&mut out);
    table.push(row("b", None), &mut out);
    table.push(row("c", Some("acme")), &mut out);
    table.push(row("d", None), &mut out);
    table.settle(&mut out);
    assert_eq!(
        out,
        "KEY  N\na    1\nb    1\nKEY  TENANT  N\nc    acme    1\nd    -       1\n"
    );
}
