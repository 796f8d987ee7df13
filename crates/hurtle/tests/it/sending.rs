//! How a body leaves (`sendfile`) is nobody's business but the server's: the bytes are the same.

use hurtle::config::Sendfile;

use crate::support::{Dir, Server};

/// (a file, its length): on both sides of what is kept in memory, of a piece, and of a turn.
const FILES: [(&str, usize); 7] = [
    ("nothing", 0),
    ("byte", 1),
    ("1k", 1 << 10),
    ("32k", 32 << 10),
    ("64k", 64 << 10),
    ("1m-and-a-byte", (1 << 20) + 1),
    ("20m", 20_000_000),
];

/// No two stretches alike, so that a piece left out, doubled or misplaced shows.
fn bytes(len: usize) -> Vec<u8> {
    (0..len.div_ceil(8))
        .flat_map(|at| (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes())
        .take(len)
        .collect()
}

#[test]
fn every_way_of_sending_gives_the_same_bytes() {
    let (dir, longest) = (Dir::new(&[]), bytes(20_000_000));
    for (name, len) in FILES {
        dir.write(name, &longest[..len]);
    }
    let mut dir = Some(dir);
    for sendfile in [Sendfile::Auto, Sendfile::On, Sendfile::Off] {
        let server = Server::of(dir.take().unwrap(), |config| config.sendfile = sendfile);
        // One connection: a byte too many or too few spoils the next answer.
        let mut client = server.connect();
        for turn in ["not yet known", "known"] {
            for (name, len) in FILES {
                let got = client.request("GET", &format!("/{name}"));
                let told = format!("{sendfile:?}, {name}, {turn}");
                assert_eq!(got.status, 200, "{told}");
                assert_eq!(got.field("Content-Length"), Some(&*len.to_string()), "{told}");
                assert!(got.body == longest[..len], "{told}: other bytes");
            }
            let middle = client.request("GET", "/20m\nRange: bytes=1048575-1310721");
            assert_eq!(middle.status, 206, "{sendfile:?}");
            assert!(middle.body == longest[1_048_575..=1_310_721], "{sendfile:?}: a range");
        }
        client.expect_open();
        dir = Some(server.stop());
    }
}
