//! Anthropic's Messages.
//!
//! Differences that matter: instructions stand apart, roles alternate, results of tools are the user's, an output cap is
//! required, input counts leave out what a cache gave, and reasoning carries a signature that must come back.

mod body;
mod event;
mod message;
mod read;
mod usage;

pub(super) use body::request_body;
pub(super) use read::Anthropic;
