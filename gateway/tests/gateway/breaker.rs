//! Breakers over real HTTP: how many calls reach a dead provider, and how it is found alive again.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use penstock_gateway::breaker::{BreakerState, Forced};
use penstock_gateway::settings::BreakerSettings;
use penstock_gateway::{BreakerReport, GatewayError, Outcome};
use tokio::time::Instant;

use crate::house::{House, Scripted, eventually, hop, read, request, scope, scripted};

const COOL_DOWN: Duration = Duration::from_millis(300);

/// A chain of two models of one provider: `a`, which behaves as it is told, and `b`, which answers.
async fn two_hops(a: &[&str], change: impl FnOnce(&mut penstock_gateway::Settings)) -> House {
    scripted(&[Scripted { model: "a", behaviours: a }], |settings| {
        settings.chains.insert("chain".into(), vec![hop("fake", "a"), hop("fake", "b")]);
        settings.retry.attempts = 1;
        settings.breaker = BreakerSettings { cool_down: COOL_DOWN, ..BreakerSettings::default() };
        change(settings);
    })
    .await
}

/// The same with one hop, so that a refusal is seen.
async fn one_hop(a: &[&str]) -> House {
    two_hops(a, |settings| {
        settings.chains.insert("chain".into(), vec![hop("fake", "a")]);
    })
    .await
}

impl House {
    fn calls_of(&self, model: &str) -> u64 {
        self.stats().by_model.get(model).copied().unwrap_or(0)
    }

    pub(crate) fn reports_of(&self, name: &str) -> Vec<BreakerReport> {
        self.gateway.breakers().into_iter().filter(|report| report.name == name).collect()
    }

    fn state_of(&self, name: &str) -> BreakerState {
        self.reports_of(name)[0].breaker.state
    }

    async fn due(&self, name: &str) {
        eventually("the cool-down is over", || self.state_of(name) != BreakerState::Tripped).await;
    }

    /// Who serves the next call.
    async fn server(&self) -> String {
        let stream = self.open("").await.unwrap();
        let model = stream.model().to_owned();
        assert!(read(stream).await.1.is_none());
        model
    }
}

const DEAD: [&str; 5] = ["status=500"; 5];

#[tokio::test]
async fn exactly_five_calls_reach_a_dead_exit_one_after_another_and_the_sixth_goes_on_at_once() {
    let house = two_hops(&["status=500"], |settings| settings.breaker.cool_down = Duration::from_secs(30)).await;
    for call in 1..=8 {
        assert_eq!(house.server().await, "b", "call {call}");
    }
    assert_eq!((house.calls_of("a"), house.calls_of("b")), (5, 8));
    assert_eq!(house.state_of("fake/a"), BreakerState::Tripped);
    assert_eq!(house.state_of("fake/b"), BreakerState::Closed, "one model's trouble is not another's");
    let text = house.metrics();
    assert!(text.contains(r#"penstock_model_calls_total{provider="fake",model="a",verdict="tripped"} 3"#), "{text}");
    assert!(text.contains(r#"from="fake/a",to="fake/b",reason="tripped"} 3"#), "{text}");
}

#[tokio::test]
async fn second_attempts_count_too_and_stop_when_it_trips() {
    let house = two_hops(&["status=500"], |settings| {
        settings.retry.attempts = 2;
        settings.breaker.cool_down = Duration::from_secs(30);
    })
    .await;
    for _ in 0..4 {
        assert_eq!(house.server().await, "b");
    }
    assert_eq!(house.calls_of("a"), 5, "two, two and one");
}

#[tokio::test]
async fn of_many_at_once_only_five_and_those_on_the_wire_reach_a_dead_exit() {
    const PERMITS: usize = 8;
    let house = two_hops(&["first_byte_ms=20,status=500"], |settings| {
        settings.gate.permits = PERMITS;
        settings.breaker.cool_down = Duration::from_secs(30);
    })
    .await;
    let answers = join_all((0..64).map(|_| house.ask(""))).await;
    assert!(answers.iter().all(|(_, failure)| failure.is_none()));
    let reached = house.calls_of("a");
    assert!((5..=5 + PERMITS as u64 - 1).contains(&reached), "{reached}");
    join_all((0..20).map(|_| house.ask(""))).await;
    assert_eq!(house.calls_of("a"), reached, "none after the trip");
}

#[tokio::test]
async fn after_the_cool_down_exactly_one_probe_goes_out_and_its_first_token_lets_all_pass() {
    let behaviours = [&DEAD[..], &["first_ms=400,chunks=2", "instant"]].concat();
    let house = two_hops(&behaviours, |_| {}).await;
    join_all((0..5).map(|_| house.ask(""))).await;
    assert_eq!(house.state_of("fake/a"), BreakerState::Tripped);
    house.due("fake/a").await;
    let answers = join_all((0..16).map(|_| house.ask(""))).await;
    assert!(answers.iter().all(|(_, failure)| failure.is_none()));
    assert_eq!(house.calls_of("a"), 6, "one probe");
    assert_eq!(house.state_of("fake/a"), BreakerState::Closed, "and its clean end closed it");
    assert_eq!(house.server().await, "a");
}

#[tokio::test]
async fn a_probe_that_ends_in_a_rate_limit_says_nothing_and_the_next_may_go() {
    let house = one_hop(&[&DEAD[..], &["status=429,retry_after_ms=1", "instant"]].concat()).await;
    for _ in 0..5 {
        house.ask("").await;
    }
    house.due("fake/a").await;
    assert_eq!(house.ask("").await.1.unwrap().outcome, Outcome::RateLimited);
    assert_eq!(house.state_of("fake/a"), BreakerState::HalfOpen);
    assert_eq!(house.server().await, "a");
}

#[tokio::test]
async fn a_probe_that_is_cancelled_or_panics_frees_its_place() {
    for is_panic in [false, true] {
        let house = Arc::new(one_hop(&[&DEAD[..], &["stall=byte", "instant"]].concat()).await);
        for _ in 0..5 {
            house.ask("").await;
        }
        house.due("fake/a").await;
        let probing = Arc::clone(&house);
        let probe = tokio::spawn(async move {
            tokio::select! {
                _ = probing.open("") => unreachable!("the provider stalls"),
                () = eventually("the probe is on its way", || probing.stats().in_flight == 1) => {
                    assert!(!is_panic, "a fault of our own while the probe is undecided");
                }
            }
        });
        assert_eq!(probe.await.is_err(), is_panic);
        assert_eq!(house.state_of("fake/a"), BreakerState::HalfOpen);
        assert_eq!(house.server().await, "a");
    }
}

#[tokio::test]
async fn a_thousand_rate_limits_leave_it_closed() {
    let house = scripted(&[Scripted { model: "m", behaviours: &["status=429,retry_after_ms=0"] }], |settings| {
        settings.retry.attempts = 1;
        settings.breaker = BreakerSettings::default();
    })
    .await;
    for _ in 0..20 {
        join_all((0..50).map(|_| house.ask(""))).await;
    }
    assert_eq!((house.counted("rate_limited"), house.calls_of("m")), (1_000, 1_000));
    let report = &house.reports_of("fake/m")[0];
    assert_eq!((report.breaker.state, report.breaker.run_count), (BreakerState::Closed, 0));
}

#[tokio::test]
async fn faults_of_requests_and_total_times_do_not_count_but_cuts_after_the_first_token_do() {
    for (behaviour, state) in [
        ("status=400", BreakerState::Closed),
        ("status=401", BreakerState::Closed),
        ("chunks=100000,gap_ms=5", BreakerState::Closed),
        ("garbage=0", BreakerState::Closed),
        ("cut=2", BreakerState::Tripped),
        ("error=2", BreakerState::Tripped),
        ("eof=2", BreakerState::Tripped),
        ("stall=head", BreakerState::Tripped),
        ("cut=0", BreakerState::Tripped),
    ] {
        let house = scripted(&[Scripted { model: "m", behaviours: &[behaviour] }], |settings| {
            settings.retry.attempts = 1;
            match behaviour {
                "stall=head" => settings.timers.first_token = Duration::from_millis(150),
                "chunks=100000,gap_ms=5" => settings.timers.total = Duration::from_millis(300),
                _ => {}
            }
            settings.parking.denied = Duration::ZERO;
            settings.breaker = BreakerSettings::default();
        })
        .await;
        for _ in 0..5 {
            assert!(house.ask("").await.1.is_some(), "{behaviour}");
        }
        assert_eq!(house.state_of("fake/m"), state, "{behaviour}");
    }
}

#[tokio::test]
async fn a_provider_may_count_what_others_do_not() {
    let house = scripted(&[Scripted { model: "m", behaviours: &["garbage=0"] }], |settings| {
        settings.retry.attempts = 1;
        settings.providers.get_mut("fake").unwrap().breaker_count = vec![Outcome::Undecodable];
        settings.breaker = BreakerSettings::default();
    })
    .await;
    for _ in 0..5 {
        house.ask("").await;
    }
    assert_eq!(house.state_of("fake/m"), BreakerState::Tripped);
}

#[tokio::test]
async fn a_closed_off_chain_says_when_it_opens_and_calls_nobody() {
    let house = one_hop(&["status=500"]).await;
    house.gateway.force("fake/a", Some(Forced { is_tripped: true, until: Instant::now() + Duration::from_secs(90) }));
    let error = house.gateway.stream(&request(""), &scope()).await.err().unwrap();
    let GatewayError::AllExitsDown { retry_after, .. } = &error else { panic!("{error}") };
    assert!((80..=90).contains(&retry_after.as_secs()), "{retry_after:?}");
    assert_eq!(error.retry_in(), Some(*retry_after));
    assert!(error.to_string().contains("is closed off; the nearest opens in "), "{error}");
    assert_eq!(house.stats().calls, 0);
    assert!(house.gateway.force("fake/a", None));
    assert!(!house.gateway.force("fake/nobody", None));
}

#[tokio::test]
async fn a_trip_is_told_to_another_process_which_tells_it_no_further() {
    let (one, other) = (one_hop(&["status=500"]).await, one_hop(&["instant"]).await);
    assert!(one.gateway.own_trips().is_empty());
    for _ in 0..5 {
        one.ask("").await;
    }
    let trips = one.gateway.own_trips();
    let [(report, _, until)] = &trips[..] else { panic!("{trips:?}") };
    assert_eq!(report.breaker_name(), "fake/a at default");
    other.gateway.heard_trip(report, *until);
    assert_eq!(other.state_of("fake/a"), BreakerState::Tripped);
    assert!(other.gateway.own_trips().is_empty());
    assert!(other.gateway.stream(&request(""), &scope()).await.is_err());
    assert_eq!(other.stats().calls, 0);
    other.due("fake/a").await;
    assert_eq!(other.server().await, "a");
}

#[tokio::test]
async fn parameters_change_while_calls_run_and_states_stay() {
    let house = two_hops(&["status=500"], |settings| settings.breaker.cool_down = Duration::from_secs(30)).await;
    for _ in 0..3 {
        house.ask("").await;
    }
    house.reconfigure(|settings| settings.breaker.failures = 4).await;
    house.ask("").await;
    assert_eq!(house.state_of("fake/a"), BreakerState::Tripped, "three failures before, one after");
    house.reconfigure(|settings| _ = settings.chains.insert("chain".into(), vec![hop("fake", "b")])).await;
    assert!(house.open("").await.unwrap().fallback().is_none(), "the chain has another first hop now");
}
