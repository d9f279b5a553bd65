//! How long a call still waits for rate limits where another hop could serve: only such waits use it up, not slow answers.

use std::time::Duration;

use tokio::time::Instant;

/// What is left of a call's wait budget.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    left: Duration,
}

impl Patience {
    pub(crate) fn new(wait: Duration) -> Self {
        Self { left: wait }
    }

    /// The moment at which a wait that begins now must end.
    pub(crate) fn until(&self) -> Instant {
        Instant::now() + self.left
    }

    /// A wait that began at `began` is over.
    pub(crate) fn spent_since(&mut self, began: Instant) {
        self.left = self.left.saturating_sub(began.elapsed());
    }
}
