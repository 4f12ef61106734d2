//! A bug that random inputs do not find, and that a fuzzer finds because it sees which code an input
//! reaches.
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let is = |at: usize, wanted: u8| input.get(at) == Some(&wanted);
    if is(0, b's') && is(1, b'e') && is(2, b'm') && is(3, b'e') && is(4, b'l') && is(9, b'!') {
        panic!("the planted bug");
    }
});
