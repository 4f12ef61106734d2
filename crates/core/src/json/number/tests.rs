use super::*;

use proptest::prelude::*;

#[test]
fn numbers_count_by_value() {
    let table = [
        ("0", "0"),
        ("-0", "0"),
        ("-0.0e5", "0"),
        ("0e99999999999999999999", "0"),
        ("1", "1"),
        ("1.0", "1"),
        ("10e-1", "1"),
        ("0.1e1", "1"),
        ("1E+2", "100"),
        ("-12.50", "-12.5"),
        ("0.5", "0.5"),
        ("5e-1", "0.5"),
        ("0.00120e-1", "0.00012"),
        ("120", "120"),
        ("1.20e1", "12"),
        ("123.456e1", "1234.56"),
        ("123.456e-4", "0.0123456"),
        ("9007199254740993", "9007199254740993"),
        ("18446744073709551617", "18446744073709551617"),
        (
            "0.1000000000000000055511151231257827",
            "0.1000000000000000055511151231257827",
        ),
    ];
    for (literal, expected) in table {
        assert_eq!(canonical(literal).as_deref(), Ok(expected), "{literal}");
    }
}

#[test]
fn a_thousand_digits_are_enough() {
    let nines = "9".repeat(1_000);
    assert_eq!(canonical(&nines).as_deref(), Ok(&*nines));
    assert_eq!(
        canonical(&format!("-{nines}.0")),
        Ok(format!("-{nines}").into())
    );
    assert_eq!(canonical(&format!("{nines}9")), Err(TooLong));
    assert_eq!(canonical("1e999").map(|text| text.len()), Ok(1_000));
    assert_eq!(canonical("1e1000"), Err(TooLong));
    assert_eq!(
        canonical("1e-999").map(|text| text.len()),
        Ok(1_001),
        "the point is no digit"
    );
    assert_eq!(canonical("1e-1000"), Err(TooLong));
    let tail = "9".repeat(999);
    assert_eq!(
        canonical(&format!("9.{tail}")),
        Ok(format!("9.{tail}").into())
    );
    assert_eq!(canonical(&format!("9.9{tail}")), Err(TooLong));
    assert_eq!(
        canonical(&format!("0.{}1e5001", "0".repeat(5_000))).as_deref(),
        Ok("1")
    );
    for exponent in [
        "1000",
        "-9999",
        "9223372036854775807",
        "-9223372036854775808",
    ] {
        assert_eq!(
            canonical(&format!("12.5e{exponent}")),
            Err(TooLong),
            "{exponent}"
        );
        assert_eq!(
            canonical(&format!("12.5e{exponent}9")),
            Err(TooLong),
            "{exponent}9"
        );
    }
}

proptest! {
    /// The model: a whole number of 10^-60ths.
    #[test]
    fn agrees_with_big_decimals(
        negative: bool, whole in "0|[1-9][0-9]{0,12}", fraction in "(\\.[0-9]{1,12})?",
        exponent in proptest::option::of(-20_i32..=4),
    ) {
        let sign = if negative { "-" } else { "" };
        let exponent = exponent.map(|exponent| format!("e{exponent}")).unwrap_or_default();
        let literal = format!("{sign}{whole}{fraction}{exponent}");
        let text = canonical(&literal).expect("is short");
        prop_assert_eq!(scaled(&text), scaled(&literal), "{} became {}", literal, text);
        prop_assert_eq!(canonical(&text), Ok(text.as_ref().into()), "is its own canonical text");
        prop_assert!(!text.contains(['e', 'E', '+']));
    }
}

/// A number in units of 10^-32, by plain arithmetic.
fn scaled(literal: &str) -> i128 {
    let (mantissa, exponent) = literal.split_once('e').unwrap_or((literal, "0"));
    let exponent: i32 = exponent.parse().expect("is small");
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: i128 = format!("{whole}{fraction}").parse().expect("is short");
    let shift = 32 + exponent - i32::try_from(fraction.len()).expect("is short");
    digits
        .checked_mul(10_i128.pow(shift.unsigned_abs()))
        .filter(|_| shift >= 0)
        .unwrap_or(i128::MAX)
}
