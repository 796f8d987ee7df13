//! Memory over many reloads: connections without requests and tunnels let go of the configurations
//! that they were served by.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use super::{Reloaded, get, open_tunnel};
use crate::frames::{self, DATA, END_STREAM, Wire};

/// Reloads after which memory no longer grows for other reasons, and all reloads.
const WARM: usize = 20;
const RELOADS: usize = 100;

/// Most growth between them, in KiB. The 240 connections use 2 to 5 MiB (the allocator's arenas
/// differ from run to run); the 80 configurations, whose texts alone have 200 KiB each, would use
/// 16 and more.
const GROWTH_KIB_MAX: u64 = 10 << 10;

/// Makes a configuration whose sites all differ from those of another `number`.
fn large_config(number: usize, upstream: &TcpListener) -> String {
    let mut text = format!(
        "[[site]]\nhosts = 'a'\n[[site.mount]]\nfiles = '{{root}}/a'\n\
         [[site.mount]]\npath = '/socket'\nproxy = 'http://{}'\n",
        upstream.local_addr().unwrap()
    );
    for site in 0..200 {
        text.push_str(&format!(
            "[[site]]\nhosts = 's{site}.test'\n[[site.mount]]\nredirect = 'https://a/{number}{}'\n",
            "x".repeat(1000)
        ));
    }
    text
}

#[test]
fn connections_without_requests_keep_no_configuration() {
    let upstream = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = Reloaded::start(&large_config(0, &upstream));
    let (mut clients, mut wires, mut tunnels) = (vec![], vec![], vec![]);
    let mut warm_kib = 0;
    for number in 1..=RELOADS {
        // Each of them was served by another configuration last.
        let mut client = server.child.connect();
        assert_eq!(get(&mut client, "a").0, 200);
        clients.push(client);
        let mut wire = Wire::begin(server.child.address(), &[]);
        wire.send(&frames::get(1, "/x.txt"));
        while !matches!(wire.next(), Some(frame) if frame.kind == DATA && frame.flags & END_STREAM != 0)
        {
        }
        wires.push(wire);
        tunnels.push(open_tunnel(&server.child, &upstream));
        let (code, said) = server.reload(&large_config(number, &upstream));
        assert_eq!((code, said.contains("reloaded")), (Some(0), true), "{said}");
        if number == WARM {
            warm_kib = server.child.resident_kib();
        }
    }
    let grown_kib = server.child.resident_kib().saturating_sub(warm_kib);
    println!("{grown_kib} KiB more after {} reloads and 3 connections each", RELOADS - WARM);
    assert!(grown_kib < GROWTH_KIB_MAX, "{warm_kib} KiB have grown by {grown_kib} KiB");
    for mut client in clients {
        assert_eq!(get(&mut client, "a").0, 200, "it is still open");
    }
    for mut wire in wires {
        wire.expect_open();
    }
    for (mut near, mut far) in tunnels {
        near.write_all(b"x").unwrap();
        far.read_exact(&mut [0]).unwrap();
        far.write_all(b"y").unwrap();
        near.read_exact(&mut [0]).unwrap();
    }
}
