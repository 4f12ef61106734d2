#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| proof_inputs::must_stand("claim-steps", input));
