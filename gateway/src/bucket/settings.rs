//! What the buckets are built from. Defaults, ranges and the checks between values stand with the settings file.

use std::collections::BTreeMap;
use std::time::Duration;

use penstock_config::{BucketStart, Limit, Settings};
use secrecy::SecretString;

use super::limits::MINUTE_MS;
use super::{Carve, Limits, Rules};

/// Longest look at another exit's tokens by a call that waits no more.
const TAKE_NOW_MAX: Duration = Duration::from_millis(100);
/// The section of limits for every exit.
const GLOBAL: &str = "default";

/// Buckets of one process.
#[derive(Clone, Debug)]
pub struct BucketSettings {
    /// Part of every key, so that two deployments on one Redis never see each other.
    pub deployment: String,
    /// Where levels are shared.
    pub redis: LinkSettings,
    /// The limits.
    pub limits: LimitTable,
    /// How calls wait for them.
    pub wait: WaitSettings,
    /// Length of a minute; another one only for trials.
    pub minute_ms: u64,
}

/// Redis, and what happens without it.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// `redis://` or `rediss://`.
    pub url: SecretString,
    /// Longest time to open a connection.
    pub connect_timeout: Duration,
    /// Longest wait of a call for Redis.
    pub call_timeout: Duration,
    /// How long Redis is left alone after it was slow.
    pub cool_down: Duration,
    /// Part of each limit that this process uses alone meanwhile.
    pub local_share: f64,
}

/// Limits by model, by provider, and for all.
#[derive(Clone, Debug, Default)]
pub struct LimitTable {
    /// For every exit.
    pub global: Limits,
    /// By name of the provider.
    pub providers: BTreeMap<String, Limits>,
    /// By `provider/model`.
    pub models: BTreeMap<String, Limits>,
}

/// How a call waits for tokens.
#[derive(Clone, Debug)]
pub struct WaitSettings {
    /// After this long the caller is told that it waits.
    pub told_after: Duration,
    /// Longest look at an exit's tokens by a call that waits no more.
    pub take_now_max: Duration,
    /// Least time between two passes of one exit in this process.
    pub pass_spacing: Duration,
    /// Part of each limit that passes may use, over all processes. 0: any.
    pub pass_share: f64,
    /// Most calls in the line of one exit.
    pub waiting_max: usize,
    /// Most calls of one exit that wait at the gate with tokens in hand.
    pub ahead: usize,
}

impl LimitTable {
    pub(crate) fn rules(&self, provider: &str, model: &str, minute_ms: u64) -> Rules {
        let none = Limits::default();
        let of_model = self.models.get(&format!("{provider}/{model}")).unwrap_or(&none);
        let of_provider = self.providers.get(provider).unwrap_or(&none);
        Rules::of_period([of_model, of_provider, &self.global], minute_ms)
    }
}

impl BucketSettings {
    /// What the settings of a process say. Every process reads them here: one that named another deployment, or carved
    /// another burst, would contradict the others.
    #[must_use]
    pub fn from_settings(settings: &Settings) -> Self {
        let buckets = &settings.buckets;
        Self {
            deployment: settings.deployment.id.clone(),
            redis: LinkSettings {
                url: settings.redis.url.clone(),
                connect_timeout: settings.redis.connect_timeout,
                call_timeout: buckets.timeout,
                cool_down: buckets.cool_down,
                local_share: buckets.local_share,
            },
            limits: LimitTable::from_settings(settings),
            wait: WaitSettings {
                told_after: buckets.told,
                take_now_max: TAKE_NOW_MAX,
                pass_spacing: buckets.pass_spacing,
                pass_share: buckets.pass_share,
                waiting_max: buckets.waiting_max,
                ahead: buckets.ahead,
            },
            minute_ms: MINUTE_MS,
        }
    }
}

impl LimitTable {
    fn from_settings(settings: &Settings) -> Self {
        let mut table = Self::default();
        for (name, limit) in &settings.limits {
            let limits = Limits::of(limit);
            if name == GLOBAL {
                table.global = limits;
            } else if name.contains('/') {
                table.models.insert(name.clone(), limits);
            } else {
                table.providers.insert(name.clone(), limits);
            }
        }
        table
    }
}

impl Limits {
    fn of(limit: &Limit) -> Self {
        let carve = limit.carve.map(|carve| match carve {
            penstock_config::Carve::Burst => Carve::Burst,
            penstock_config::Carve::LargestCall => Carve::LargestCall { tokens: limit.largest_call_tokens },
        });
        Self {
            rpm: limit.rpm,
            tpm: limit.tpm,
            input_tpm: limit.input_tpm,
            output_tpm: limit.output_tpm,
            ipm: limit.ipm,
            rpd: limit.rpd,
            tpd: limit.tpd,
            burst: limit.burst,
            starts_full: limit.start.map(|start| start == BucketStart::Full),
            carve,
            day_reset: limit.day_reset,
        }
    }
}

impl Default for BucketSettings {
    /// No limits, so nothing is asked of anybody.
    fn default() -> Self {
        Self {
            deployment: "penstock".into(),
            redis: LinkSettings {
                url: "redis://127.0.0.1:6379/".to_owned().into(),
                connect_timeout: Duration::from_secs(2),
                call_timeout: Duration::from_millis(50),
                cool_down: Duration::from_secs(10),
                local_share: 1.0,
            },
            limits: LimitTable::default(),
            wait: WaitSettings::default(),
            minute_ms: MINUTE_MS,
        }
    }
}

impl Default for WaitSettings {
    fn default() -> Self {
        Self {
            told_after: Duration::from_secs(2),
            take_now_max: TAKE_NOW_MAX,
            pass_spacing: Duration::from_secs(1),
            pass_share: 0.0,
            waiting_max: 10_000,
            ahead: 4,
        }
    }
}
