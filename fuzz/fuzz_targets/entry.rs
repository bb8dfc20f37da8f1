//! Entries from arbitrary bytes. What is read can be written, and reads the same again.

#![no_main]

use intendant_journal::format::codec;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(entry) = codec::decode(bytes) {
        let mut again = Vec::new();
        codec::encode(&entry, &mut again).expect("an entry that was read can be written");
        assert_eq!(codec::decode(&again).as_ref(), Ok(&entry));
    }
});
