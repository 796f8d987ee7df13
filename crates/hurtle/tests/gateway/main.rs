//! FastCGI and CGI as seen by clients and applications: a scripted FastCGI peer, PHP-FPM with a
//! small application, programs in sh and Python.

#![allow(clippy::unwrap_used)] // a test that fails may panic where it stands

mod authorizer;
mod cgi;
mod cgi_ends;
#[allow(dead_code)]
#[path = "../app/client.rs"]
mod client;
mod dir;
mod fastcgi;
mod fastcgi_faults;
#[allow(dead_code)]
#[path = "../h2/wire.rs"]
mod frames;
mod http2;
mod internal;
mod kept_bodies;
mod links;
#[allow(dead_code)]
#[path = "../app/log.rs"]
mod log;
mod pages;
mod peer;
mod php;
mod php_fpm;
#[allow(dead_code)]
#[path = "../proxy/support.rs"]
mod support;
mod targets;
mod uwsgi;
mod uwsgi_server;
