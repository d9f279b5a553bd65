//! Waiting: the line, places before the gate, tickets, passes, and what callers are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use redis::AsyncCommands;
use tokio::time::{Instant, timeout};

use super::super::{Limits, Taken};
use super::house::{House, eventually, wish};
use super::server::url;

const SHORT: Duration = Duration::from_millis(150);
const LONG: Duration = Duration::from_secs(20);

/// So slow that nothing refills in the time of a test.
const NEVER_MS: u64 = 3_600_000_000;

async fn line_length(house: &House) -> u64 {
    let client = redis::Client::open(url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    connection.hlen(format!("{{{}:bucket:fake/m}}:line", house.deployment)).await.unwrap()
}

#[tokio::test]
async fn few_calls_hold_tokens_while_the_gate_is_shut() {
    let house = House::new(Limits { tpm: 60_000, ..Limits::default() }, |settings| settings.wait.ahead = 2);
    let mut first = house.take(10).await;
    let _second = house.take(10).await;
    let third = house.take_within(10, SHORT).await;
    assert!(matches!(third, Taken::Impatient { .. }), "{third:?}");
    first.enter();
    drop(house.take(10).await);
}

#[tokio::test]
async fn who_loses_patience_takes_its_ticket_along() {
    let house = House::new(Limits { tpm: 60_000, ..Limits::default() }, |settings| settings.minute_ms = NEVER_MS);
    house.take(3_000).await.send();
    let impatient = house.take_within(100, SHORT).await;
    let Taken::Impatient { wait } = impatient else { panic!("{impatient:?}") };
    assert!(wait > Duration::from_secs(60), "{wait:?}");
    house.buckets.flush().await;
    assert_eq!(line_length(&house).await, 0);
}

#[tokio::test]
async fn a_cancelled_head_takes_its_ticket_along_and_the_next_is_asked_for() {
    let house = House::new(Limits { tpm: 60_000, ..Limits::default() }, |settings| settings.minute_ms = NEVER_MS);
    house.take(2_900).await.send();
    let large = wish(3_000, LONG);
    let head = timeout(SHORT, house.quota.take(&large, |_| ()));
    let next = async {
        tokio::time::sleep(SHORT / 3).await;
        house.take(50).await.send();
    };
    let (head, ()) = tokio::join!(head, next);
    assert!(head.is_err());
    house.buckets.flush().await;
    eventually("nobody stands in line", async || line_length(&house).await == 0).await;
}

#[tokio::test]
async fn a_look_without_patience_takes_what_is_there_and_never_waits() {
    let house = House::new(Limits { tpm: 60_000, ..Limits::default() }, |settings| {
        settings.minute_ms = NEVER_MS;
        settings.wait.take_now_max = LONG;
    });
    let granted = house.take_within(3_000, Duration::ZERO).await;
    let Taken::Debit(mut debit) = granted else { panic!("{granted:?}") };
    debit.send();
    assert!(matches!(house.take_within(1, Duration::ZERO).await, Taken::Impatient { .. }));
    let patient = wish(10, LONG);
    let waiting = house.quota.take(&patient, |_| ());
    let look = async {
        tokio::time::sleep(SHORT).await;
        house.take_within(1, Duration::ZERO).await
    };
    tokio::select! {
        _ = waiting => panic!("there is nothing to take"),
        look = look => assert!(matches!(look, Taken::Impatient { .. }), "behind others: {look:?}"),
    }
}

#[tokio::test]
async fn a_long_wait_is_told_once() {
    let house = House::new(Limits { tpm: 60_000, ..Limits::default() }, |settings| {
        settings.minute_ms = NEVER_MS;
        settings.wait.told_after = Duration::from_millis(50);
    });
    let told = AtomicU32::new(0);
    drop(house.quota.take(&wish(3_000, LONG), |_| _ = told.fetch_add(1, Ordering::Relaxed)).await);
    house.buckets.flush().await;
    house.take(3_000).await.send();
    assert_eq!(told.load(Ordering::Relaxed), 0, "a call that need not wait is told nothing");
    let short = wish(10, SHORT);
    let waited = house.quota.take(&short, |throttled| {
        assert_eq!((&*throttled.provider, &*throttled.model), ("fake", "m"));
        told.fetch_add(1, Ordering::Relaxed);
    });
    assert!(matches!(waited.await, Taken::Impatient { .. }));
    assert_eq!(told.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn passes_leave_spaced_and_debit_nothing() {
    let house = House::new(Limits { tpm: 60_000, ..Limits::default() }, |settings| {
        settings.minute_ms = NEVER_MS;
        settings.wait.pass_spacing = Duration::from_millis(60);
    });
    house.take(3_000).await.send();
    let began = Instant::now();
    for _ in 0..4 {
        let mut debit = house.quota.pass(&wish(500, LONG), Instant::now() + LONG).await.unwrap();
        debit.send();
        debit.settle(None, 10_000);
    }
    assert!(began.elapsed() >= Duration::from_millis(180), "{:?}", began.elapsed());
    house.buckets.flush().await;
    assert_eq!(house.metric(r#"model_passes_total{provider="fake",model="m"}"#), 4.0);
    // The level is where the one call left it.
    assert!(matches!(house.take_within(1, Duration::ZERO).await, Taken::Impatient { .. }));
    assert_eq!(house.metric(r#"model_bucket_level{provider="fake",model="m",dimension="tokens"}"#), 0.0);
}

#[tokio::test]
async fn passes_are_bounded_over_all_processes_where_a_setting_says_so() {
    let bounded = |settings: &mut super::super::BucketSettings| {
        settings.minute_ms = NEVER_MS;
        settings.wait.pass_spacing = Duration::ZERO;
        settings.wait.pass_share = 0.1;
        settings.deployment = "shared".into();
    };
    let deployment = super::server::deployment();
    let house = || {
        House::new(Limits { tpm: 60_000, ..Limits::default() }, |settings| {
            bounded(settings);
            settings.deployment.clone_from(&deployment);
        })
    };
    let houses = [house(), house()];
    // A tenth of 3 000 tokens at once.
    for house in &houses {
        assert!(house.quota.pass(&wish(150, LONG), Instant::now() + LONG).await.is_some());
    }
    for house in &houses {
        assert!(house.quota.pass(&wish(150, LONG), Instant::now() + SHORT).await.is_none());
    }
}

/// 50 000 a minute, burst of nearly all of it: 40 calls of 5 000 at once.
#[tokio::test]
async fn of_forty_calls_at_once_nine_pass() {
    let limits = Limits { tpm: 50_000, burst: Some(Duration::from_secs(57)), ..Limits::default() };
    let house = House::new(limits, |settings| settings.minute_ms = NEVER_MS);
    let passed = Arc::new(AtomicU32::new(0));
    let calls = (0..40).map(|_| async {
        if let Taken::Debit(mut debit) = house.take_within(5_000, Duration::from_secs(2)).await {
            debit.send();
            passed.fetch_add(1, Ordering::Relaxed);
        }
    });
    futures_util::future::join_all(calls).await;
    assert_eq!(passed.load(Ordering::Relaxed), 9);
}

#[tokio::test]
async fn other_limits_hold_from_the_next_call_on() {
    let table = |tpm: u64| super::super::LimitTable {
        global: Limits { tpm, ..Limits::default() },
        ..super::super::LimitTable::default()
    };
    let house = House::new(Limits { tpm: 60_000, ..Limits::default() }, |settings| settings.minute_ms = NEVER_MS);
    house.take(3_000).await.send();
    assert!(matches!(house.take_within(1, Duration::ZERO).await, Taken::Impatient { .. }));
    let same = house.buckets.quota(&table(0), &"fake".into(), &"m".into());
    assert!(Arc::ptr_eq(&same, &house.quota) && same.is_unlimited());
    house.take(1_000_000).await.send();
    house.buckets.quota(&table(60_000), &"fake".into(), &"m".into());
    assert!(matches!(house.take_within(1, Duration::ZERO).await, Taken::Impatient { .. }), "levels stay");
}
