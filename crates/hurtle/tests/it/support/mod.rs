//! A real server over a directory of its own, and a client that speaks raw bytes. A test reads:
//!
//! ```ignore
//! let server = Server::start(&[("a.txt", "hello\n"), ("dir/index.html", "in dir")]);
//! assert_eq!(server.get("/a.txt").text(), "hello\n");              // one request, one connection
//! let mut client = server.connect();                               // or byte by byte:
//! client.send("GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n");
//! assert_eq!(client.response().status, 200);
//! client.expect_open();                                            // else `expect_end`
//! ```
//! `Server::with(tree, |config| ..)` changes the configuration. `Server::of(dir, ..)` serves links,
//! times and names that a table cannot express. Every file's time is `site::MODIFIED`, so its
//! validators are strong. A dropped server stops and removes its directory. Reads wait up to
//! `client::PATIENCE` and then fail; `eventually` waits longer, for files and later responses.

// Each test binary uses a part of these helpers.
#![allow(dead_code, unused_imports)]

pub(crate) mod client;
pub(crate) mod coding;
pub(crate) mod one_worker;
pub(crate) mod reserved;
pub(crate) mod rows;
pub(crate) mod server;
pub(crate) mod site;
pub(crate) mod waiting;

pub(crate) use client::{Client, Response};
pub(crate) use reserved::reserved_address;
pub(crate) use server::Server;
pub(crate) use site::{Dir, MODIFIED};
pub(crate) use waiting::eventually;
