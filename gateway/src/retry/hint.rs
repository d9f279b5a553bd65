//! How long the vendor asked us to wait: its headers, its error body, its prose.
//!
//! Of several answers the largest that applies counts: a reset time applies only when its resource is used up, or a
//! limit of a day would hold back a call that one of a minute refused. Nothing is clamped here; who waits clamps.

use std::time::Duration;

use reqwest::header::HeaderMap;
use serde_json::Value;

use super::wait::{parse_ms, parse_wait, wait_in_prose};

/// Headers that name the wait itself.
const WAITS: [&str; 2] = ["retry-after", "x-dashscope-wait-time"];
const WAITS_MS: [&str; 2] = ["retry-after-ms", "x-ms-retry-after-ms"];

/// When a resource is full again, and what is left of it.
const RESETS: [(&str, &str); 14] = [
    ("x-ratelimit-reset-requests", "x-ratelimit-remaining-requests"),
    ("x-ratelimit-reset-tokens", "x-ratelimit-remaining-tokens"),
    ("x-ratelimit-reset-requests-minute", "x-ratelimit-remaining-requests-minute"),
    ("x-ratelimit-reset-tokens-minute", "x-ratelimit-remaining-tokens-minute"),
    ("x-ratelimit-reset-requests-hour", "x-ratelimit-remaining-requests-hour"),
    ("x-ratelimit-reset-tokens-hour", "x-ratelimit-remaining-tokens-hour"),
    ("x-ratelimit-reset-requests-day", "x-ratelimit-remaining-requests-day"),
    ("x-ratelimit-reset-tokens-day", "x-ratelimit-remaining-tokens-day"),
    ("anthropic-ratelimit-requests-reset", "anthropic-ratelimit-requests-remaining"),
    ("anthropic-ratelimit-tokens-reset", "anthropic-ratelimit-tokens-remaining"),
    ("anthropic-ratelimit-input-tokens-reset", "anthropic-ratelimit-input-tokens-remaining"),
    ("anthropic-ratelimit-output-tokens-reset", "anthropic-ratelimit-output-tokens-remaining"),
    ("x-ratelimit-reset", "x-ratelimit-remaining"),
    ("ratelimit-reset", "ratelimit-remaining"),
];

/// Phrases before a wait in an error message.
const PHRASES: [&str; 5] = ["try again in ", "retry in ", "retry after ", "reset after ", "resets in "];

/// The wait asked for by the headers of an error response received at `now_ms`.
pub(crate) fn hint_in_headers(headers: &HeaderMap, now_ms: u64) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok();
    let waits = WAITS.iter().filter_map(|name| parse_wait(text(name)?, now_ms));
    let waits_ms = WAITS_MS.iter().filter_map(|name| parse_ms(text(name)?));
    let resets = RESETS.iter().filter_map(|(reset, remaining)| {
        // Azure was seen to send -1.
        let is_used_up = text(remaining)?.trim().parse::<f64>().ok()? <= 0.0;
        is_used_up.then(|| parse_wait(text(reset)?, now_ms)).flatten()
    });
    waits.chain(waits_ms).chain(resets).max()
}

/// The wait asked for by an error body (the whole JSON) and its `message`.
pub(crate) fn hint_in_body(body: &Value, message: &str, now_ms: u64) -> Option<Duration> {
    let error = body.get("error").unwrap_or(body);
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    // Google: RetryInfo.retryDelay, and quotaResetDelay inside ErrorInfo.metadata. QuotaFailure names a period, no wait.
    let google = details.filter_map(|detail| {
        detail.get("retryDelay").or_else(|| detail.get("metadata")?.get("quotaResetDelay"))?.as_str()
    });
    let google = google.filter_map(|text| parse_wait(text, now_ms));
    // OpenRouter passes the headers of the vendor behind it on inside the body.
    let headers = error.get("metadata").and_then(|metadata| metadata.get("headers")).and_then(Value::as_object);
    let passed_on = headers.and_then(|headers| {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if let (Ok(name), Ok(value)) = (name.parse::<reqwest::header::HeaderName>(), value.parse()) {
                map.insert(name, value);
            }
        }
        hint_in_headers(&map, now_ms)
    });
    google.chain(passed_on).chain(hint_in_prose(message)).max()
}

fn hint_in_prose(message: &str) -> Option<Duration> {
    // Offsets of the lowered text are used on the lowered text only; units are read in any case.
    let message = message.to_lowercase();
    PHRASES.iter().filter_map(|phrase| wait_in_prose(message.split_once(phrase)?.1)).max()
}

#[cfg(test)]
mod tests {
    use reqwest::header::{HeaderName, HeaderValue};
    use serde_json::json;

    use super::*;

    /// 2026-11-03T10:00:00Z.
    const NOW_MS: u64 = 1_793_700_000_000;

    fn headers(pairs: &[(&'static str, &'static str)]) -> Option<u128> {
        let map = pairs
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect();
        hint_in_headers(&map, NOW_MS).map(|hint| hint.as_millis())
    }

    fn body(body: &Value) -> Option<u128> {
        let message = body.pointer("/error/message").and_then(Value::as_str).unwrap_or_default();
        hint_in_body(body, message, NOW_MS).map(|hint| hint.as_millis())
    }

    #[test]
    fn each_vendors_headers_are_read() {
        assert_eq!(headers(&[("retry-after", "2")]), Some(2_000), "everyone");
        assert_eq!(headers(&[("retry-after", "Tue, 03 Nov 2026 10:00:09 GMT")]), Some(9_000), "a date");
        assert_eq!(headers(&[("retry-after-ms", "1500"), ("retry-after", "1")]), Some(1_500), "Azure");
        assert_eq!(headers(&[("x-ms-retry-after-ms", "700")]), Some(700), "Azure, older");
        assert_eq!(headers(&[("x-dashscope-wait-time", "3")]), Some(3_000), "DashScope");
        assert_eq!(
            headers(&[("x-ratelimit-remaining-tokens", "0"), ("x-ratelimit-reset-tokens", "6m0s")]),
            Some(360_000),
            "OpenAI"
        );
        assert_eq!(
            headers(&[
                ("anthropic-ratelimit-input-tokens-remaining", "0"),
                ("anthropic-ratelimit-input-tokens-reset", "2026-11-03T10:00:30Z"),
            ]),
            Some(30_000),
            "Anthropic"
        );
        assert_eq!(
            headers(&[("x-ratelimit-remaining-requests-day", "0"), ("x-ratelimit-reset-requests-day", "33011.382867")]),
            Some(33_011_382),
            "Cerebras"
        );
        assert_eq!(
            headers(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1793700020000")]),
            Some(20_000),
            "OpenRouter"
        );
    }

    #[test]
    fn a_reset_of_a_resource_that_is_left_does_not_count() {
        let day_is_left = [
            ("x-ratelimit-remaining-requests", "14000"),
            ("x-ratelimit-reset-requests", "23h59m0s"),
            ("x-ratelimit-remaining-tokens", "-1"),
            ("x-ratelimit-reset-tokens", "7.66s"),
        ];
        assert_eq!(headers(&day_is_left), Some(7_660));
        assert_eq!(headers(&[("x-ratelimit-reset-requests", "23h59m0s")]), None);
        assert_eq!(headers(&[]), None);
    }

    #[test]
    fn each_vendors_body_is_read() {
        let google = json!({"error": {"code": 429, "message": "Quota exceeded. Please retry in 45.8s.", "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": "PerDay"}]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "45.837906927s"},
        ]}});
        assert_eq!(body(&google), Some(45_837));
        let reset = json!({"error": {"details": [{"metadata": {"quotaResetDelay": "373.801628ms"}}]}});
        assert_eq!(body(&reset), Some(373));
        let openai = json!({"error": {"message": "Rate limit reached. Please try again in 6m0s. Visit https://x"}});
        assert_eq!(body(&openai), Some(360_000));
        let open_router = json!({"error": {"code": 429, "message": "Rate limit exceeded", "metadata": {"headers": {
            "X-RateLimit-Limit": "20", "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1793700005000"}}}});
        assert_eq!(body(&open_router), Some(5_000));
        assert_eq!(body(&json!({"error": {"message": "limit; reset after 2m 13s"}})), Some(133_000));
        assert_eq!(body(&json!({"error": {"message": "slow down"}})), None);
    }
}
