//! Wire dialects, one folder each: how a request is written and how an answer and an error are read.
//!
//! [`Dialect`] is the one place that knows which dialect is whose; everything outside this folder asks it.

mod openai;

use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, InvalidHeaderValue};
use secrecy::{ExposeSecret, SecretString};

pub(crate) use self::openai::{Answer, Progress, Trouble};
use crate::{ChatMessage, Fields};

/// How a provider is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Chat completions, as `OpenAI` and the many servers that imitate it speak them.
    Openai,
}

/// A request as one hop gets it.
pub(crate) struct Outgoing<'a> {
    /// The vendor's name of the model.
    pub(crate) model: &'a str,
    pub(crate) messages: &'a [ChatMessage],
    /// The caller's members, changed as the hop wants them.
    pub(crate) fields: &'a Fields,
    /// Whether the prompt is marked for the vendor's cache.
    pub(crate) has_cache_markers: bool,
}

impl Dialect {
    /// Where calls of `model` go.
    pub(crate) fn url(self, base_url: &str, _model: &str) -> String {
        let base_url = base_url.trim_end_matches('/');
        match self {
            Self::Openai => format!("{base_url}/chat/completions"),
        }
    }

    /// What every call carries. Errors: the key cannot stand in a header.
    pub(crate) fn headers(self, api_key: Option<&SecretString>) -> Result<HeaderMap, InvalidHeaderValue> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(key) = api_key {
            let (name, text) = match self {
                Self::Openai => (AUTHORIZATION, format!("Bearer {}", key.expose_secret())),
            };
            let mut value = HeaderValue::from_str(&text)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(headers)
    }

    /// The body that asks for a streamed answer with usage.
    pub(crate) fn body(self, outgoing: &Outgoing<'_>) -> Result<Bytes, serde_json::Error> {
        match self {
            Self::Openai => openai::request_body(outgoing),
        }
    }

    /// A reader of an answer whose content type is `content_type`. `is_quota_throttle`: this vendor says
    /// `insufficient_quota` when it means "slower".
    pub(crate) fn answer(self, content_type: &str, is_quota_throttle: bool) -> Answer {
        match self {
            Self::Openai => Answer::new(content_type, is_quota_throttle),
        }
    }

    /// Reads a response whose status is not 2xx.
    pub(crate) fn trouble(
        self,
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        is_quota_throttle: bool,
    ) -> Trouble {
        match self {
            Self::Openai => openai::trouble_of_response(status, headers, body, is_quota_throttle),
        }
    }
}
