//! What loads and judges a running Penstock. The fake provider is a library, so that tests can hold one in their own
//! process.

pub mod client;
pub mod fake;
pub mod throughput;
