//! The crate without stores: its types have no values.

use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Change, Condition, Failure, Listing, Object, Settings, Version};

/// See the same type with the feature `stores`.
#[derive(Clone, Debug, Default)]
pub struct Origins(());

/// See the same type with the feature `stores`.
#[derive(Clone, Debug)]
pub struct Origin(Infallible);

/// See the same type with the feature `stores`.
#[derive(Clone, Debug)]
pub struct Arrival(Infallible);

/// See the same type with the feature `stores`.
#[derive(Debug)]
pub struct Put(Infallible);

#[allow(missing_docs, clippy::unused_async, clippy::missing_errors_doc)]
impl Origins {
    pub fn check(_: &Settings) -> Result<(), String> {
        Err("this server was built without object stores".to_owned())
    }

    pub fn origin(&self, _: &Settings) -> Result<Origin, String> {
        Err("this server was built without object stores".to_owned())
    }

    pub fn retain_used(&self) {}
}

#[allow(missing_docs, clippy::unused_async, clippy::missing_errors_doc)]
impl Origin {
    pub fn settings(&self) -> &Settings {
        match self.0 {}
    }

    pub async fn open(&self, _: String, _: bool) -> Result<Option<Object>, Failure> {
        match self.0 {}
    }

    pub async fn check(&self, _: String) -> Result<Option<Version>, Failure> {
        match self.0 {}
    }

    pub async fn has_prefix(&self, _: String) -> Result<bool, Failure> {
        match self.0 {}
    }

    pub async fn list(&self, _: String) -> Result<Arc<Listing>, Failure> {
        match self.0 {}
    }

    pub async fn cached(&self, _: String) -> Option<Version> {
        match self.0 {}
    }

    pub fn takes(&self, _: &str) -> bool {
        match self.0 {}
    }

    pub fn put(&self, _: &str, _: Condition, _: Option<String>) -> Result<Put, Failure> {
        match self.0 {}
    }

    pub async fn describe(&self, _: String) -> Result<Option<Version>, Failure> {
        match self.0 {}
    }

    pub async fn delete(&self, _: String, _: Condition) -> Result<Change, Failure> {
        match self.0 {}
    }
}

#[allow(missing_docs, clippy::unused_async, clippy::missing_errors_doc)]
impl Arrival {
    pub fn has(&self, _: Range<u64>) -> bool {
        match self.0 {}
    }

    pub async fn read(&self, _: Range<u64>) -> Result<Bytes, Failure> {
        match self.0 {}
    }
}

#[allow(missing_docs, clippy::unused_async, clippy::missing_errors_doc)]
impl Put {
    pub async fn send(&mut self, _: Bytes) -> Result<(), Failure> {
        match self.0 {}
    }

    pub async fn finish(self) -> Result<(Change, Option<Version>), Failure> {
        match self.0 {}
    }
}
