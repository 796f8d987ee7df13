//! Applications as their clients see them: bodies of unknown length both ways, and what becomes of
//! a request when one side fails.

mod answers;
mod client;
mod mounts;
mod requests;
mod router;
mod support;
