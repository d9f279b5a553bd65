//! Callers of one process of a fleet: each makes call after call through a gateway of its own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use penstock_gateway::settings::{
    AnswerBounds, BreakerSettings, BucketSettings, CacheSettings, Exit, GateSettings, Hop, HopOptions, Limits,
    ParkingSettings, Provider, RetryBudgetSettings, RetrySettings, Timers,
};
use penstock_gateway::{CallScope, ChatMessage, Fields, Gateway, GatewayMetrics, ModelRequest, Settings};
use penstock_protocol::{TaskId, TaskKey, TenantNo};
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

use crate::vendor::OUTPUT_TOKENS;

/// One process of a fleet.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) redis_url: String,
    pub(crate) deployment: String,
    pub(crate) base_url: String,
    pub(crate) minute_ms: u64,
    pub(crate) limits: Limits,
    /// Smallest and largest call of each caller, in tokens; the sizes between are drawn evenly on a logarithmic scale.
    pub(crate) callers: Vec<(u64, u64)>,
    pub(crate) run: Duration,
    pub(crate) seed: u64,
}

/// What one process did.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) calls: u64,
    pub(crate) failed: u64,
    pub(crate) granted: u64,
    pub(crate) refused_takes: u64,
    pub(crate) passes: u64,
    pub(crate) settled_tokens: u64,
    /// Longest time to an answer of the largest calls, and how many there were.
    pub(crate) large_ms_max: u64,
    pub(crate) large_calls: u64,
}

/// A call counts as large from here on.
pub(crate) const LARGE_TOKENS: u64 = 20_000;

impl Plan {
    pub(crate) async fn run(&self) -> Report {
        let mut registry = Registry::with_prefix("penstock");
        let metrics = GatewayMetrics::register(&mut registry);
        let gateway = Arc::new(Gateway::new(&self.settings(), metrics).unwrap_or_else(|error| panic!("{error}")));
        let (calls, failed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let (large, large_ms) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let end = Instant::now() + self.run;
        let callers: Vec<_> = (0_u64..)
            .zip(&self.callers)
            .map(|(number, (least, most))| {
                let (gateway, least, most) = (Arc::clone(&gateway), *least, *most);
                let (calls, failed) = (Arc::clone(&calls), Arc::clone(&failed));
                let (large, large_ms) = (Arc::clone(&large), Arc::clone(&large_ms));
                let mut random = Random(self.seed.wrapping_mul(1_000).wrapping_add(number + 1));
                tokio::spawn(async move {
                    let scope = CallScope::of(TaskKey::new(TenantNo(1), TaskId::mint()));
                    while Instant::now() < end {
                        let tokens = random.between(least, most);
                        let began = Instant::now();
                        let is_whole = match gateway.stream(&request(tokens), &scope).await {
                            Ok(mut stream) => loop {
                                match stream.next().await {
                                    Some(Ok(_)) => {}
                                    Some(Err(_)) => break false,
                                    None => break true,
                                }
                            },
                            Err(_) => false,
                        };
                        if tokens >= LARGE_TOKENS {
                            large.fetch_add(1, Ordering::Relaxed);
                            let ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
                            large_ms.fetch_max(ms, Ordering::Relaxed);
                        }
                        let count = if is_whole { &calls } else { &failed };
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for caller in callers {
            drop(caller.await);
        }
        gateway.flush().await;
        let mut text = String::new();
        _ = encode(&mut text, &registry);
        let metric = |name: &str| {
            let start = format!("penstock_{name} ");
            text.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok()).unwrap_or(0)
        };
        let take =
            |answer: &str| metric(&format!(r#"model_takes_total{{provider="fake",model="m",answer="{answer}"}}"#));
        Report {
            calls: calls.load(Ordering::Relaxed),
            failed: failed.load(Ordering::Relaxed),
            granted: take("granted"),
            refused_takes: take("wait"),
            passes: metric(r#"model_passes_total{provider="fake",model="m"}"#),
            settled_tokens: metric(r#"model_settled_tokens_total{provider="fake",model="m"}"#),
            large_ms_max: large_ms.load(Ordering::Relaxed),
            large_calls: large.load(Ordering::Relaxed),
        }
    }

    fn settings(&self) -> Settings {
        let long = Duration::from_secs(3_600);
        let exit = Exit { provider: "fake".into(), model: "m".into() };
        let mut buckets = BucketSettings { deployment: self.deployment.clone(), ..BucketSettings::default() };
        buckets.redis.url = self.redis_url.clone().into();
        buckets.redis.call_timeout = Duration::from_secs(5);
        buckets.minute_ms = self.minute_ms;
        buckets.limits.global = self.limits.clone();
        Settings {
            providers: BTreeMap::from([("fake".into(), Provider::at(self.base_url.clone()))]),
            chains: BTreeMap::from([("chain".into(), vec![Hop { exit, options: HopOptions::default() }])]),
            models: BTreeMap::new(),
            timers: Timers { connect: long, first_token: long, idle: long, total: long },
            gate: GateSettings {
                permits: 256,
                spacing: Duration::ZERO,
                push_back: Duration::from_secs(5),
                push_back_spacing: Duration::from_millis(20),
            },
            retry: RetrySettings {
                attempts: 1,
                time_box: long,
                wait: long,
                hint_max: long,
                budget: RetryBudgetSettings { percent: 0, per_second: 0, burst: 0 },
            },
            breaker: BreakerSettings::default(),
            parking: ParkingSettings { plan_exhausted: long, denied: long },
            answer: AnswerBounds { event_bytes_max: 1 << 20, body_bytes_max: 32 << 20 },
            tenant_calls_max: 0,
            hedge_after: Duration::ZERO,
            cache: CacheSettings { bytes_max: 0, answer_bytes_max: 0, keep: long },
            buckets,
            idle_connections_max: 256,
        }
    }
}

/// A call of `tokens` tokens all told, which says so.
fn request(tokens: u64) -> ModelRequest {
    let input = tokens.saturating_sub(OUTPUT_TOKENS).max(1);
    // Short words are estimated at 0.8 tokens; around them stand the marker and the message itself.
    let words = usize::try_from(input.saturating_sub(12) * 5 / 4).unwrap_or(0);
    let text = format!("[[tokens={input}]]{}", " word".repeat(words));
    let mut fields = Fields::new();
    _ = fields.set("max_tokens", &OUTPUT_TOKENS);
    ModelRequest { chain: "chain".into(), messages: vec![ChatMessage::user(text)], fields, ..ModelRequest::default() }
}

/// Marsaglia's xorshift: the same calls in every run.
struct Random(u64);

impl Random {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        #[expect(clippy::cast_precision_loss, reason = "sizes of calls")]
        let (share, ratio) = ((self.0 % 10_000) as f64 / 10_000.0, most as f64 / least as f64);
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "sizes of calls"
        )]
        let size = (least as f64 * ratio.powf(share)) as u64;
        size.clamp(least, most)
    }
}
