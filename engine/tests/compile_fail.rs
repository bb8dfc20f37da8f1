//! P5: what must not compile does not.
#![allow(clippy::unwrap_used)]

#[test]
fn p5_no_way_round_the_door_compiles() {
    let cases = trybuild::TestCases::new();
    cases.compile_fail("tests/compile_fail/*.rs");
}
