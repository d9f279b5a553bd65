//! Every SQL statement of Penstock. MySQL keeps the truth; the end of a task is one conditional UPDATE here (law 4).
//!
//! Writes of one kind that wait together share one statement and so one commit (`batch`): durability does not cost
//! throughput. Written for MySQL 8 and MariaDB 10.11; statements are static text made of static parts.

mod batch;
mod error;
#[cfg(feature = "fixture")]
pub mod fixture;
mod key;
mod pause;
mod pool;
mod repeat;
mod schedule;
mod task;
mod tenant;
mod webhook;

pub use error::StoreError;
pub use key::{KeyRow, NewKey};
pub use pause::{PauseRow, Paused};
pub use pool::Store;
pub use schedule::{FireRecord, ScheduleDue, ScheduleRow, ScheduleStatus, ScheduleWrite};
pub use task::{
    Accepted, Claimed, DeadFilter, DeadPage, End, Ended, ListFilter, NewTask, NotBefore, OldTasks, Page, TaskRow,
};
pub use tenant::{Bound, TenantRow, TermsChange};
pub use webhook::{NewWebhook, WebhookDue, WebhookRow, WebhookSecrets, WebhookSettle, WebhookTenantRow};
