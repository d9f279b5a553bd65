//! Model chains through the whole house: what a client sees of a switch, and what an operator's order does.

use std::time::Duration;

use serde_json::Value;

use crate::house::{House, Plan};

const SOON: Duration = Duration::from_secs(20);

/// The switches that a stream tells of.
fn switches(events: &[Value]) -> Vec<&Value> {
    let is_switch = |event: &&Value| event["type"] == "CUSTOM" && event["name"] == "penstock.model_fallback";
    events.iter().filter(is_switch).map(|event| &event["value"]).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_is_told_before_the_other_models_first_word_and_kept_in_the_row() {
    let house = House::build(Plan::default()).await;
    let client = house.client();
    let task = client.submit("backup", "hello").await;
    let followed = client.follow(task, SOON).await;
    assert_eq!(followed.end()["outcome"]["type"], "success", "{:#?}", followed.end());
    let [switch] = switches(&followed.events)[..] else { panic!("{:#?}", followed.events) };
    assert_eq!((&switch["from"], &switch["to"]), (&"fake/down,status=503".into(), &"fake/instant".into()));
    assert_eq!((&switch["reason"], &switch["attempt"]), (&"server".into(), &3.into()));
    let place = |kind: &str| followed.events.iter().position(|event| event["type"] == kind).unwrap();
    assert!(place("CUSTOM") < place("TEXT_MESSAGE_START"));
    assert_eq!(client.read(task).await["model"], "fake/instant");
    house.take_down().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operators_order_reaches_every_worker_and_ends_when_it_is_released() {
    let house = House::build(Plan::default().workers(2)).await;
    let client = house.client();
    let lines = |house: &House, word: &str| {
        house.command(&["breaker", "list"]).lines().filter(|line| line.contains(word)).count()
    };
    let until = async |word: &str, count: usize| {
        let deadline = tokio::time::Instant::now() + SOON;
        while lines(&house, word) != count {
            assert!(tokio::time::Instant::now() < deadline, "{word}: {}", house.command(&["breaker", "list"]));
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    until("fake/steady\tdefault\tclosed", 2).await;
    assert!(house.command(&["breaker", "trip", "fake/steady", "--for", "600"]).contains("held tripped for 600 s"));
    until("fake/steady\tdefault\ttripped", 2).await;
    assert_eq!(lines(&house, "operator"), 2, "of no other exit");
    let followed = client.follow(client.submit("pair", "hello").await, SOON).await;
    let [switch] = switches(&followed.events)[..] else { panic!("{:#?}", followed.events) };
    assert_eq!((&switch["to"], &switch["reason"]), (&"fake/instant".into(), &"tripped".into()));
    assert!(house.command(&["breaker", "release", "fake/steady"]).contains("released"));
    until("fake/steady\tdefault\tclosed", 2).await;
    let task = client.submit("pair", "hello").await;
    assert!(switches(&client.follow(task, SOON).await.events).is_empty());
    assert_eq!(client.read(task).await["model"], "fake/steady");
    house.take_down().await;
}
