//! One place in a chain: an exit, and how requests are changed for it.
//!
//! Options belong to the hop and are applied after the switch to it: what one vendor wants (a thinking switch, sampling) means
//! nothing to the next, or is an error there.

use std::sync::Arc;

use bytes::Bytes;

use crate::exit::Exit;
use crate::provider::Outgoing;
use crate::settings::HopOptions;
use crate::{Fields, ModelRequest};

/// A place in a chain.
#[derive(Debug)]
pub(crate) struct Hop {
    pub(crate) exit: Arc<Exit>,
    options: HopOptions,
}

impl Hop {
    pub(crate) fn new(exit: Arc<Exit>, options: HopOptions) -> Self {
        Self { exit, options }
    }

    /// The body that asks this hop.
    pub(crate) fn body(&self, request: &ModelRequest) -> Result<Bytes, serde_json::Error> {
        self.exit.dialect.body(&Outgoing {
            model: &self.exit.labels.model,
            messages: &request.messages,
            fields: &self.fields(&request.fields)?,
            has_cache_markers: self.options.has_cache_markers,
        })
    }

    fn fields(&self, callers: &Fields) -> Result<Fields, serde_json::Error> {
        let mut fields = callers.clone();
        for name in &self.options.drop {
            fields.remove(name);
        }
        for (name, value) in self.options.set.iter() {
            fields.set(name, &value)?;
        }
        Ok(fields)
    }
}
