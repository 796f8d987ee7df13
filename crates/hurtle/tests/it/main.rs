//! Tests of the server over sockets, one module for each topic. `support` describes the helpers;
//! byte-level cases are in `tests/golden/`.

// A failed `unwrap` in a helper fails the test.
#![allow(clippy::unwrap_used)]

mod archives;
mod compression;
mod conditions;
mod connection;
mod cors;
mod dictionaries;
mod files;
mod freshness;
mod growing;
mod limits;
mod links;
mod matchers;
mod methods;
mod names;
mod passwords;
mod ranges;
mod rates;
mod request_limits;
mod reset_times;
mod schedule;
mod sending;
mod sidecars;
mod sites;
mod support;
mod uploads;
