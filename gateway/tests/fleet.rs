//! 64 callers over three gateways on one Redis, against a vendor with a rolling window at the same limits. The same with real
//! processes and for as long as one likes: `cargo run --example takers`.
#![expect(clippy::panic, reason = "a test fails by panicking")]

#[path = "../examples/takers/fleet.rs"]
mod fleet;
#[path = "../examples/takers/vendor.rs"]
mod vendor;

use std::time::Duration;

use fleet::{LARGE_TOKENS, Plan};
use penstock_gateway::settings::Limits;
use vendor::{Allowance, Vendor};

/// A minute of the test: 1 200 calls and 240 000 tokens, 5 % of them at once.
const MINUTE_MS: u64 = 6_000;
const RPM: u64 = 1_200;
const TPM: u64 = 240_000;

#[expect(clippy::disallowed_methods, reason = "the test harness hands over its servers in the environment")]
fn redis_url() -> String {
    std::env::var("PENSTOCK_TEST_REDIS_URL")
        .unwrap_or_else(|_| panic!("PENSTOCK_TEST_REDIS_URL is not set: run `make test`, which starts the servers"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fleet_stays_within_limits_and_settles_what_was_used() {
    let window = Duration::from_millis(MINUTE_MS);
    let vendor = Vendor::start(Allowance { requests: RPM, tokens: TPM, window }).await.unwrap();
    let deployment = format!("test-{}", penstock_protocol::TaskId::mint());
    let plan = |number: u64| Plan {
        redis_url: redis_url(),
        deployment: deployment.clone(),
        base_url: vendor.base_url.clone(),
        minute_ms: MINUTE_MS,
        limits: Limits { rpm: RPM, tpm: TPM, ..Limits::default() },
        callers: vec![(60, 3_000); if number == 1 { 22 } else { 21 }],
        run: window * 2,
        seed: number,
    };
    let (first, second, third) = (plan(1), plan(2), plan(3));
    let (first, second, third) = tokio::join!(first.run(), second.run(), third.run());
    let reports = [first, second, third];
    let sum = |of: fn(&fleet::Report) -> u64| reports.iter().map(of).sum::<u64>();
    let seen = vendor.seen();
    assert_eq!(sum(|report| report.passes), 0);
    assert_eq!(sum(|report| report.granted), seen.calls);
    // Law 8 holds at the ledger; on the way to the vendor calls may bunch up on a busy machine.
    assert!(seen.requests_max <= RPM + RPM / 10 && seen.tokens_max <= TPM + TPM / 10, "{seen:?}");
    assert!(seen.refused <= seen.calls / 20, "{seen:?}");
    assert_eq!(sum(|report| report.settled_tokens), seen.tokens, "settled is what was reported");
    assert!(reports.iter().all(|report| report.granted > 20), "no process starves: {reports:?}");
    let takes = sum(|report| report.granted) + sum(|report| report.refused_takes);
    // The rule is 3 on machines whose timers are on time.
    assert!(takes <= 5 * sum(|report| report.granted), "{reports:?}");
    assert_eq!(sum(|report| report.calls) + sum(|report| report.failed), seen.calls);
    let large = sum(|report| report.large_calls) + sum(|report| report.large_ms_max);
    assert_eq!(large, 0, "all are below {LARGE_TOKENS}");
}
