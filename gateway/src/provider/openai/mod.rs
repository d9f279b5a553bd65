//! OpenAI's chat completions, as OpenAI and the many servers that imitate it speak them.

mod answer;
mod body;
mod error;
mod frame;
mod usage;

pub(crate) use answer::{Answer, Progress};
pub(crate) use body::request_body;
pub(crate) use error::{Trouble, trouble_of_response};
