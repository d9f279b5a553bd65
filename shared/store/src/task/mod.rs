//! Table `task`: the accept record, the claim, the end, and what is read of them.

mod accept;
mod cancel;
mod claim;
mod dead;
mod disconnect;
mod end;
pub(crate) mod many;
mod old;
mod read;
mod row;

pub use accept::{Accepted, NewTask, NotBefore};
pub use claim::Claimed;
pub use dead::{DeadFilter, DeadPage};
pub use end::{End, Ended};
pub use old::OldTasks;
pub use read::{ListFilter, Page};
pub use row::TaskRow;

pub(crate) use accept::NewRow;
pub(crate) use claim::Claim;
pub(crate) use end::EndRow;
