//! The hops that a call may try, in order.

use crate::hop::Hop;

/// A chain. Never empty.
#[derive(Debug)]
pub(crate) struct Chain {
    pub(crate) hops: Vec<Hop>,
}

impl Chain {
    /// `None` without a hop.
    pub(crate) fn new(hops: Vec<Hop>) -> Option<Self> {
        (!hops.is_empty()).then_some(Self { hops })
    }

    pub(crate) fn first(&self) -> &Hop {
        &self.hops[0]
    }
}
