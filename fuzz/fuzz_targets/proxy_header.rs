#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| hurtle_fuzz::proxy_header(data));
