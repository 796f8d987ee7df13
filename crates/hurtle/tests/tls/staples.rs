//! Staples (OCSP, RFC 6066 8) as clients get them, and those they do not get.

use std::fs;

use crate::child::eventually;
use crate::peer::{Options, Peer};
use crate::server::{Secure, files, tls};

const SERIAL: &[u8] = &[0x71, 2, 3, 4];

fn element(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let contents = parts.concat();
    let len = u16::try_from(contents.len()).unwrap().to_be_bytes();
    match len {
        [0, len @ ..0x80] => [&[tag, len][..], &contents].concat(),
        _ => [&[tag, 0x82][..], &len, &contents].concat(),
    }
}

/// A good word for the certificate of this number, by nobody (RFC 6960 4.2.1).
fn response(serial: &[u8], until: &str) -> Vec<u8> {
    let time = |text: &str| element(0x18, &[text.as_bytes()]);
    let (hash, algorithm) = (element(4, &[&[7; 20]]), element(0x30, &[&[6, 1, 0x2a]]));
    let id = element(0x30, &[&algorithm, &hash, &hash, &element(2, &[serial])]);
    let next = element(0xa0, &[&time(until)]);
    let single = element(0x30, &[&id, &[0x80, 0], &time("20260101000000Z"), &next]);
    let by = element(0xa2, &[&hash]);
    let list = element(0x30, &[&single]);
    let data = element(0x30, &[&by, &time("20260101000000Z"), &list]);
    let basic = element(0x30, &[&data, &algorithm, &element(3, &[&[0; 70]])]);
    let kind = element(6, &[&[0x2b, 6, 1, 5, 5, 7, 0x30, 1, 1]]);
    let bytes = element(0x30, &[&kind, &element(4, &[&basic])]);
    element(0x30, &[&[0x0a, 1, 0], &element(0xa0, &[&bytes])])
}

#[test]
fn the_staple_beside_the_certificate_is_sent_while_it_is_good() {
    let good = response(SERIAL, "99981231235959Z");
    let server = Secure::with(&[("a.txt", "")], |config, authority, dir| {
        let pair = authority.issue_numbered("a.test", SERIAL);
        config.sites[0].tls = Some(tls(pair.write(dir, "a")));
        fs::write(dir.path("../a.pem.ocsp"), &good).unwrap();
    });
    let (options, staples) = Options::noting_staples(server.authority.roots());
    let sent = || {
        Peer::connect(server.address, "a.test", &options).unwrap();
        staples.lock().unwrap().pop().unwrap()
    };
    assert_eq!(sent(), good);
    let file = files(&server.dir, "a").chain.with_extension("pem.ocsp");
    let newer = response(SERIAL, "99990101000000Z");
    let nothing = Vec::new();
    for (sentence, written, expected) in [
        ("a newer one", Some(newer.clone()), &newer),
        ("one that is over", Some(response(SERIAL, "20260102000000Z")), &nothing),
        ("a good one again", Some(good.clone()), &good),
        ("none", None, &nothing),
    ] {
        match written {
            Some(written) => fs::write(&file, written).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        eventually(sentence, || sent() == *expected);
    }
}
