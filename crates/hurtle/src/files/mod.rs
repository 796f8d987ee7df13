//! A file, or a directory's listing, as an answer.

pub mod listing;
