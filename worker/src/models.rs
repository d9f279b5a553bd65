//! Builds the model gateway from the settings, and keeps it as they say.

use std::sync::Arc;

use penstock_config::{CountedOutcome, LiveSettings, Settings, secret_from_env};
use penstock_gateway::settings::{
    AnswerBounds, BreakerSettings, CacheSettings, Dialect, Endpoint, Exit, GateSettings, Hop, HopOptions, Model,
    ParkingSettings, Provider, RateSettings, RetryBudgetSettings, RetrySettings, Timers,
};
use penstock_gateway::{BuildError, Fields, Gateway, GatewayMetrics, Outcome};
use penstock_telemetry::Metrics;

/// The gateway of this process.
pub(crate) fn gateway(settings: &Settings, metrics: &Metrics) -> Result<Gateway, BuildError> {
    Gateway::new(&gateway_settings(settings)?, metrics.register(GatewayMetrics::register))
}

/// Takes changed settings into the gateway for as long as it is polled. Calls under way end as they began.
pub(crate) async fn follow(gateway: Arc<Gateway>, mut live: LiveSettings) {
    loop {
        let settings = live.changed().await;
        let taken = gateway_settings(&settings).and_then(|settings| gateway.reconfigure(&settings));
        if let Err(error) = taken {
            tracing::error!(%error, "the changed settings of the gateway are refused; those before stay in force");
        }
    }
}

/// A provider whose key variable is not set is called without a key, and warned of.
fn gateway_settings(settings: &Settings) -> Result<penstock_gateway::Settings, BuildError> {
    let mut chains = std::collections::BTreeMap::new();
    for (name, chain) in &settings.chains {
        chains.insert(name.clone(), chain.hops.iter().map(hop).collect::<Result<_, _>>()?);
    }
    let g = &settings.gateway;
    let budget = RetryBudgetSettings { percent: g.retry_percent, per_second: g.retry_per_second, burst: g.retry_burst };
    Ok(penstock_gateway::Settings {
        providers: settings.providers.iter().map(|(name, given)| (name.clone(), provider(name, given))).collect(),
        chains,
        models: settings.models.iter().map(|(name, given)| (exit(name), model(given))).collect(),
        timers: Timers { connect: g.connect, first_token: g.first_token, idle: g.idle, total: g.total },
        gate: GateSettings { permits: g.permits, spacing: g.spacing, push_back: g.push_back },
        retry: RetrySettings {
            attempts: g.attempts_per_hop,
            time_box: g.time_box,
            wait: g.wait,
            hint_max: g.hint_max,
            budget,
        },
        answer: AnswerBounds { event_bytes_max: g.event_bytes_max, body_bytes_max: g.body_bytes_max },
        tenant_calls_max: g.tenant_calls_max,
        hedge_after: g.hedge_after,
        cache: CacheSettings {
            bytes_max: g.cache_bytes_max,
            answer_bytes_max: g.cache_answer_bytes_max,
            keep: g.cache_keep,
        },
        breaker: breaker(&settings.breaker),
        parking: ParkingSettings { plan_exhausted: g.parked_plan, denied: g.parked_denied },
        idle_connections_max: g.idle_connections_max,
    })
}

fn provider(name: &str, given: &penstock_config::Provider) -> Provider {
    let api_key = secret_from_env(&given.api_key_env);
    if api_key.is_none() && !given.api_key_env.is_empty() {
        tracing::warn!(provider = %name, "{} is not set: provider `{name}` is called without a key", given.api_key_env);
    }
    let dialect = match given.dialect {
        penstock_config::Dialect::Openai => Dialect::Openai,
        penstock_config::Dialect::Anthropic => Dialect::Anthropic,
        penstock_config::Dialect::Gemini => Dialect::Gemini,
    };
    let mut provider = Provider {
        dialect,
        api_key,
        vendor: Some(given.vendor.clone()).filter(|vendor| !vendor.is_empty()),
        breaker_count: given.breaker_count.iter().map(|counted| outcome(*counted)).collect(),
        ..Provider::at(given.base_url.clone())
    };
    if !given.endpoints.is_empty() {
        let endpoint = |(label, at): (&String, &penstock_config::Endpoint)| Endpoint {
            label: label.clone(),
            base_url: at.base_url.clone(),
            weight: at.weight,
        };
        provider.endpoints = given.endpoints.iter().map(endpoint).collect();
    }
    provider
}

fn outcome(counted: CountedOutcome) -> Outcome {
    match counted {
        CountedOutcome::Connect => Outcome::Connect,
        CountedOutcome::Server => Outcome::Server,
        CountedOutcome::FirstToken => Outcome::FirstToken,
        CountedOutcome::Broken => Outcome::Broken,
        CountedOutcome::Undecodable => Outcome::Undecodable,
        CountedOutcome::Empty => Outcome::Empty,
    }
}

fn exit(name: &penstock_config::ExitName) -> Exit {
    Exit { provider: name.provider.clone(), model: name.model.clone() }
}

fn hop(given: &penstock_config::Hop) -> Result<Hop, BuildError> {
    let mut set = Fields::new();
    for (name, value) in &given.set {
        set.set(name, value).map_err(|cause| BuildError::Option { name: name.clone(), cause })?;
    }
    let options = HopOptions { set, drop: given.drop.clone(), has_cache_markers: given.cache_markers };
    Ok(Hop { exit: exit(&given.exit), options })
}

fn model(given: &penstock_config::Model) -> Model {
    Model {
        first_token: given.first_token,
        idle: given.idle,
        total: given.total,
        context_tokens: given.context_tokens,
        tools: given.tools,
        vision: given.vision,
        json_schema: given.json_schema,
    }
}

fn breaker(given: &penstock_config::Breaker) -> BreakerSettings {
    BreakerSettings {
        failures: given.failures,
        cool_down: given.cool_down,
        cool_down_max: given.cool_down_max,
        successes_to_close: given.successes_to_close,
        rate: RateSettings {
            window: given.rate_window,
            calls_min: given.rate_calls_min,
            failures_percent: given.rate_failures_percent,
            timeouts_percent: given.rate_timeouts_percent,
            errors_percent: given.rate_errors_percent,
        },
    }
}
