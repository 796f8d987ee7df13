//! One connection, from its first byte to its last: the protocols, and what they share.

pub mod deadline;
pub mod h1;

use std::cell::Cell;
use std::rc::Rc;

use ipnet::IpNet;

use crate::config::Limits;
use crate::files::Store;
use crate::h1::head::HeadLimits;
use crate::observe::WorkerLog;
use crate::rt::Bell;
use crate::site::Sites;
use crate::transport::Sender;
use deadline::Deadlines;

/// What a worker's connections share. Nothing in it is shared with another worker's but the pool
/// behind `store` and `sender`.
#[derive(Debug)]
pub struct Worker {
    /// Who answers.
    pub sites: Sites,
    /// What is known of files.
    pub store: Rc<Store>,
    /// How bodies leave.
    pub sender: Sender,
    /// Proxies that are believed in whom they name as the client.
    pub trusted_proxies: Vec<IpNet>,
    /// Bounds on clients.
    pub limits: Limits,
    /// Bounds on heads.
    pub head_limits: HeadLimits,
    /// When connections are given up.
    pub deadlines: Rc<Deadlines>,
    /// Connections open now.
    pub open: Cell<usize>,
    /// Rung whenever one has closed.
    pub closed: Bell,
    /// A line for each request.
    pub log: Option<WorkerLog>,
}
