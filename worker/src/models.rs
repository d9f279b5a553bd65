//! Builds the model gateway from the settings.

use penstock_config::{Settings, secret_from_env};
use penstock_gateway::settings::{Exit, GateSettings, Provider, RetrySettings, Timers};
use penstock_gateway::{BuildError, Gateway, GatewayMetrics};
use penstock_telemetry::Metrics;

/// The gateway of this process. A provider whose key variable is not set is called without a key, and warned of.
pub(crate) fn gateway(settings: &Settings, metrics: &Metrics) -> Result<Gateway, BuildError> {
    let providers = settings.providers.iter().map(|(name, provider)| {
        let api_key = secret_from_env(&provider.api_key_env);
        if api_key.is_none() && !provider.api_key_env.is_empty() {
            tracing::warn!(provider = %name, "{} is not set: provider `{name}` is called without a key", provider.api_key_env);
        }
        (name.clone(), Provider { base_url: provider.base_url.clone(), api_key })
    });
    let chains = settings.chains.iter().map(|(name, chain)| {
        let exit = |hop: &penstock_config::Hop| Exit { provider: hop.provider.clone(), model: hop.model.clone() };
        (name.clone(), chain.hops.iter().map(exit).collect())
    });
    let g = &settings.gateway;
    let settings = penstock_gateway::Settings {
        providers: providers.collect(),
        chains: chains.collect(),
        timers: Timers { connect: g.connect, first_token: g.first_token, idle: g.idle, total: g.total },
        gate: GateSettings { permits: g.permits, spacing: g.spacing, push_back: g.push_back },
        retry: RetrySettings { attempts: g.attempts_per_hop, time_box: g.time_box },
        idle_connections_max: g.idle_connections_max,
    };
    Gateway::new(&settings, metrics.register(GatewayMetrics::register))
}
