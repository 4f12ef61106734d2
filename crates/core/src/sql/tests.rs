use super::*;

const ALL: [Dialect; 3] = [Dialect::Postgres, Dialect::Mysql, Dialect::Sqlite];

#[track_caller]
fn finds(dialect: Dialect, statement: &str, expected: &[&str]) {
    let found: Vec<_> = dialect
        .tokens(statement)
        .filter_map(Token::placeholder)
        .collect();
    assert_eq!(found, expected, "{dialect:?}: {statement}");
    let whole: String = dialect.tokens(statement).map(Token::text).collect();
    assert_eq!(whole, statement, "{dialect:?}");
}

#[test]
fn what_all_have_in_common() {
    for dialect in ALL {
        for (statement, expected) in [
            ("insert into t values (:a,:b, :a)", &["a", "b", "a"][..]),
            ("select ':no', 'it''s :no', :yes", &["yes"]),
            ("select \":no\"\"\", :yes", &["yes"]),
            ("select 1 -- :no\n, :yes -- :no", &["yes"]),
            ("select /* :no ' */ :yes /* :no", &["yes"]),
            ("select 'ü :no', ü, :größe", &["größe"]),
            ("select ':no", &[]),
            ("select :", &[]),
            ("select :1, :$a", &[]),
            ("select z = :_b2;", &["_b2"]),
            ("select a::b, a := :c", &["c"]),
            (":a", &["a"]),
            ("", &[]),
        ] {
            finds(dialect, statement, expected);
        }
    }
}

#[test]
fn a_backslash_escapes_where_the_dialect_says_so() {
    let statement = r"insert into t values ('it\'s 12:noon', :id)";
    finds(Dialect::Mysql, statement, &["id"]);
    // To the other dialects the text ends before `s`, and `:id` is followed by a text without an
    // end.
    finds(Dialect::Postgres, statement, &["noon"]);
    finds(Dialect::Sqlite, statement, &["noon"]);
    finds(Dialect::Mysql, r#"select "a\":no", `a\`, :yes"#, &["yes"]);
    finds(Dialect::Mysql, r"select 'a\\', :yes, N'\':no'", &["yes"]);
    finds(
        Dialect::Postgres,
        r"select E'\' :no', e'\':no', :yes",
        &["yes"],
    );
    finds(Dialect::Postgres, r"select 'a\', :yes, 'b'", &["yes"]);
    // Not the end of a word.
    finds(Dialect::Postgres, r"select name'a\', :yes", &["yes"]);
    finds(Dialect::Mysql, r"select 'a\", &[]);
    finds(Dialect::Mysql, r"select '\é :no', :yes, '\é", &["yes"]);
}

#[test]
fn each_has_comments_of_its_own() {
    let hash = "select 1 # :a\n, :b";
    finds(Dialect::Mysql, hash, &["b"]);
    finds(Dialect::Postgres, hash, &["a", "b"]);
    finds(Dialect::Sqlite, hash, &["a", "b"]);
    let dashes = "select 5--:a\n";
    finds(Dialect::Mysql, dashes, &["a"]);
    finds(Dialect::Postgres, dashes, &[]);
    finds(Dialect::Sqlite, dashes, &[]);
    finds(Dialect::Mysql, "select 1 --\n, :a --", &["a"]);
    let nested = "select /* :a /* :b */ :c */ :d";
    finds(Dialect::Postgres, nested, &["d"]);
    finds(Dialect::Mysql, nested, &["c", "d"]);
    finds(Dialect::Sqlite, nested, &["c", "d"]);
}

#[test]
fn each_quotes_names_and_texts_of_its_own() {
    let backticks = "select `:a``:b`, :c";
    finds(Dialect::Mysql, backticks, &["c"]);
    finds(Dialect::Sqlite, backticks, &["c"]);
    let brackets = "select [it's :a], :b";
    finds(Dialect::Sqlite, brackets, &["b"]);
    finds(
        Dialect::Postgres,
        "select x[:a:1], y[1:2], z[:b]",
        &["a", "b"],
    );
    for (statement, expected) in [
        ("select $$ :no $$, $q$ :no $$ :no $q$, :yes", &["yes"][..]),
        ("select $ä$ :no $ä$, $1, a$b$c, :yes", &["yes"]),
        ("select $open$ :no", &[]),
        ("select $a :yes", &["yes"]),
    ] {
        finds(Dialect::Postgres, statement, expected);
    }
    finds(
        Dialect::Mysql,
        "select a$b$, :yes, $$, :too",
        &["yes", "too"],
    );
}

#[test]
fn tokens_say_what_they_are() {
    use Token::{Blank, Comment, Name, Other, Placeholder, Positional, Text, Word};
    for (dialect, statement, expected) in [
        (
            Dialect::Postgres,
            "a$1::int=\"b\".c ?$2",
            vec![
                Word("a$1"),
                Other("::"),
                Word("int"),
                Other("="),
                Name("\"b\""),
                Other("."),
                Word("c"),
                Blank(" "),
                Other("?"),
                Positional("$2"),
            ],
        ),
        (
            Dialect::Mysql,
            "@a.b:=? `c`\"d\"# e",
            vec![
                Other("@a.b"),
                Other(":="),
                Positional("?"),
                Blank(" "),
                Name("`c`"),
                Text("\"d\""),
                Comment("# e"),
            ],
        ),
        (
            Dialect::Sqlite,
            "[a b]=:c,?12;",
            vec![
                Name("[a b]"),
                Other("="),
                Placeholder(":c"),
                Other(","),
                Positional("?12"),
                Other(";"),
            ],
        ),
    ] {
        let found: Vec<_> = dialect.tokens(statement).collect();
        assert_eq!(found, expected, "{statement}");
    }
}

#[test]
fn comments_do_not_hide_what_a_statement_is() {
    for dialect in ALL {
        for (statement, word) in [
            (" ; -- one\n /* two */ COMMIT;", "COMMIT"),
            ("\u{feff}(select 1)", "select"),
            ("--", ""),
            ("/* open", ""),
            ("naïve(:größe)", "naïve"),
        ] {
            assert_eq!(dialect.first_word(statement), word, "{statement}");
            assert_eq!(dialect.is_blank(statement), word.is_empty(), "{statement}");
        }
    }
    assert!(Dialect::Mysql.is_blank("# so\n;"));
    assert!(!Dialect::Postgres.is_blank("# so"));
}
