//! What every Penstock process must agree on, and nothing else: ids, statuses, the task envelope, AG-UI events, codes.
//!
//! No I/O happens here. A thing belongs in this crate only if two processes would contradict each other by
//! disagreeing about it.

pub mod clock;
mod code;
mod ending;
pub mod event;
mod id;
pub mod message;
mod open_items;
mod place;
mod status;
mod task;
mod usage;

pub use code::ErrorCode;
pub use ending::{Ending, answer};
pub use event::{Event, EventId};
pub use id::{IdError, TaskId, TaskKey, TenantNo, ThreadId};
pub use open_items::OpenItems;
pub use place::{Place, PlaceSource};
pub use status::Status;
pub use task::{Input, RetryWish, TaskSpec};
pub use usage::TokenUsage;
