//! What providers answer instead of an answer, and what never happens after it.

use std::time::Duration;

use penstock_gateway::{BuildError, Gateway, GatewayError, GatewayMetrics, ModelRequest, Outcome};
use penstock_protocol::ErrorCode;
use prometheus_client::registry::Registry;

use crate::house::{house, house_with, request, scope, settings};

#[tokio::test]
async fn each_failure_before_the_first_token_has_its_outcome_and_number_of_attempts() {
    for (behaviour, outcome, attempts) in [
        ("status=500", Outcome::Server, 2),
        ("status=503,shape=html", Outcome::Server, 2),
        ("status=529,shape=anthropic", Outcome::Server, 2),
        ("status=500,shape=empty", Outcome::Server, 2),
        ("status=502,shape=openrouter", Outcome::Server, 2),
        ("error=0", Outcome::Server, 2),
        ("error=0,shape=vllm", Outcome::Server, 2),
        ("cut=0", Outcome::Server, 2),
        ("eof=0", Outcome::Server, 2),
        ("garbage=0", Outcome::Undecodable, 2),
        ("chunks=0", Outcome::Empty, 2),
        ("status=429,retry_after_ms=10", Outcome::RateLimited, 2),
        ("status=429,shape=google_array,retry_after_ms=10", Outcome::RateLimited, 2),
        ("error=0,code=rate_limit_exceeded", Outcome::RateLimited, 2),
        ("status=429,code=insufficient_quota", Outcome::PlanExhausted, 1),
        ("status=402", Outcome::PlanExhausted, 1),
        ("status=401", Outcome::Denied, 1),
        ("status=403,shape=google", Outcome::Denied, 1),
        ("status=404,shape=vllm", Outcome::Denied, 1),
        ("status=302,shape=html", Outcome::Denied, 1),
        ("status=400,shape=vllm", Outcome::Refused, 1),
        ("status=409", Outcome::Refused, 1),
        ("status=413,shape=html", Outcome::Refused, 1),
        ("status=422", Outcome::Refused, 1),
        ("status=400,code=content_filter", Outcome::Refused, 1),
        ("status=400,code=context_length_exceeded", Outcome::ContextTooLong, 1),
    ] {
        let house = house().await;
        let (chunks, failure) = house.ask(behaviour).await;
        assert_eq!(chunks, [], "{behaviour}");
        let failure = failure.unwrap_or_else(|| panic!("{behaviour} was taken for an answer"));
        assert_eq!((failure.outcome, failure.attempts), (outcome, attempts), "{behaviour}");
        assert_eq!(house.stats().calls, u64::from(attempts), "{behaviour}");
        assert_eq!(house.counted(outcome.as_str()), u64::from(attempts), "{behaviour}");
        assert_eq!(house.counted("clean_end"), 0, "{behaviour}");
    }
}

#[tokio::test]
async fn what_breaks_after_the_first_token_keeps_what_came_and_is_not_tried_again() {
    for behaviour in [
        "cut=2",
        "eof=2",
        "garbage=2",
        "error=2",
        "error=2,shape=vllm",
        "cut=2,gap_ms=5",
        "eof=2,gap_ms=5",
        "garbage=2,gap_ms=5",
        "error=2,gap_ms=5",
        "tools=no_id,eof=1",
    ] {
        let house = house().await;
        let (chunks, failure) = house.ask(behaviour).await;
        let failure = failure.unwrap_or_else(|| panic!("{behaviour} was taken for an answer"));
        assert_eq!(failure.outcome, Outcome::Broken, "{behaviour}");
        assert_eq!(failure.code(), ErrorCode::ProviderError, "{behaviour}");
        let text = crate::house::text_and_rest(chunks).0;
        let expected = if behaviour.contains("tools") { "" } else { "[1 messages] hello word-1" };
        assert_eq!(text, expected, "{behaviour}");
        assert_eq!(house.stats().calls, 1, "{behaviour}");
        assert_eq!(house.counted("broken"), 1, "{behaviour}");
    }
}

#[tokio::test]
async fn a_rate_limit_in_the_middle_of_an_answer_holds_the_next_call_back() {
    let house = house().await;
    let (_, failure) = house.ask("error=2,code=rate_limit_exceeded").await;
    assert_eq!(failure.unwrap().outcome, Outcome::RateLimited);
    assert!(house.ask("instant").await.1.is_none());
    let calls = house.provider.calls(2);
    assert!(calls[1].at_ms - calls[0].at_ms >= 399, "{calls:?}");
}

#[tokio::test]
async fn a_provider_that_cannot_be_reached_is_tried_twice() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let house = house_with(|settings| {
        settings.providers.get_mut("fake").unwrap().endpoints[0].base_url = format!("http://{closed}/v1");
    })
    .await;
    let failure = house.ask("instant").await.1.unwrap();
    assert_eq!((failure.outcome, failure.attempts), (Outcome::Connect, 2));
    assert_eq!(failure.code(), ErrorCode::AllExitsDown);
    assert_eq!(house.counted("connect"), 2);
}

#[tokio::test]
async fn a_connection_that_does_not_open_is_given_up_by_its_own_timer() {
    // A listener whose backlog is full answers no further SYN.
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut held = Vec::new();
    while let Ok(connected) =
        tokio::time::timeout(Duration::from_millis(200), tokio::net::TcpStream::connect(address)).await
    {
        held.push(connected.unwrap());
        assert!(held.len() < 100, "the backlog does not fill");
    }
    let house = house_with(|settings| {
        settings.providers.get_mut("fake").unwrap().endpoints[0].base_url = format!("http://{address}/v1");
        settings.timers.connect = Duration::from_millis(100);
    })
    .await;
    let failure = house.ask("instant").await.1.unwrap();
    assert_eq!((failure.outcome, failure.attempts), (Outcome::Connect, 2));
}

#[tokio::test]
async fn an_error_says_who_failed_and_why_but_nothing_about_our_key() {
    let house = house().await;
    let refused = house.ask("status=400,code=invalid_value").await.1.unwrap();
    assert_eq!(refused.to_string(), "fake/m refused the request: the fake provider was asked to fail with 400");
    assert_eq!((refused.status, refused.code.as_deref()), (Some(400), Some("invalid_value")));
    let denied = house.ask("status=401").await.1.unwrap();
    assert_eq!(denied.to_string(), "fake/m refused the gateway's key or does not know the model");
    assert!(denied.message.contains("401"), "operators see the words: {}", denied.message);
}

#[tokio::test]
async fn an_unknown_chain_calls_nobody() {
    let house = house().await;
    let request = ModelRequest { chain: "missing".into(), ..request("instant") };
    let error = house.gateway.stream(&request, &scope()).await.err().unwrap();
    assert!(matches!(error, GatewayError::UnknownChain { .. }), "{error}");
    assert_eq!(house.stats().calls, 0);
}

#[test]
fn settings_that_name_nothing_are_refused() {
    let build = |change: &dyn Fn(&mut penstock_gateway::Settings)| {
        let mut settings = settings("http://127.0.0.1:1/v1");
        change(&mut settings);
        Gateway::new(&settings, GatewayMetrics::register(&mut Registry::default())).err()
    };
    assert!(build(&|_| {}).is_none());
    let error = build(&|settings| settings.providers.clear()).unwrap();
    assert!(matches!(error, BuildError::UnknownProvider { .. }), "{error}");
    let error = build(&|settings| settings.chains.get_mut("chain").unwrap().clear()).unwrap();
    assert!(matches!(error, BuildError::EmptyChain { .. }), "{error}");
    for base_url in ["", "api.openai.com/v1", "ftp://x/v1"] {
        let error =
            build(&|settings| settings.providers.get_mut("fake").unwrap().endpoints[0].base_url = base_url.into())
                .unwrap();
        assert!(matches!(error, BuildError::BaseUrl { .. }), "{error}");
    }
    let error = build(&|settings| {
        settings.providers.get_mut("fake").unwrap().api_key = Some("sk\n".to_owned().into());
    });
    assert!(matches!(error, Some(BuildError::ApiKey { .. })));
}
