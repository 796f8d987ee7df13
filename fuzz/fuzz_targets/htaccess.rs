#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| hurtle_fuzz::htaccess(data));
