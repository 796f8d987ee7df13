#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| hurtle_fuzz::split_equals_whole(data));
