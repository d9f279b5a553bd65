//! Wire dialects: how a request is written and how an answer and an error are read.
//!
//! A dialect is a folder: it writes a body and reads events into the one [`turn::Turn`]. Framing, bounds and what counts as a
//! whole answer are the same for all ([`answer`]), and so is the reading of errors ([`trouble`]), since vendors borrow each
//! other's words.

mod answer;
mod anthropic;
mod gemini;
pub(crate) mod openai;
mod trouble;
mod turn;

use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue};
use secrecy::{ExposeSecret, SecretString};

pub(crate) use answer::{Answer, Progress};
pub use openai::{InvalidRequest, OpenAiRequest};
pub(crate) use trouble::Trouble;

use crate::settings::{AnswerBounds, Exit};
use crate::{Fields, ModelRequest};

const ANTHROPIC_VERSION: (HeaderName, HeaderValue) =
    (HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01"));

/// How a provider is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Chat completions, as `OpenAI` and the many servers that imitate it speak them.
    Openai,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's `generateContent`.
    Gemini,
}

impl Dialect {
    /// Where calls of `model` go.
    pub(crate) fn url(self, base_url: &str, model: &str) -> String {
        let base = base_url.trim_end_matches('/');
        match self {
            Self::Openai => format!("{base}/chat/completions"),
            Self::Anthropic => format!("{base}/messages"),
            Self::Gemini => format!("{base}/models/{model}:streamGenerateContent?alt=sse"),
        }
    }

    /// What every call carries. Errors: the key cannot stand in a header.
    pub(crate) fn headers(self, key: Option<&SecretString>) -> Result<HeaderMap, InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let secret = |value: &str| {
            HeaderValue::from_str(value).map(|mut value| {
                value.set_sensitive(true);
                value
            })
        };
        let key = key.map(ExposeSecret::expose_secret);
        match (self, key) {
            (Self::Openai, Some(key)) => _ = headers.insert(AUTHORIZATION, secret(&format!("Bearer {key}"))?),
            (Self::Anthropic, Some(key)) => _ = headers.insert("x-api-key", secret(key)?),
            (Self::Gemini, Some(key)) => _ = headers.insert("x-goog-api-key", secret(key)?),
            (_, None) => {}
        }
        if self == Self::Anthropic {
            headers.insert(ANTHROPIC_VERSION.0, ANTHROPIC_VERSION.1);
        }
        Ok(headers)
    }

    /// The JSON body that asks `exit` for a streamed answer with usage.
    ///
    /// `options` are the exit's own members, in the vendor's terms: they win over the request's, and one that is `null` takes
    /// the member away.
    pub(crate) fn request_body(
        self,
        request: &ModelRequest,
        exit: &Exit,
        options: &Fields,
    ) -> Result<Bytes, serde_json::Error> {
        match self {
            Self::Openai => openai::request_body(request, exit, options),
            Self::Anthropic => anthropic::request_body(request, exit, options),
            Self::Gemini => gemini::request_body(request, exit, options),
        }
        .map(Bytes::from)
    }

    /// A reader of an answer whose content type is `content_type`. `is_quota_throttle`: this vendor says
    /// `insufficient_quota` when it means "slower".
    pub(crate) fn answer(self, content_type: &str, is_quota_throttle: bool, bounds: AnswerBounds) -> Answer {
        Answer::new(self, content_type, is_quota_throttle, bounds)
    }

    /// Reads a response whose status is not 2xx.
    pub(crate) fn trouble(
        self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        is_quota_throttle: bool,
    ) -> Trouble {
        trouble::trouble_of_response(status, headers, body, is_quota_throttle)
    }
}

/// Members of OpenAI's requests that another vendor has no place for, or another name. What is in no list passes through.
const OPENAI_ONLY: [&str; 31] = [
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "metadata",
    "modalities",
    "moderation",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "top_logprobs",
    "user",
    "verbosity",
    "web_search_options",
    "model",
];
