//! Tests of file names with any byte except `/` and NUL.

use crate::support::Server;

#[test]
fn every_byte_in_a_name() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    for byte in (1..=255).filter(|&b| b != b'/') {
        let name = [b"n", &[byte][..], b"m"].concat();
        server.dir.write(&name, [byte]);
        for escape in [format!("n%{byte:02x}m"), format!("%6E%{byte:02X}%6d")] {
            let response = client.request("GET", &format!("/{escape}"));
            assert_eq!((response.status, response.body), (200, vec![byte]), "{escape}");
        }
    }
    client.expect_open();
}

#[test]
fn all_bytes_in_one_directory_name() {
    let server = Server::start(&[]);
    // All bytes in one run, except those that would form an overlong encoding.
    let name: Vec<u8> = (1..=255).rev().filter(|&b| b != b'/').take(250).collect();
    server.dir.write([&name[..], b"/index.html"].concat(), "found");
    let escaped: String = name.iter().map(|b| format!("%{b:02X}")).collect();
    assert_eq!(server.get(&format!("/{escaped}/")).text(), "found");

    let redirect = server.get(&format!("/{escaped}"));
    assert_eq!(redirect.status, 301);
    let location = redirect.field("Location").unwrap().to_owned();
    assert!(location.bytes().all(|b| b.is_ascii_graphic()), "{location}");
    assert_eq!(server.get(&location).text(), "found", "the redirect leads there: {location}");
}

#[test]
fn bytes_that_targets_may_hold_raw() {
    let server = Server::start(&[]);
    let raw: Vec<u8> = (0x21..0x7f).filter(|b| !b"/?#%".contains(b)).collect();
    let name = [b"n", &raw[..]].concat();
    server.dir.write(&name, "found");
    let target = String::from_utf8([b"/", &name[..]].concat()).unwrap();
    assert_eq!(server.get(&target).text(), "found", "{target}");
}

#[test]
fn names_that_look_like_something_else() {
    let names = [
        "http:",
        "http:x",
        "a:b",
        "*",
        "?",
        "#",
        "%",
        "%00",
        "%2e%2e",
        "a\\b",
        "a;b",
        "a=b",
        "&amp;",
        "<script>",
        "\"q\"",
        "'q'",
        "`",
        "$HOME",
        "~",
        " lead",
        "trail ",
        "line\nbreak",
        "tab\t",
        "a+b",
        "-rf",
        "aux",
        "com1",
        "a..b",
        "a.",
        "\u{feff}",
        "\u{202e}",
        "\u{1f600}",
        "e\u{301}",
        "\u{e9}",
    ];
    let server = Server::start(&[]);
    for name in names {
        server.dir.write(name, name);
        let escaped: String = name.bytes().map(|b| format!("%{b:02X}")).collect();
        let response = server.get(&format!("/{escaped}"));
        assert_eq!((response.status, response.text()), (200, name), "{name:?}");
    }
}
