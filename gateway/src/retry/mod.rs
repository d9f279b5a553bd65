//! When a failed attempt is tried again, and after how long.
//!
//! [`verdict`] says whether, [`hint`] reads what the vendor asked for, [`backoff`] fills in where it asked for nothing.

mod backoff;
mod hint;
mod verdict;
mod wait;

pub(crate) use backoff::{back_off, jitter_up};
pub(crate) use hint::{hint_in_body, hint_in_headers};
pub(crate) use verdict::{Again, same_hop_again};
