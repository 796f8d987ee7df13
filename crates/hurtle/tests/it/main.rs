//! The server as its clients see it: one module a topic, each test a table or a short story.
//! `support` explains itself in ten lines; what is on the wire byte by byte is in `tests/golden/`.

// A helper that fails fails its test.
#![allow(clippy::unwrap_used)]

mod conditions;
mod connection;
mod files;
mod freshness;
mod growing;
mod limits;
mod links;
mod methods;
mod names;
mod passwords;
mod ranges;
mod rates;
mod schedule;
mod sending;
mod sidecars;
mod sites;
mod support;
mod uploads;
