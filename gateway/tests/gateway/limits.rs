//! Limits that all processes share, met by calls over real HTTP: what is taken, settled, given back, and where a call goes that
//! gets no tokens.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use penstock_gateway::settings::{Limits, Provider};
use penstock_gateway::{CallScope, GatewayError, Outcome, Settings};
use penstock_protocol::{TaskId, TaskKey, TenantNo};
use redis::AsyncCommands;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};

use crate::house::{House, eventually, failed, hop, house_with, read, request, scope};

/// Nothing refills in the time of a test.
const NEVER_MS: u64 = 3_600_000_000;
const SHORT: Duration = Duration::from_millis(150);
/// Longer than any take lasts, even on a busy machine.
const PATIENCE: Duration = Duration::from_millis(800);

#[expect(clippy::disallowed_methods, reason = "the test harness hands over its servers in the environment")]
fn redis_url() -> String {
    std::env::var("PENSTOCK_TEST_REDIS_URL")
        .unwrap_or_else(|_| panic!("PENSTOCK_TEST_REDIS_URL is not set: run `make test`, which starts the servers"))
}

/// Limits on the exit `fake/m`; minutes that never pass; a loaded test machine is no slow Redis.
fn limit(settings: &mut Settings, limits: Limits) {
    let buckets = &mut settings.buckets;
    buckets.deployment = format!("test-{}", TaskId::mint());
    buckets.redis.url = redis_url().into();
    buckets.redis.call_timeout = Duration::from_secs(5);
    buckets.minute_ms = NEVER_MS;
    buckets.limits.models.insert("fake/m".into(), limits);
    buckets.wait.take_now_max = Duration::from_secs(5);
    settings.retry.wait = Duration::from_secs(60);
    settings.retry.time_box = Duration::from_secs(60);
}

struct Limited {
    house: House,
    key: String,
}

async fn limited(limits: Limits, change: impl FnOnce(&mut Settings)) -> Limited {
    let mut deployment = String::new();
    let house = house_with(|settings| {
        limit(settings, limits);
        change(settings);
        deployment.clone_from(&settings.buckets.deployment);
    })
    .await;
    Limited { house, key: format!("{{{deployment}:bucket:fake/m}}:levels") }
}

impl Limited {
    /// Level of a bucket, once everything is settled.
    async fn level(&self, field: &str) -> i64 {
        self.house.gateway.flush().await;
        let client = redis::Client::open(redis_url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let level: f64 = connection.hget(&self.key, field).await.unwrap();
        format!("{level:.0}").parse().unwrap()
    }

    fn settled(&self, by: &str) -> u64 {
        metric(&self.house, &format!(r#"model_settlements_total{{provider="fake",model="m",by="{by}"}}"#))
    }
}

fn metric(house: &House, name: &str) -> u64 {
    let start = format!("penstock_{name} ");
    let text = house.metrics();
    text.lines().find_map(|line| line.strip_prefix(&start)).map_or(0, |value| value.parse().unwrap())
}

#[tokio::test]
async fn without_limits_no_redis_is_asked_or_even_connected() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}/", listener.local_addr().unwrap());
    let house = house_with(|settings| settings.buckets.redis.url = url.into()).await;
    for behaviour in ["instant", "status=400", "cut=2"] {
        house.ask(behaviour).await;
    }
    house.gateway.flush().await;
    assert!(timeout(SHORT, listener.accept()).await.is_err(), "nobody called");
}

#[tokio::test]
async fn after_a_call_the_ledger_shows_exactly_what_the_vendor_counted() {
    let limits =
        Limits { rpm: 6_000, tpm: 1_000_000, input_tpm: 1_000_000, output_tpm: 1_000_000, ..Limits::default() };
    let limited = limited(limits, |_| ()).await;
    let mut spent = (0, 0);
    for number in 1..=5 {
        let stream = limited.house.open("chunks=7").await.unwrap();
        let (chunks, failure) = read(stream).await;
        assert!(failure.is_none(), "{failure:?}");
        let usage = chunks.iter().find_map(|chunk| match chunk {
            penstock_gateway::ModelChunk::Usage(usage) => Some(usage.clone()),
            _ => None,
        });
        let usage = usage.unwrap();
        spent = (spent.0 + usage.input_tokens.unwrap(), spent.1 + usage.output_tokens.unwrap());
        let left = |spent: u64| 50_000 - i64::try_from(spent).unwrap();
        assert_eq!(limited.level("t").await, left(spent.0 + spent.1));
        assert_eq!((limited.level("i").await, limited.level("o").await), (left(spent.0), left(spent.1)));
        assert_eq!(limited.level("r").await, 300 - number);
    }
    assert_eq!(metric(&limited.house, r#"model_settled_tokens_total{provider="fake",model="m"}"#), spent.0 + spent.1);
    assert_eq!(limited.settled("usage"), 5);
}

#[tokio::test]
async fn a_failed_call_keeps_its_tokens_and_every_attempt_takes_anew() {
    let limits = Limits { rpm: 6_000, tpm: 1_000_000, ..Limits::default() };
    let limited = limited(limits, |settings| settings.retry.attempts = 3).await;
    let failure = limited.house.ask("status=500").await.1.unwrap();
    assert_eq!(failure.attempts, 3);
    assert_eq!(limited.level("r").await, 297);
    assert!(limited.level("t").await < 50_000 - 3 * 1_024, "{}", limited.level("t").await);
    assert_eq!((limited.settled("kept"), limited.settled("usage")), (3, 0));
}

#[tokio::test]
async fn what_breaks_off_is_settled_by_what_was_received() {
    let limited = limited(Limits { tpm: 1_000_000, ..Limits::default() }, |_| ()).await;
    let (_, failure) = limited.house.ask("chunks=20,cut=10").await;
    assert_eq!(failure.unwrap().outcome, Outcome::Broken);
    let left = limited.level("t").await;
    assert!((49_900..49_990).contains(&left), "the input and a few words, not the reserve: {left}");
    assert_eq!(limited.settled("received"), 1);
}

#[tokio::test]
async fn a_call_that_was_never_sent_gives_everything_back() {
    let limits = Limits { rpm: 6_000, tpm: 1_000_000, ..Limits::default() };
    let limited = limited(limits, |settings| settings.gate.permits = 1).await;
    let holding = limited.house.open("stall=1").await.unwrap();
    let (requests, tokens) = (limited.level("r").await, limited.level("t").await);
    // It has tokens and waits at the gate.
    assert!(timeout(SHORT, limited.house.open("instant")).await.is_err());
    assert_eq!((limited.level("r").await, limited.level("t").await), (requests, tokens));
    assert_eq!(limited.settled("given_back"), 1);
    assert_eq!(limited.house.stats().calls, 1);
    drop(holding);
}

#[tokio::test]
async fn a_breaker_that_trips_while_calls_wait_gives_their_tokens_back() {
    let limits = Limits { rpm: 6_000, tpm: 100_000_000, ..Limits::default() };
    let limited = limited(limits, |settings| {
        settings.gate.permits = 1;
        settings.breaker.failures = 1;
        settings.retry.attempts = 1;
        settings.buckets.wait.ahead = 100;
    })
    .await;
    let calls = (0..20).map(|_| limited.house.open("first_byte_ms=1500,status=500"));
    assert!(join_all(calls).await.iter().all(Result::is_err));
    let sent = limited.house.stats().calls;
    assert_eq!(sent, 1, "the others found it tripped before they were sent");
    assert_eq!(limited.level("r").await, 300 - 1);
    // One that took so long to get its tokens that the breaker was tripped before took none.
    assert!((1..=19).contains(&limited.settled("given_back")), "{}", limited.settled("given_back"));
    assert_eq!(limited.settled("kept"), 1);
}

/// A second exit without limits, behind the first.
fn with_second_hop(settings: &mut Settings, base_url: &str) {
    settings.providers.insert("other".into(), Provider::at(base_url));
    settings.chains.get_mut("chain").unwrap().push(hop("other", "m"));
}

#[tokio::test]
async fn a_used_up_day_sends_the_call_to_the_next_hop_at_once() {
    let limits = Limits { rpd: 1, ..Limits::default() };
    let limited = limited(limits, |settings| {
        let base_url = settings.providers["fake"].endpoints[0].base_url.clone();
        with_second_hop(settings, &base_url);
    })
    .await;
    let first = limited.house.open("instant").await.unwrap();
    assert_eq!(first.provider(), "fake");
    drop(first);
    let second = limited.house.open("instant").await.unwrap();
    assert_eq!(second.provider(), "other");
    assert_eq!(second.fallback().unwrap().reason, Outcome::Exhausted);
}

#[tokio::test]
async fn the_last_hop_of_a_used_up_day_says_until_when() {
    let limited = limited(Limits { rpd: 1, ..Limits::default() }, |_| ()).await;
    assert!(limited.house.ask("instant").await.1.is_none());
    let error = limited.house.open("instant").await.err().unwrap();
    let GatewayError::AllExitsDown { retry_after, .. } = error else { panic!("{error}") };
    assert!((Duration::from_secs(23 * 3600)..Duration::from_secs(25 * 3600)).contains(&retry_after), "{retry_after:?}");
    assert_eq!(limited.house.stats().calls, 1);
}

#[tokio::test]
async fn after_its_patience_a_call_goes_to_the_next_hop_that_has_tokens() {
    let limited = limited(Limits { rpm: 20, ..Limits::default() }, |settings| {
        let base_url = settings.providers["fake"].endpoints[0].base_url.clone();
        with_second_hop(settings, &base_url);
        settings.retry.wait = PATIENCE;
    })
    .await;
    assert!(limited.house.ask("instant").await.1.is_none());
    let stream = limited.house.open("instant").await.unwrap();
    assert_eq!(stream.provider(), "other");
    assert_eq!(stream.fallback().unwrap().reason, Outcome::NoTokens);
    assert_eq!(metric(&limited.house, r#"model_passes_total{provider="fake",model="m"}"#), 0);
}

#[tokio::test]
async fn where_no_hop_has_tokens_the_first_is_asked_without() {
    let limited = limited(Limits { rpm: 20, ..Limits::default() }, |settings| {
        let base_url = settings.providers["fake"].endpoints[0].base_url.clone();
        with_second_hop(settings, &base_url);
        settings.buckets.limits.models.insert("other/m".into(), Limits { rpm: 20, ..Limits::default() });
        settings.buckets.wait.pass_spacing = Duration::ZERO;
        settings.retry.wait = PATIENCE;
    })
    .await;
    for provider in ["fake", "other", "fake", "fake"] {
        let stream = limited.house.open("instant").await.unwrap();
        assert_eq!(stream.provider(), provider);
        assert_eq!(stream.fallback().is_some(), provider == "other", "no switch is announced that was none");
        assert!(read(stream).await.1.is_none());
    }
    assert_eq!(metric(&limited.house, r#"model_passes_total{provider="fake",model="m"}"#), 2);
    assert_eq!(limited.level("r").await, 0, "a pass debits nothing");
}

#[tokio::test]
async fn a_pass_that_would_come_too_late_fails_and_says_so() {
    let limited = limited(Limits { rpm: 20, ..Limits::default() }, |settings| {
        settings.buckets.wait.pass_spacing = Duration::from_secs(600);
        settings.retry.wait = PATIENCE;
        settings.retry.time_box = PATIENCE * 3;
    })
    .await;
    assert!(limited.house.ask("instant").await.1.is_none());
    assert!(limited.house.ask("instant").await.1.is_none(), "the first pass needs no space");
    let failure = failed(limited.house.open("instant").await.err().unwrap());
    assert_eq!(failure.outcome, Outcome::NoPermit);
    assert_eq!(limited.house.stats().calls, 2);
}

#[tokio::test]
async fn the_caller_of_a_long_wait_is_told() {
    let limited = limited(Limits { rpm: 20, ..Limits::default() }, |settings| {
        settings.buckets.wait.told_after = PATIENCE / 2;
        settings.buckets.wait.pass_spacing = Duration::ZERO;
        settings.retry.wait = PATIENCE;
    })
    .await;
    let (told, mut throttled) = mpsc::channel(1);
    let scope = CallScope { throttled: Some(told), ..scope() };
    drop(limited.house.gateway.stream(&request("instant"), &scope).await.unwrap());
    assert!(throttled.try_recv().is_err(), "there was no wait");
    drop(limited.house.gateway.stream(&request("instant"), &scope).await.unwrap());
    let told = throttled.try_recv().unwrap();
    assert_eq!((&*told.provider, &*told.model), ("fake", "m"));
}

#[tokio::test]
async fn a_crowd_of_one_tenant_does_not_keep_another_out() {
    let limits = Limits { rpm: 600, burst: Some(Duration::from_millis(100)), ..Limits::default() };
    let limited = limited(limits, |settings| {
        settings.buckets.minute_ms = 6_000;
    })
    .await;
    let scope_of = |tenant: u32| CallScope::of(TaskKey::new(TenantNo(tenant), TaskId::mint()));
    let served = AtomicU64::new(0);
    let crowd = (0..100).map(|_| async {
        let scope = scope_of(1);
        drop(limited.house.gateway.stream(&request("instant"), &scope).await.unwrap());
        served.fetch_add(1, Ordering::SeqCst);
    });
    let quiet = async {
        while served.load(Ordering::SeqCst) < 10 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let before = served.load(Ordering::SeqCst);
        drop(limited.house.gateway.stream(&request("instant"), &scope_of(2)).await.unwrap());
        served.load(Ordering::SeqCst) - before
    };
    let (_, ahead) = tokio::join!(join_all(crowd), quiet);
    assert!(ahead <= 20, "{ahead} calls of the crowd were served before the quiet one");
}

/// A thousand streams, each dropped at a random point of its life: in line, at the gate, before the first token, in the
/// answer, or after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancels_at_any_point_leave_nothing_behind() {
    let limits = Limits { rpm: 60_000_000, tpm: 60_000_000_000, ..Limits::default() };
    let limited = Arc::new(
        limited(limits, |settings| {
            settings.buckets.minute_ms = 60_000;
            settings.gate.permits = 40;
            settings.timers.idle = Duration::from_secs(60);
            settings.timers.total = Duration::from_secs(60);
            settings.timers.first_token = Duration::from_secs(60);
        })
        .await,
    );
    let began = Instant::now();
    let calls = (0..1_000_u64).map(|number| {
        let limited = Arc::clone(&limited);
        tokio::spawn(async move {
            // A spread of moments, from at once to after the end.
            let life = Duration::from_micros(number * 7_919 % 60_000);
            let call = async {
                let behaviour = "first_byte_ms=4,first_ms=8,gap_ms=4,chunks=4";
                if let Ok(stream) = limited.house.open(behaviour).await {
                    drop(read(stream).await);
                }
            };
            drop(timeout(life, call).await);
        })
    });
    join_all(calls).await;
    eventually("the provider has seen every close", || limited.house.stats().in_flight == 0).await;
    limited.house.gateway.flush().await;
    let takes = || metric(&limited.house, r#"model_takes_total{provider="fake",model="m",answer="granted"}"#);
    let ends = || ["usage", "received", "given_back", "kept"].into_iter().map(|by| limited.settled(by)).sum::<u64>();
    assert!(takes() > 0 && ends() >= takes(), "{} takes, {} ends", takes(), ends());
    let sent = limited.settled("usage") + limited.settled("received") + limited.settled("kept");
    let stats = limited.house.stats();
    assert!(stats.completed + stats.closed_by_caller <= sent, "{stats:?}");
    // Everything is free again: as many calls at once as there are permits.
    let streams = (0..40).map(|_| limited.house.open("chunks=2,gap_ms=50"));
    assert!(join_all(streams).await.iter().all(Result::is_ok));
    assert_eq!(metric(&limited.house, "model_settle_lost_total"), 0);
    assert!(began.elapsed() < Duration::from_secs(600));
}
