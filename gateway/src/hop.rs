//! One place in a chain: an exit, and how requests are changed for it.
//!
//! Options belong to the hop and are applied after the switch to it: what one vendor wants (a thinking switch, sampling) means
//! nothing to the next, or is an error there.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::value::RawValue;

use crate::exit::Exit;
use crate::route::Facts;
use crate::settings::HopOptions;
use crate::{Fields, ModelRequest};

/// A place in a chain.
#[derive(Debug)]
pub(crate) struct Hop {
    pub(crate) exit: Arc<Exit>,
    /// What the hop sets, and `null` for what it leaves out.
    options: Fields,
    has_cache_markers: bool,
    /// What is known about its model.
    pub(crate) facts: Facts,
}

impl Hop {
    pub(crate) fn new(exit: Arc<Exit>, options: HopOptions, facts: Facts) -> Self {
        let HopOptions { set, drop, has_cache_markers } = options;
        let mut options = set;
        for name in drop {
            options.set_raw(name, RawValue::NULL.to_owned());
        }
        Self { exit, options, has_cache_markers, facts }
    }

    /// The body that asks this hop.
    pub(crate) fn body(&self, request: &ModelRequest) -> Result<Bytes, serde_json::Error> {
        let marked = self.has_cache_markers.then(|| request.with_cache_markers());
        self.exit.dialect.request_body(marked.as_ref().unwrap_or(request), &self.exit.name, &self.options)
    }
}
