//! Why a step of recovery was not finished. Each step may be repeated, so callers log it and come back.

use penstock_queue::QueueError;
use penstock_store::StoreError;

/// A step that stopped.
#[derive(Debug, thiserror::Error)]
pub enum RecoveryError {
    /// Redis did not answer.
    #[error(transparent)]
    Queue(#[from] QueueError),
    /// MySQL did not answer.
    #[error(transparent)]
    Store(#[from] StoreError),
}
