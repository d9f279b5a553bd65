//! Chains over real HTTP: when a call goes to the next hop, what it carries there, and when it does not go.

use std::time::Duration;

use penstock_gateway::breaker::BreakerState;
use penstock_gateway::settings::{Endpoint, Exit, Hop, HopOptions, Model, RetryBudgetSettings};
use penstock_gateway::{Fallback, Fields, FunctionTool, GatewayError, ModelRequest, Outcome, Tool};
use penstock_loadtest::fake::{FakeProvider, Script};
use penstock_protocol::ErrorCode;
use serde_json::Value;
use tokio::time::Instant;

use crate::house::{House, Scripted, failed, hop, read, request, scope, scripted};

/// A chain of `a`, `b` and `c` at one provider; those that the script does not name answer.
async fn chain(script: &[Scripted<'_>], change: impl FnOnce(&mut penstock_gateway::Settings)) -> House {
    scripted(script, |settings| {
        settings.chains.insert("chain".into(), ["a", "b", "c"].map(|model| hop("fake", model)).to_vec());
        settings.retry.attempts = 1;
        change(settings);
    })
    .await
}

fn model(name: &str) -> Exit {
    Exit { provider: "fake".into(), model: name.into() }
}

fn tool() -> Tool {
    Tool::Function(FunctionTool { name: "f".into(), ..FunctionTool::default() })
}

impl House {
    /// Who serves, and whether it is another than the first.
    async fn served(&self, request: &ModelRequest) -> (String, Option<Fallback>) {
        let stream = self.gateway.stream(request, &scope()).await.unwrap();
        let served = (stream.model().to_owned(), stream.fallback().cloned());
        assert!(read(stream).await.1.is_none());
        served
    }

    fn called(&self, model: &str) -> u64 {
        self.stats().by_model.get(model).copied().unwrap_or(0)
    }
}

#[tokio::test]
async fn a_call_goes_to_the_next_hop_and_the_next_call_comes_back_to_the_first() {
    for (behaviour, reason) in [
        ("status=500", Outcome::Server),
        ("stall=head", Outcome::FirstToken),
        ("cut=0", Outcome::Server),
        ("error=0", Outcome::Server),
        ("garbage=0", Outcome::Undecodable),
        ("chunks=0", Outcome::Empty),
        ("status=429,retry_after_ms=1", Outcome::RateLimited),
    ] {
        let house = chain(&[Scripted { model: "a", behaviours: &[behaviour, "instant"] }], |settings| {
            settings.timers.first_token = Duration::from_secs(1);
        })
        .await;
        let fallback = Some(Fallback { from: "fake/a".into(), reason });
        assert_eq!(house.served(&request("")).await, ("b".into(), fallback), "{behaviour}");
        assert_eq!(house.served(&request("")).await, ("a".into(), None), "{behaviour}");
        let counted =
            format!(r#"penstock_model_fallbacks_total{{from="fake/a",to="fake/b",reason="{}"}} 1"#, reason.as_str());
        assert!(house.metrics().contains(&counted), "{counted}");
    }
}

#[tokio::test]
async fn after_the_first_token_no_other_hop_is_asked() {
    for behaviour in ["cut=2,gap_ms=5", "error=2", "eof=2", "stall=2"] {
        let house = chain(&[Scripted { model: "a", behaviours: &[behaviour] }], |settings| {
            settings.timers.idle = Duration::from_millis(200);
        })
        .await;
        let failure = house.ask("").await.1.unwrap();
        assert_eq!((failure.outcome, house.called("b")), (Outcome::Broken, 0), "{behaviour}");
    }
}

#[tokio::test]
async fn a_request_at_fault_is_asked_nowhere_else() {
    let house = chain(&[Scripted { model: "a", behaviours: &["status=400"] }], |_| {}).await;
    assert_eq!(house.ask("").await.1.unwrap().outcome, Outcome::Refused);
    assert_eq!((house.called("a"), house.called("b")), (1, 0));
}

#[tokio::test]
async fn a_request_too_long_goes_only_where_the_context_is_larger() {
    let too_long = [Scripted { model: "a", behaviours: &["status=400,code=context_length_exceeded"] }];
    let context = |tokens| Model { context_tokens: Some(tokens), ..Model::default() };
    let house = chain(&too_long, |settings| {
        settings.models =
            [("a", 1_000), ("b", 1_000), ("c", 2_000)].map(|(name, tokens)| (model(name), context(tokens))).into();
    })
    .await;
    assert_eq!(house.served(&request("")).await.0, "c");
    assert_eq!(house.called("b"), 0);
    let house = chain(&too_long, |settings| {
        settings.models = [("a", 9), ("b", 9), ("c", 9)].map(|(name, tokens)| (model(name), context(tokens))).into();
    })
    .await;
    let failure = house.ask("").await.1.unwrap();
    assert_eq!((failure.outcome, house.stats().calls), (Outcome::ContextTooLong, 1));
}

#[tokio::test]
async fn the_second_hop_gets_the_body_that_belongs_to_it() {
    let house = chain(&[Scripted { model: "a", behaviours: &["status=500"] }], |settings| {
        let options = |set: &str, drop: &[&str], has_cache_markers| HopOptions {
            set: serde_json::from_str(set).unwrap(),
            drop: drop.iter().map(|name| (*name).to_owned()).collect(),
            has_cache_markers,
        };
        let first = options(r#"{"thinking":{"type":"enabled"},"temperature":1}"#, &[], true);
        let second = options(r#"{"top_k":5,"enable_thinking":false}"#, &["reasoning_effort"], false);
        settings.chains.insert(
            "chain".into(),
            vec![Hop { exit: model("a"), options: first }, Hop { exit: model("b"), options: second }],
        );
    })
    .await;
    let fields: Fields = serde_json::from_str(r#"{"temperature":0.2,"reasoning_effort":"low","seed":7}"#).unwrap();
    house.served(&ModelRequest { fields, ..request("") }).await;
    let bodies: Vec<Value> =
        house.provider.calls(2).iter().map(|call| serde_json::from_str(call.body.get()).unwrap()).collect();
    let [first, second] = &bodies[..] else { panic!("{bodies:?}") };
    assert_eq!((&first["model"], &second["model"]), (&"a".into(), &"b".into()));
    assert_eq!((&first["temperature"], &first["thinking"]["type"]), (&1.into(), &"enabled".into()));
    assert_eq!((&first["reasoning_effort"], &first["seed"]), (&"low".into(), &7.into()));
    assert!(first["messages"].to_string().contains("cache_control"));
    assert_eq!((&second["temperature"], &second["top_k"], &second["seed"]), (&0.2.into(), &5.into(), &7.into()));
    assert_eq!(second["enable_thinking"], false);
    for foreign in ["thinking", "reasoning_effort"] {
        assert!(second.get(foreign).is_none(), "{second}");
    }
    assert!(!second["messages"].to_string().contains("cache_control"), "{second}");
}

#[tokio::test]
async fn a_hop_that_cannot_do_what_is_needed_is_passed_over_and_one_nobody_knows_is_used() {
    let house = chain(&[], |settings| {
        settings.models.insert(model("a"), Model { tools: Some(false), ..Model::default() });
    })
    .await;
    let with_tools = ModelRequest { tools: vec![tool()], ..request("tools=indexed") };
    let (server, fallback) = house.served(&with_tools).await;
    assert_eq!((server.as_str(), fallback.unwrap().reason), ("b", Outcome::NotCapable));
    assert_eq!(house.called("a"), 0);
    assert_eq!(house.served(&request("")).await, ("a".into(), None), "what is not needed strikes nobody");
}

#[tokio::test]
async fn a_chain_that_cannot_do_it_says_so_and_calls_nobody() {
    let house = chain(&[], |settings| {
        settings.models =
            ["a", "b", "c"].map(|name| (model(name), Model { tools: Some(false), ..Model::default() })).into();
    })
    .await;
    let error =
        house.gateway.stream(&ModelRequest { tools: vec![tool()], ..request("") }, &scope()).await.err().unwrap();
    assert_eq!((error.code(), error.retry_in()), (ErrorCode::ProviderError, None));
    assert!(error.to_string().contains("cannot do what the request needs: tools"), "{error}");
    assert_eq!(house.stats().calls, 0);
}

#[tokio::test]
async fn an_exit_without_plan_or_key_is_left_alone_for_a_while() {
    for (behaviour, reason) in [
        ("status=402", Outcome::PlanExhausted),
        ("status=429,code=insufficient_quota", Outcome::PlanExhausted),
        ("status=401", Outcome::Denied),
        ("status=403", Outcome::Denied),
        ("status=404", Outcome::Denied),
    ] {
        let house = chain(&[Scripted { model: "a", behaviours: &[behaviour, "instant"] }], |_| {}).await;
        assert_eq!(house.served(&request("")).await.1.unwrap().reason, reason, "{behaviour}");
        for _ in 0..3 {
            assert_eq!(house.served(&request("")).await.1.unwrap().reason, Outcome::Parked, "{behaviour}");
        }
        assert_eq!((house.called("a"), house.called("b")), (1, 4), "{behaviour}");
        let parked_ms = house.reports_of("fake/a")[0].parked_ms.unwrap();
        let expected_ms = if reason == Outcome::Denied { 60_000 } else { 300_000 };
        assert!((expected_ms - 20_000..=expected_ms).contains(&parked_ms), "{behaviour}: {parked_ms}");
    }
}

#[tokio::test]
async fn a_rate_limit_is_waited_out_within_the_wait_budget_and_then_left_for_the_next_hop() {
    let limited = [Scripted { model: "a", behaviours: &["status=429,retry_after_ms=300", "instant"] }];
    let house = chain(&limited, |settings| settings.retry.attempts = 2).await;
    assert_eq!(house.served(&request("")).await, ("a".into(), None), "the hint fits");
    let limited = [Scripted { model: "a", behaviours: &["status=429,retry_after_ms=3000", "instant"] }];
    let house = chain(&limited, |settings| {
        settings.retry.attempts = 2;
        settings.retry.wait = Duration::from_millis(100);
    })
    .await;
    assert_eq!(house.served(&request("")).await.0, "b", "the hint is longer than the patience");
    let began = Instant::now();
    assert_eq!(house.served(&request("")).await.1.unwrap().reason, Outcome::NoPermit, "the gate is still pushed back");
    assert!(began.elapsed() >= Duration::from_millis(100));
    let mut patient = scope();
    patient.wait = Some(Duration::from_secs(8));
    let stream = house.gateway.stream(&request(""), &patient).await.unwrap();
    assert_eq!(stream.model(), "a", "the caller's own patience counts");
}

#[tokio::test]
async fn a_caller_who_waits_only_so_long_is_told_when_to_come_back() {
    let house = scripted(&[Scripted { model: "m", behaviours: &["status=429,retry_after_ms=900"] }], |_| {}).await;
    let mut hasty = scope();
    hasty.wait = Some(Duration::from_millis(100));
    let failure = failed(house.gateway.stream(&request(""), &hasty).await.err().unwrap());
    assert_eq!((failure.outcome, failure.attempts), (Outcome::RateLimited, 1));
    assert_eq!(failure.retry_after, Some(Duration::from_millis(900)));
}

#[tokio::test]
async fn when_every_hop_fails_the_last_failure_is_told_with_all_attempts() {
    let script = ["a", "b", "c"].map(|model| Scripted { model, behaviours: &["status=500"] });
    let house = chain(&script, |settings| settings.retry.attempts = 2).await;
    let failure = failed(house.gateway.stream(&request(""), &scope()).await.err().unwrap());
    assert_eq!((failure.outcome, failure.attempts, &*failure.model), (Outcome::Server, 6, "c"));
    assert_eq!((failure.code(), house.stats().calls), (ErrorCode::AllExitsDown, 6));
}

#[tokio::test]
async fn when_every_hop_is_closed_off_the_nearest_opening_is_told() {
    let script = ["a", "b", "c"].map(|model| Scripted { model, behaviours: &["status=500"] });
    let house = chain(&script, |settings| {
        settings.breaker.failures = 1;
        settings.breaker.cool_down = Duration::from_secs(20);
    })
    .await;
    house.ask("").await;
    let error = house.gateway.stream(&request(""), &scope()).await.err().unwrap();
    let GatewayError::AllExitsDown { retry_after, .. } = error else { panic!("{error}") };
    assert!((10..=20).contains(&retry_after.as_secs()), "{retry_after:?}");
    assert_eq!(house.stats().calls, 3);
}

#[tokio::test]
async fn a_dead_endpoint_costs_no_call_and_soon_gets_none() {
    let healthy = FakeProvider::start(Script::default()).await.unwrap();
    let house = scripted(&[Scripted { model: "m", behaviours: &["status=500"] }], |settings| {
        let provider = settings.providers.get_mut("fake").unwrap();
        provider.endpoints[0].label = "dead".into();
        let (label, base_url) = ("healthy".into(), healthy.base_url());
        provider.endpoints.push(Endpoint { label, base_url, weight: 1 });
        settings.breaker.failures = 5;
    })
    .await;
    for _ in 0..20 {
        assert!(house.ask("").await.1.is_none(), "the second attempt goes to the other endpoint");
    }
    assert_eq!((house.stats().calls, healthy.stats().calls), (5, 20));
    let states: Vec<_> = house.reports_of("fake/m").iter().map(|report| report.breaker.state).collect();
    assert_eq!(states, [BreakerState::Tripped, BreakerState::Closed]);
}

#[tokio::test]
async fn calls_go_to_the_least_busy_endpoint_by_weight() {
    let second = FakeProvider::start(Script::default()).await.unwrap();
    let house = scripted(&[], |settings| {
        let provider = settings.providers.get_mut("fake").unwrap();
        let (label, base_url) = ("second".into(), second.base_url());
        provider.endpoints.push(Endpoint { label, base_url, weight: 3 });
    })
    .await;
    let streams: Vec<_> = futures_util::future::join_all((0..40).map(|_| house.open("chunks=100000,gap_ms=50"))).await;
    assert!(streams.iter().all(Result::is_ok));
    assert_eq!((house.stats().in_flight, second.stats().in_flight), (10, 30));
}

#[tokio::test]
async fn a_model_may_have_timers_of_its_own() {
    let slow = [
        Scripted { model: "a", behaviours: &["first_ms=600"] },
        Scripted { model: "b", behaviours: &["first_ms=600"] },
    ];
    let house = chain(&slow, |settings| {
        settings.timers.first_token = Duration::from_millis(200);
        settings.models.insert(model("b"), Model { first_token: Some(Duration::from_secs(5)), ..Model::default() });
    })
    .await;
    let (server, fallback) = house.served(&request("")).await;
    assert_eq!((server.as_str(), fallback.unwrap().reason), ("b", Outcome::FirstToken));
    house.closed_by_caller(1).await;
}

#[tokio::test]
async fn second_attempts_are_a_share_of_all_calls() {
    let house = scripted(&[Scripted { model: "m", behaviours: &["status=500"] }], |settings| {
        settings.retry.budget = RetryBudgetSettings { percent: 10, per_second: 0, burst: 3 };
    })
    .await;
    for _ in 0..40 {
        house.ask("").await;
    }
    let second = house.stats().calls - 40;
    assert!((6..=7).contains(&second), "3 saved up, and a tenth of 40: {second}");
}

#[tokio::test]
async fn the_time_box_holds_over_all_hops() {
    let script = ["a", "b", "c"].map(|model| Scripted { model, behaviours: &["stall=head"] });
    let house = chain(&script, |settings| {
        settings.timers.first_token = Duration::from_millis(400);
        settings.retry.time_box = Duration::from_millis(600);
    })
    .await;
    let failure = failed(house.gateway.stream(&request(""), &scope()).await.err().unwrap());
    assert_eq!((failure.outcome, &*failure.model), (Outcome::TimeBox, "b"));
    assert_eq!(house.called("c"), 0);
    house.closed_by_caller(2).await;
}
