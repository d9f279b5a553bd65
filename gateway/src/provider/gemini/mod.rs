//! Google's `generateContent`, streamed.
//!
//! Differences that matter: the model stands in the URL, the answer has no end mark (a finish reason and the end of the
//! body), calls come whole and often without ids, results name their function, and calls carry a signature that must
//! come back.

mod body;
mod message;
mod read;

pub(super) use body::request_body;
pub(super) use read::Gemini;
