//! JSON from arbitrary bytes, as tools print it. What is accepted has one canonical text, which is
//! read back to the same value.

#![no_main]

use intendant_journal::format::canonical::{parse, to_text};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(value) = parse(bytes) {
        let text = to_text(&value).expect("a value that was read is not too deep");
        let again = parse(text.as_bytes()).expect("canonical text is accepted");
        assert_eq!(again, value);
        assert_eq!(to_text(&again).as_ref(), Ok(&text));
    }
});
