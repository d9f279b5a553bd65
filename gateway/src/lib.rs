//! The model gateway: every model call of Penstock goes through here and nowhere else.
//!
//! [`Gateway::stream`] takes a [`ModelRequest`] and gives a [`ModelStream`] once the first token is there. What a vendor's
//! wire looks like is known below `provider` only; what an outcome means, in the verdict table only; and only the client
//! factory builds HTTP clients.

mod attempt;
pub mod breaker;
mod cache;
mod call;
mod chunk;
mod client;
mod content;
mod endpoint;
mod error;
mod exit;
mod fields;
mod gate;
mod gateway;
mod hedge;
mod hop;
mod message;
mod metrics;
mod model_stream;
mod outcome;
mod patience;
mod provider;
mod request;
mod retry;
mod route;
pub mod settings;
mod sse;
mod stream;
mod tenant;
mod tool;
mod tool_call;
mod verdict;

pub use chunk::{FinishReason, ModelChunk};
pub use client::install_tls_provider;
pub use content::{Content, Image, ImageSource, Part};
pub use error::{BuildError, CallFailed, GatewayError};
pub use fields::Fields;
pub use gateway::{BreakerReport, CallScope, Gateway};
pub use message::{ChatMessage, Reasoning, Said};
pub use metrics::GatewayMetrics;
pub use model_stream::{ModelStream, Origin};
pub use outcome::Outcome;
pub use provider::{InvalidRequest, OpenAiRequest};
pub use request::ModelRequest;
pub use settings::{Exit, Settings};
pub use stream::Fallback;
pub use tool::{FunctionTool, ResponseFormat, Tool, ToolChoice};
pub use tool_call::ToolCall;
