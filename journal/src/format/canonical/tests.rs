use proptest::prelude::*;
use serde_json::json;

use super::*;

fn canonical(text: &str) -> String {
    to_text(&parse(text.as_bytes()).unwrap()).unwrap()
}

fn refused(text: &str) -> CanonicalError {
    parse(text.as_bytes()).unwrap_err()
}

/// RFC 8785 section 3.2.2, with the one number that RFC 8785 itself would round (its input holds
/// `333333333.33333329`, which is not the shortest form of any double) written in its rounded form.
#[test]
fn the_sample_of_rfc_8785() {
    let input = r#"{
        "numbers": [333333333.3333333, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
        "literals": [null, true, false]
    }"#;
    let expected = r#"{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#;
    assert_eq!(canonical(input), expected);
    assert!(matches!(
        refused("333333333.33333329"),
        CanonicalError::Inexact { offset: 0, .. }
    ));
}

/// RFC 8785 section 3.2.3.
#[test]
fn keys_are_sorted_by_utf_16_code_units() {
    let input = r#"{
        "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh",
        "1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control",
        "\u00f6": "Latin Small Letter O With Diaeresis"
    }"#;
    let text = canonical(input);
    let places: Vec<usize> = [
        "Carriage Return",
        "One",
        "Control",
        "Latin",
        "Euro",
        "Emoji",
        "Hebrew",
    ]
    .iter()
    .map(|name| text.find(name).unwrap())
    .collect();
    assert!(places.is_sorted(), "{text}");
}

/// RFC 8785 appendix B: bits of a double and its text.
#[test]
fn numbers_have_the_form_of_ecmascript() {
    for (bits, expected) in [
        (0x0000_0000_0000_0000_u64, "0"),
        (0x8000_0000_0000_0000, "0"),
        (0x0000_0000_0000_0001, "5e-324"),
        (0x8000_0000_0000_0001, "-5e-324"),
        (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
        (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
        (0x4340_0000_0000_0000, "9007199254740992"),
        (0xc340_0000_0000_0000, "-9007199254740992"),
        (0x4430_0000_0000_0000, "295147905179352830000"),
        (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
        (0x44b5_2d02_c7e1_4af6, "1e+23"),
        (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
        (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
        (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
        (0x444b_1ae4_d6e2_ef50, "1e+21"),
        (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
        (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
        (0x41b3_de43_5555_5553, "333333333.3333332"),
        (0x41b3_de43_5555_5554, "333333333.33333325"),
        (0x41b3_de43_5555_5555, "333333333.3333333"),
        (0x41b3_de43_5555_5556, "333333333.3333334"),
        (0x41b3_de43_5555_5557, "333333333.33333343"),
        (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
        (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
    ] {
        let value = json!(f64::from_bits(bits));
        let text = to_text(&value).unwrap();
        assert_eq!(text, expected, "{bits:016x}");
        assert_eq!(canonical(&text), text);
    }
}

#[test]
fn integers_of_64_bits_keep_all_their_digits() {
    for text in [
        "9007199254740993",
        "18446744073709551615",
        "-9223372036854775808",
        "0",
    ] {
        assert_eq!(canonical(text), text);
    }
    assert_eq!(canonical("-0"), "0");
    assert_eq!(parse(b"-0").unwrap(), json!(0));
}

#[test]
fn other_forms_of_one_number_have_one_text_and_one_value() {
    for (text, expected) in [
        ("1.0", "1"),
        ("1e3", "1000"),
        ("10e-1", "1"),
        ("-0.0", "0"),
        ("0e999999999999999999999", "0"),
        ("1e20", "100000000000000000000"),
        ("100000000000000000000", "100000000000000000000"),
        ("1E21", "1e+21"),
        ("0.10", "0.1"),
        ("1.2345678901234567e19", "12345678901234567000"),
    ] {
        assert_eq!(canonical(text), expected);
        assert_eq!(
            parse(text.as_bytes()).unwrap(),
            parse(expected.as_bytes()).unwrap()
        );
    }
}

#[test]
fn numbers_that_would_change_are_refused() {
    for text in [
        "18446744073709551616",
        "-9223372036854775809",
        "9007199254740993.0",
        "0.1000000000000000055511151231257827",
        "1e400",
        "-1e400",
        "1e-400",
        "1e99999999999999999999",
        "3.14159265358979323846",
        // The double is 1832614195616513.25, and ECMAScript prints its even neighbour.
        "1832614195616513.3",
    ] {
        assert!(
            matches!(refused(text), CanonicalError::Inexact { offset: 0, .. }),
            "{text}"
        );
    }
    let CanonicalError::Inexact { token, .. } = refused(&"1".repeat(1000)) else {
        panic!("not refused as inexact");
    };
    assert_eq!(token.len(), QUOTED_MAX + 3);
}

#[test]
fn text_that_is_not_strict_json_is_refused() {
    for text in [
        "",
        " ",
        "nul",
        "NaN",
        "Infinity",
        "-Infinity",
        "-",
        "+1",
        "01",
        "-01",
        "1.",
        ".5",
        "1e",
        "1e+",
        "0x10",
        "[1,]",
        "[1 2]",
        "[",
        "{\"a\":1,}",
        "{a:1}",
        "{\"a\" 1}",
        "{\"a\":}",
        "{",
        "\"",
        "\"\\\"",
        "\"\\",
        "\"\\x\"",
        "\"\\u12\"",
        "\"a\nb\"",
        "'a'",
        "1 2",
        "// x\n1",
        "\u{feff}1",
        "true1",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800x\"",
        "{\"\\ud800\":1}",
    ] {
        assert!(
            matches!(refused(text), CanonicalError::Syntax { .. }),
            "{text}"
        );
    }
    assert_eq!(
        parse(b"[\"a\xff\"]"),
        Err(CanonicalError::NotUtf8 { offset: 3 })
    );
    // A surrogate written as UTF-8 bytes is no UTF-8.
    assert!(matches!(
        parse(b"\"\xed\xa0\x80\""),
        Err(CanonicalError::NotUtf8 { .. })
    ));
}

#[test]
fn a_key_given_twice_is_refused_however_it_is_written() {
    assert_eq!(
        refused(r#"{"a":1,"b":{"c":1,"\u0063":2}}"#),
        CanonicalError::DuplicateKey {
            offset: 18,
            key: "c".to_owned()
        }
    );
    assert_eq!(canonical(r#"{"a":{"a":1},"b":{"a":1}}"#).len(), 25);
}

#[test]
fn depth_is_limited_when_reading_and_when_writing() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert_eq!(canonical(&nested(DEPTH_MAX)), nested(DEPTH_MAX));
    assert_eq!(refused(&nested(DEPTH_MAX + 1)), CanonicalError::TooDeep);
    assert_eq!(refused(&"{\"a\":".repeat(100_000)), CanonicalError::TooDeep);
    let deep = (0..=DEPTH_MAX).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(to_text(&deep), Err(CanonicalError::TooDeep));
}

#[test]
fn digests_are_pinned_and_keep_domain_and_text_apart() {
    assert_eq!(
        digest("intendant test", "{}").to_string(),
        DIGEST_OF_EMPTY_OBJECT
    );
    assert_ne!(digest("ab", "c"), digest("a", "bc"));
    assert_ne!(digest("", "abc"), digest("abc", ""));
}

/// `printf '\x0e\0\0\0\0\0\0\0intendant test{}' | sha256sum`
const DIGEST_OF_EMPTY_OBJECT: &str =
    "a8646797e34cfa84652e8308c35801049320a442f96a220b2bebf465acb40a7a";

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>()
            .prop_filter("finite", |double| double.is_finite())
            .prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
            prop::collection::hash_map(any::<String>(), inner, 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn canonical_text_is_a_fixed_point(value in any_value()) {
        let text = to_text(&value).unwrap();
        let read = parse(text.as_bytes()).unwrap();
        prop_assert_eq!(&to_text(&read).unwrap(), &text);
        prop_assert_eq!(parse(to_text(&read).unwrap().as_bytes()).unwrap(), read);
    }

    /// White space and the order of keys say nothing.
    #[test]
    fn pretty_text_has_the_same_canonical_text(value in any_value()) {
        let pretty = serde_json::to_string_pretty(&value).unwrap();
        prop_assert_eq!(
            to_text(&parse(pretty.as_bytes()).unwrap()).unwrap(),
            to_text(&value).unwrap()
        );
    }

    /// Any double is read back bit for bit from its shortest text.
    #[test]
    fn doubles_keep_their_bits(
        double in prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL
            | prop::num::f64::POSITIVE | prop::num::f64::NEGATIVE
    ) {
        let read = parse(json!(double).to_string().as_bytes()).unwrap();
        prop_assert_eq!(read.as_f64().unwrap().to_bits(), double.to_bits());
    }

    /// Here doubles lie exactly between two shortest decimals; `serde_json` picks the same one as
    /// ECMAScript.
    #[test]
    fn doubles_between_two_decimals_are_read_from_the_text_of_serde_json(
        quarters in (1_u64 << 52)..(1 << 53)
    ) {
        let double = quarters as f64 / 4.0;
        let text = json!(double).to_string();
        let read = parse(text.as_bytes()).unwrap();
        prop_assert_eq!(read.as_f64().unwrap(), double);
    }

    /// What is accepted is JSON, and means what any other reader of JSON sees.
    #[test]
    fn nothing_but_json_is_accepted(text in "[-+0-9.eE{}\\[\\],:\"\\\\u \nabtrflsn]{0,24}") {
        if let Ok(value) = parse(text.as_bytes()) {
            let other: Value = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(to_text(&other).unwrap(), to_text(&value).unwrap());
        }
    }

    /// Arbitrary bytes never make it panic.
    #[test]
    fn arbitrary_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if let Ok(value) = parse(&bytes) {
            to_text(&value).unwrap();
        }
    }
}
