//! When a failed attempt is tried again, and after how long.
//!
//! The verdict table says whether; [`hint`] reads what the vendor asked for, [`backoff`] fills in where it asked for nothing,
//! and [`budget`] bounds what a process adds to a provider in trouble.

mod backoff;
mod budget;
mod hint;
mod wait;

pub(crate) use backoff::{back_off, jitter_up};
pub(crate) use budget::RetryBudget;
pub(crate) use hint::{hint_in_body, hint_in_headers};
