//! OpenAI's chat completions, as OpenAI and the many servers that imitate it speak them.

mod body;
mod frame;
mod message;
mod read;
mod request;
mod usage;

pub(crate) use body::request_body;
#[cfg(test)]
pub(crate) use frame::WireCall;
pub(super) use read::OpenAi;
pub use request::{InvalidRequest, OpenAiRequest};
