//! The agent loop: builds the conversation, calls the model, streams the answer.
//!
//! The loop ends in an [`Outcome`]; storing and publishing it is `claim`'s business. Tools come into the loop here.

mod account;
mod output;
mod run;
mod transcript;
mod turn;

pub(crate) use account::Account;
pub(crate) use output::{LastEvent, Output};
pub(crate) use run::{Outcome, out_of_time, run};
