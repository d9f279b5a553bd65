//! Errors, as vendors word them: in a status, or in a frame of a stream that began with 200.
//!
//! Bodies of OpenAI, Anthropic, Google (also as a one-element array), vLLM, `OpenRouter`, plain HTML and nothing at all are
//! read into one [`Trouble`]. Errors are rare, so this reads a JSON tree.

use std::time::Duration;

use penstock_protocol::clock::wall_ms;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;
use serde_json::Value;

use crate::Outcome;
use crate::retry::{hint_in_body, hint_in_headers};

/// Longest text of a vendor that is kept.
const MESSAGE_CHARS_MAX: usize = 500;

/// How vendors say that a request is longer than the model's context.
const TOO_LONG: [&str; 5] = [
    "maximum context length",
    "prompt is too long",
    "input token count",
    "exceeds the maximum number of tokens",
    "exceed context limit",
];

/// What went wrong with an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// As it would be judged before the first token.
    pub outcome: Outcome,
    /// Status of the response.
    pub status: Option<u16>,
    /// The vendor's code, type or status name.
    pub code: Option<Box<str>>,
    /// What happened, in the vendor's words where it had any.
    pub message: Box<str>,
    /// The wait that the vendor asked for.
    pub hint: Option<Duration>,
    /// The vendor said that a retry is useless (`x-should-retry: false`).
    pub is_retry_useless: bool,
}

impl Trouble {
    /// Trouble that no vendor reported.
    pub(crate) fn own(outcome: Outcome, message: impl Into<Box<str>>) -> Self {
        Self { outcome, status: None, code: None, message: message.into(), hint: None, is_retry_useless: false }
    }

    /// The exit is closed off for `wait`; nothing was sent.
    pub(crate) fn closed_off(outcome: Outcome, wait: Duration) -> Self {
        Self { hint: Some(wait), ..Self::own(outcome, "") }
    }
}

/// Reads a response whose status is not 2xx.
///
/// `is_quota_throttle`: this vendor (DashScope) says `insufficient_quota` when it means "slower".
pub(super) fn trouble_of_response(
    status: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
    is_quota_throttle: bool,
) -> Trouble {
    let now_ms = wall_ms();
    let said = Said::read(body);
    Trouble {
        outcome: said.outcome(Some(status.as_u16()), is_quota_throttle),
        status: Some(status.as_u16()),
        hint: hint_in_headers(headers, now_ms).max(said.hint(now_ms)),
        is_retry_useless: headers.get("x-should-retry").is_some_and(|value| value == "false"),
        message: said.message(),
        code: said.code,
    }
}

/// Reads an error frame of a stream that began with 200.
pub(super) fn trouble_of_frame(frame: &[u8], is_quota_throttle: bool) -> Trouble {
    let said = Said::read(frame);
    Trouble {
        outcome: said.outcome(None, is_quota_throttle),
        status: None,
        hint: said.hint(wall_ms()),
        is_retry_useless: false,
        message: said.message(),
        code: said.code,
    }
}

/// An error body, read.
struct Said {
    body: Value,
    /// Code, type and status name, lower case, for matching.
    words: Vec<String>,
    number: Option<u16>,
    code: Option<Box<str>>,
    text: String,
}

impl Said {
    fn read(body: &[u8]) -> Self {
        let mut json = serde_json::from_slice::<Value>(body).unwrap_or_default();
        if let Value::Array(items) = json {
            json = items.into_iter().next().unwrap_or_default();
        }
        let error = json.get("error").unwrap_or(&json);
        let member = |name: &str| error.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
        let code = member("code").or_else(|| member("type")).or_else(|| member("status"));
        let number = error.get("code").or_else(|| error.get("status")).and_then(|code| match code {
            Value::String(text) => text.parse().ok(),
            other => other.as_u64().and_then(|number| u16::try_from(number).ok()),
        });
        let text = member("message").or_else(|| member("detail")).or_else(|| error.as_str());
        // Google says in a detail why it refused, Anthropic that a spending limit was met.
        let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
        let reasons = details.filter_map(|detail| detail.get("reason")?.as_str());
        let error_code = error.pointer("/details/error_code").and_then(Value::as_str);
        let words = ["code", "type", "status"].into_iter().filter_map(member).chain(reasons).chain(error_code);
        Self {
            words: words.map(str::to_lowercase).collect(),
            number,
            code: code.map(|code| code.chars().take(MESSAGE_CHARS_MAX).collect::<String>().into()),
            text: text.map_or_else(|| plain(body), str::to_owned),
            body: json,
        }
    }

    fn message(&self) -> Box<str> {
        let text: String = self.text.chars().take(MESSAGE_CHARS_MAX).collect();
        if text.is_empty() { "the provider gave no reason".into() } else { text.into() }
    }

    fn hint(&self, now_ms: u64) -> Option<Duration> {
        hint_in_body(&self.body, &self.text, now_ms)
    }

    fn says(&self, words: &[&str]) -> bool {
        self.words.iter().any(|said| words.iter().any(|word| said.contains(word)))
    }

    /// Codes first, since vendors put several meanings into one status; then the status; of neither, a fault of theirs.
    fn outcome(&self, status: Option<u16>, is_quota_throttle: bool) -> Outcome {
        let is_quota = self.says(&["insufficient_quota"]);
        let is_out_of_money =
            self.says(&["insufficient_credits", "insufficient_balance", "billing", "arrearage", "spend_limit"])
                || self.text.to_lowercase().contains("credit balance is too low");
        // OpenRouter answers 403 when its moderation flagged the input.
        let is_moderated = self.says(&["content_filter", "content_policy", "moderation", "data_inspection"])
            || self.body.pointer("/error/metadata/flagged_input").is_some();
        if (is_quota && !is_quota_throttle) || is_out_of_money {
            return Outcome::PlanExhausted;
        }
        if is_moderated {
            return Outcome::Refused;
        }
        // Google answers 400 to a wrong key.
        if self.says(&["api_key_invalid"]) {
            return Outcome::Denied;
        }
        match status.or(self.number) {
            _ if is_quota => Outcome::RateLimited,
            Some(402) => Outcome::PlanExhausted,
            Some(429) => Outcome::RateLimited,
            Some(408 | 425 | 500..=599) => Outcome::Server,
            // A redirect means a wrong base URL: as useless as an unknown model.
            Some(300..=399 | 401 | 403 | 404) => Outcome::Denied,
            Some(400..=499) if self.is_context_too_long() => Outcome::ContextTooLong,
            Some(400..=499) => Outcome::Refused,
            None if self.is_context_too_long() => Outcome::ContextTooLong,
            _ => self.outcome_of_words(),
        }
    }

    /// Some vendors have a code for it, most have only words.
    fn is_context_too_long(&self) -> bool {
        let text = self.text.to_lowercase();
        self.says(&["context_length", "context_window"]) || TOO_LONG.iter().any(|words| text.contains(words))
    }

    fn outcome_of_words(&self) -> Outcome {
        if self.says(&["rate_limit", "too_many_requests", "resource_exhausted", "limit_requests", "limit_burst"]) {
            Outcome::RateLimited
        } else if self.says(&["authentication", "permission", "api_key", "not_found", "unauthenticated"]) {
            Outcome::Denied
        } else if self.says(&["invalid_request", "invalid_argument", "badrequest", "bad_request", "request_too_large"])
        {
            Outcome::Refused
        } else {
            Outcome::Server
        }
    }
}

/// The text of a body that is no JSON: of a load balancer's HTML, what stands between the tags.
fn plain(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(&body[..body.len().min(4 * MESSAGE_CHARS_MAX)]);
    if text.trim_start().starts_with(['{', '[']) {
        return String::new();
    }
    let mut is_tag = false;
    let kept: String = text
        .chars()
        .filter(|&c| {
            let was_tag = is_tag;
            is_tag = c == '<' || (is_tag && c != '>');
            !is_tag && !was_tag
        })
        .collect();
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests;
