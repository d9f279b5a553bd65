//! Builds the model gateway from the settings, and again when they change.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use penstock_config::{LiveSettings, Settings, secret_from_env};
use penstock_gateway::settings::{
    AnswerBounds, BreakerSettings, CacheSettings, Dialect, Exit, GateSettings, Hop, HopOptions, ParkingSettings,
    Provider, RetryBudgetSettings, RetrySettings, Timers,
};
use penstock_gateway::{BuildError, Gateway, GatewayMetrics};
use penstock_telemetry::Metrics;

/// The gateway of this process.
pub(crate) fn gateway(settings: &Settings, metrics: &Metrics) -> Result<Gateway, BuildError> {
    Gateway::new(&gateway_settings(settings), metrics.register(GatewayMetrics::register))
}

/// Lets the gateway follow the settings. A call under way keeps those that it began with.
pub(crate) async fn follow(mut live: LiveSettings, gateway: Arc<Gateway>) {
    loop {
        let settings = live.changed().await;
        if let Err(error) = gateway.reconfigure(&gateway_settings(&settings)) {
            tracing::error!(%error, "the gateway cannot use the changed settings; it goes on with those before");
        }
    }
}

/// A provider whose key variable is not set is called without a key, and warned of.
fn gateway_settings(settings: &Settings) -> penstock_gateway::Settings {
    let providers = settings.providers.iter().map(|(name, provider)| {
        let api_key = secret_from_env(&provider.api_key_env);
        if api_key.is_none() && !provider.api_key_env.is_empty() {
            tracing::warn!(provider = %name, "{} is not set: provider `{name}` is called without a key", provider.api_key_env);
        }
        let dialect = match provider.dialect {
            penstock_config::Dialect::Openai => Dialect::Openai,
            penstock_config::Dialect::Anthropic => Dialect::Anthropic,
            penstock_config::Dialect::Gemini => Dialect::Gemini,
        };
        (name.clone(), Provider { dialect, api_key, ..Provider::at(provider.base_url.clone()) })
    });
    let chains = settings.chains.iter().map(|(name, chain)| {
        let hop = |hop: &penstock_config::Hop| Hop {
            exit: Exit { provider: hop.provider.clone(), model: hop.model.clone() },
            options: HopOptions::default(),
        };
        (name.clone(), chain.hops.iter().map(hop).collect())
    });
    let g = &settings.gateway;
    penstock_gateway::Settings {
        providers: providers.collect(),
        chains: chains.collect(),
        timers: Timers { connect: g.connect, first_token: g.first_token, idle: g.idle, total: g.total },
        gate: GateSettings { permits: g.permits, spacing: g.spacing, push_back: g.push_back },
        retry: RetrySettings {
            attempts: g.attempts_per_hop,
            time_box: g.time_box,
            wait: Duration::from_secs(30),
            hint_max: g.hint_max,
            budget: RetryBudgetSettings { percent: 20, per_second: 1, burst: 20 },
        },
        models: BTreeMap::new(),
        breaker: BreakerSettings::default(),
        parking: ParkingSettings { plan_exhausted: Duration::from_secs(300), denied: Duration::from_secs(60) },
        answer: AnswerBounds { event_bytes_max: g.event_bytes_max, body_bytes_max: g.body_bytes_max },
        tenant_calls_max: g.tenant_calls_max,
        hedge_after: g.hedge_after,
        cache: CacheSettings {
            bytes_max: g.cache_bytes_max,
            answer_bytes_max: g.cache_answer_bytes_max,
            keep: g.cache_keep,
        },
        idle_connections_max: g.idle_connections_max,
    }
}
