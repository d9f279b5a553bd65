use super::*;

fn answered(status: u16, body: &str) -> Trouble {
    trouble_of_response(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes(), false)
}

#[test]
fn every_vendors_body_gives_code_message_and_outcome() {
    for (status, body, outcome, code, message) in [
        (
            401,
            r#"{"error":{"message":"Incorrect API key","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
            Outcome::Denied,
            Some("invalid_api_key"),
            "Incorrect API key",
        ),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":"req_1"}"#,
            Outcome::Server,
            Some("overloaded_error"),
            "Overloaded",
        ),
        (
            429,
            r#"[{"error":{"code":429,"message":"Quota exceeded","status":"RESOURCE_EXHAUSTED","details":[]}}]"#,
            Outcome::RateLimited,
            Some("RESOURCE_EXHAUSTED"),
            "Quota exceeded",
        ),
        (
            400,
            r#"{"object":"error","message":"maximum context length is 4096","type":"BadRequestError","param":null,"code":400}"#,
            Outcome::ContextTooLong,
            Some("BadRequestError"),
            "maximum context length is 4096",
        ),
        (
            502,
            r#"{"error":{"code":502,"message":"Provider returned error","metadata":{"provider_name":"x"}}}"#,
            Outcome::Server,
            None,
            "Provider returned error",
        ),
        (
            503,
            "<html><head><title>503 Service Unavailable</title></head>\n<body>\n</body></html>",
            Outcome::Server,
            None,
            "503 Service Unavailable",
        ),
        (500, "", Outcome::Server, None, "the provider gave no reason"),
        (404, r#"{"detail":"Not Found"}"#, Outcome::Denied, None, "Not Found"),
        (400, r#"{"error":"no such model"}"#, Outcome::Refused, None, "no such model"),
    ] {
        let trouble = answered(status, body);
        assert_eq!(trouble.outcome, outcome, "{body}");
        assert_eq!(trouble.code.as_deref(), code, "{body}");
        assert_eq!(&*trouble.message, message, "{body}");
        assert_eq!(trouble.status, Some(status));
    }
}

#[test]
fn a_status_alone_is_judged() {
    for (status, outcome) in [
        (301, Outcome::Denied),
        (400, Outcome::Refused),
        (402, Outcome::PlanExhausted),
        (403, Outcome::Denied),
        (408, Outcome::Server),
        (409, Outcome::Refused),
        (413, Outcome::Refused),
        (422, Outcome::Refused),
        (429, Outcome::RateLimited),
        (500, Outcome::Server),
    ] {
        assert_eq!(answered(status, "").outcome, outcome, "{status}");
    }
}

#[test]
fn an_exhausted_plan_is_told_by_its_code_and_not_by_429() {
    let openai = r#"{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}"#;
    assert_eq!(answered(429, openai).outcome, Outcome::PlanExhausted);
    let dash_scope = trouble_of_response(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new(), openai.as_bytes(), true);
    assert_eq!(dash_scope.outcome, Outcome::RateLimited, "there the same code means tokens per minute");
    let gemini = r#"{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details","status":"RESOURCE_EXHAUSTED"}}"#;
    assert_eq!(answered(429, gemini).outcome, Outcome::RateLimited, "there the same words mean requests per minute");
    let anthropic = r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the API"}}"#;
    assert_eq!(answered(400, anthropic).outcome, Outcome::PlanExhausted);
}

#[test]
fn vendors_that_hide_their_meaning_behind_a_status_are_understood() {
    let spent = r#"{"type":"error","error":{"type":"rate_limit_error","message":"x","details":{"error_code":"enforced_spend_limit_reached"}}}"#;
    assert_eq!(answered(429, spent).outcome, Outcome::PlanExhausted);
    let wrong_key = r#"{"error":{"code":400,"message":"API key not valid","status":"INVALID_ARGUMENT","details":[{"@type":"x","reason":"API_KEY_INVALID"}]}}"#;
    assert_eq!(answered(400, wrong_key).outcome, Outcome::Denied);
    let overloaded = r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    assert_eq!(trouble_of_frame(overloaded.as_bytes(), false).outcome, Outcome::Server);
    let too_large = r#"{"type":"error","error":{"type":"request_too_large","message":"x"}}"#;
    assert_eq!(trouble_of_frame(too_large.as_bytes(), false).outcome, Outcome::Refused);
}

#[test]
fn moderation_is_the_requests_fault_whatever_its_status() {
    let body = r#"{"error":{"code":403,"message":"flagged","metadata":{"reasons":["x"],"flagged_input":"…"}}}"#;
    assert_eq!(answered(403, body).outcome, Outcome::Refused);
    assert_eq!(answered(400, r#"{"error":{"code":"content_filter","message":"x"}}"#).outcome, Outcome::Refused);
}

#[test]
fn a_frame_without_a_status_is_judged_by_its_words() {
    for (frame, outcome) in [
        (r#"{"error":{"message":"x","type":"rate_limit_error"}}"#, Outcome::RateLimited),
        (r#"{"error":{"message":"x","code":429}}"#, Outcome::RateLimited),
        (r#"{"error":{"message":"x","code":"502"}}"#, Outcome::Server),
        (r#"{"error":{"message":"x","type":"server_error"}}"#, Outcome::Server),
        (r#"{"error":{"message":"x","type":"invalid_request_error"}}"#, Outcome::Refused),
        (r#"{"error":{"message":"x","code":"invalid_api_key"}}"#, Outcome::Denied),
        (r#"{"object":"error","message":"x","code":400}"#, Outcome::Refused),
        (r#"{"error":"overloaded"}"#, Outcome::Server),
        ("not json", Outcome::Server),
    ] {
        assert_eq!(trouble_of_frame(frame.as_bytes(), false).outcome, outcome, "{frame}");
    }
}

#[test]
fn hints_of_headers_and_body_are_joined_and_the_largest_counts() {
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", "2".parse().unwrap());
    headers.insert("x-should-retry", "false".parse().unwrap());
    let body = br#"{"error":{"message":"Please try again in 5s."}}"#;
    let trouble = trouble_of_response(StatusCode::TOO_MANY_REQUESTS, &headers, body, false);
    assert_eq!(trouble.hint, Some(Duration::from_secs(5)));
    assert!(trouble.is_retry_useless);
}

#[test]
fn a_long_message_is_cut() {
    let body = format!(r#"{{"error":{{"message":"{}"}}}}"#, "ä".repeat(10_000));
    assert_eq!(answered(500, &body).message.chars().count(), MESSAGE_CHARS_MAX);
}
