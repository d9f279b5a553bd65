//! Tells the ends of tasks to webhooks.
//!
//! Doors and workers run it alike; nothing depends on a leader. A delivery stands in MySQL from the accept record on and
//! is looked at until its task has ended, so no end is lost (law 4). It is delivered at least once under a stable id,
//! signed as Standard Webhooks has it, and tried again with full jitter for a bounded time.
//!
//! * [`Deliverer::run`]: the loop: look, claim, deliver, settle.
//! * [`target`]: which targets may be reached, judged on the addresses that are connected to.
//! * [`signature`]: the headers.

mod back_off;
mod client;
mod deliverer;
mod delivery;
mod metrics;
mod payload;
pub mod signature;
pub mod target;

pub use deliverer::Deliverer;
pub use delivery::Try;
pub use metrics::WebhookMetrics;
pub use target::{Target, TargetError};
