//! Hedging over real HTTP: who serves, and that the loser's connection is closed.

use std::time::Duration;

use penstock_gateway::settings::Settings;

use crate::house::{House, hop, house_with, read, request, scope, text_and_rest};

const AFTER: Duration = Duration::from_millis(150);

/// A chain of two exits that the fake provider tells apart by their model names.
async fn hedging(first: &str, second: &str) -> House {
    let hops = vec![hop("fake", first), hop("fake", second)];
    house_with(|settings: &mut Settings| {
        settings.hedge_after = AFTER;
        settings.chains.insert("chain".into(), hops);
        settings.retry.attempts = 1;
    })
    .await
}

/// Asks without a behaviour in the message: the model names decide. Gives who served.
async fn served(house: &House) -> String {
    let stream = house.gateway.stream(&request("bom=0"), &scope()).await.unwrap();
    let model = stream.model().to_owned();
    let (chunks, failure) = read(stream).await;
    assert!(failure.is_none(), "{failure:?}");
    assert!(!text_and_rest(chunks).0.is_empty());
    model
}

#[tokio::test]
async fn a_silent_first_hop_is_hedged_and_its_connection_closed() {
    let house = hedging("a,stall=head", "b").await;
    assert_eq!(served(&house).await, "b");
    house.closed_by_caller(1).await;
    assert_eq!(house.stats().calls, 2);
    assert!(house.metrics().contains(r#"penstock_model_hedges_total{won="second"} 1"#), "{}", house.metrics());
}

#[tokio::test]
async fn a_first_hop_that_speaks_first_serves_and_the_hedge_is_closed() {
    let house = hedging("a,first_ms=400", "b,stall=head").await;
    assert_eq!(served(&house).await, "a,first_ms=400");
    house.closed_by_caller(1).await;
    assert!(house.metrics().contains(r#"penstock_model_hedges_total{won="first"} 1"#));
}

#[tokio::test]
async fn a_quick_answer_and_a_quick_failure_are_never_hedged() {
    let house = hedging("a", "b").await;
    assert_eq!(served(&house).await, "a");
    assert_eq!(house.stats().calls, 1);
    let house = hedging("a,status=500", "b").await;
    assert_eq!(served(&house).await, "b", "the chain itself goes on");
    assert_eq!(house.stats().calls, 2);
    assert!(!house.metrics().contains("penstock_model_hedges_total{"));
}

#[tokio::test]
async fn a_first_hop_that_fails_behind_its_hedge_does_not_ask_the_second_twice() {
    let house = hedging("a,first_byte_ms=400,status=500", "b,first_ms=900").await;
    assert_eq!(served(&house).await, "b,first_ms=900");
    assert_eq!(house.stats().calls, 2);
}

#[tokio::test]
async fn without_the_setting_nothing_is_hedged() {
    let house = hedging("a,first_ms=400", "b").await;
    let mut settings = crate::house::settings(&house.provider.base_url());
    settings.chains.insert("chain".into(), vec![hop("fake", "a,first_ms=400"), hop("fake", "b")]);
    house.gateway.reconfigure(&settings).unwrap();
    assert_eq!(served(&house).await, "a,first_ms=400");
    assert_eq!(house.stats().calls, 1);
}
