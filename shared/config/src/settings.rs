//! The typed settings. Meanings, units and ranges stand beside the defaults in `default.toml`.
#![expect(missing_docs, reason = "each field is documented once, in default.toml, which is also the printed reference")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use secrecy::SecretString;
use serde::{Deserialize, Deserializer};

use crate::duration::ms;
use crate::limit::{Buckets, Limit};
use crate::network::Network;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub deployment: Deployment,
    pub redis: Redis,
    pub mysql: Mysql,
    pub api: Api,
    pub queue: Queue,
    pub events: Events,
    pub worker: Worker,
    pub gateway: Gateway,
    pub breaker: Breaker,
    pub schedule: Schedule,
    pub webhook: Webhook,
    pub retention: Retention,
    pub log: Log,
    pub providers: BTreeMap<String, Provider>,
    #[serde(default)]
    pub models: BTreeMap<ExitName, Model>,
    pub chains: BTreeMap<String, Chain>,
    pub buckets: Buckets,
    pub limits: BTreeMap<String, Limit>,
    pub agents: BTreeMap<String, Agent>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Deployment {
    pub id: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Redis {
    pub url: SecretString,
    #[serde(rename = "admission_timeout_ms", deserialize_with = "ms")]
    pub admission_timeout: Duration,
    #[serde(rename = "script_timeout_ms", deserialize_with = "ms")]
    pub script_timeout: Duration,
    #[serde(rename = "connect_timeout_ms", deserialize_with = "ms")]
    pub connect_timeout: Duration,
    #[serde(rename = "judge_every_ms", deserialize_with = "ms")]
    pub judge_every: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mysql {
    pub url: SecretString,
    pub pool_max: u32,
    #[serde(rename = "timeout_ms", deserialize_with = "ms")]
    pub timeout: Duration,
    pub batch_rows_max: usize,
    pub batch_waiting_max: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Api {
    pub listen: SocketAddr,
    pub public_url: String,
    pub body_bytes_max: usize,
    pub batch_items_max: usize,
    pub batch_bytes_max: usize,
    pub batch_concurrency: usize,
    pub requests_max: usize,
    #[serde(rename = "request_timeout_ms", deserialize_with = "ms")]
    pub request_timeout: Duration,
    #[serde(rename = "keys_refresh_ms", deserialize_with = "ms")]
    pub keys_refresh: Duration,
    #[serde(rename = "drain_ms", deserialize_with = "ms")]
    pub drain: Duration,
    pub allowed_origins: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Queue {
    pub name: String,
    pub depth_max: u64,
    pub tenant_depth_max: u64,
    pub user_live_max: u64,
    pub tenant_running_max: u64,
    pub delayed_max: u64,
    pub tenant_delayed_max: u64,
    #[serde(rename = "delay_ms_max", deserialize_with = "ms")]
    pub delay_max: Duration,
    #[serde(rename = "lease_ms", deserialize_with = "ms")]
    pub lease: Duration,
    #[serde(rename = "beat_every_ms", deserialize_with = "ms")]
    pub beat_every: Duration,
    pub crashes_max: u32,
    pub failures_max: u32,
    pub quarantine_crashes_min: u32,
    pub quarantine_running_max: u32,
    #[serde(rename = "back_off_ms_min", deserialize_with = "ms")]
    pub back_off_min: Duration,
    #[serde(rename = "back_off_ms_max", deserialize_with = "ms")]
    pub back_off_max: Duration,
    #[serde(rename = "hint_ms_max", deserialize_with = "ms")]
    pub hint_max: Duration,
    #[serde(rename = "cancel_grace_ms", deserialize_with = "ms")]
    pub cancel_grace: Duration,
    pub dead_batch_max: u32,
    pub priority_head_start_ms: u64,
    pub task_cost_tokens: u64,
    pub task_cost_tokens_max: u64,
    pub debt_max_tokens: u64,
    #[serde(rename = "reconcile_every_ms", deserialize_with = "ms")]
    pub reconcile_every: Duration,
    #[serde(rename = "reconcile_age_min_ms", deserialize_with = "ms")]
    pub reconcile_age_min: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Events {
    #[serde(rename = "keep_ms", deserialize_with = "ms")]
    pub keep: Duration,
    #[serde(rename = "merge_ms", deserialize_with = "ms")]
    pub merge: Duration,
    pub merge_bytes_max: usize,
    pub reader_bytes_max: usize,
    pub sockets_max: usize,
    pub sockets_per_key_max: usize,
    pub tasks_per_socket_max: usize,
    #[serde(rename = "unknown_task_wait_ms", deserialize_with = "ms")]
    pub unknown_task_wait: Duration,
    #[serde(rename = "ping_every_ms", deserialize_with = "ms")]
    pub ping_every: Duration,
    #[serde(rename = "standing_every_ms", deserialize_with = "ms")]
    pub standing_every: Duration,
    pub standings_per_second_max: u32,
    #[serde(rename = "silence_ms", deserialize_with = "ms")]
    pub silence: Duration,
    #[serde(rename = "disconnect_grace_ms", deserialize_with = "ms")]
    pub disconnect_grace: Duration,
    #[serde(rename = "ticket_ms", deserialize_with = "ms")]
    pub ticket: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    pub slots: usize,
    #[serde(deserialize_with = "optional_address")]
    pub listen: Option<SocketAddr>,
    #[serde(rename = "drain_ms", deserialize_with = "ms")]
    pub drain: Duration,
    #[serde(rename = "attempt_ms_max", deserialize_with = "ms")]
    pub attempt_max: Duration,
    #[serde(rename = "stop_grace_ms", deserialize_with = "ms")]
    pub stop_grace: Duration,
    pub wedged_max: usize,
    pub history_messages_max: u32,
    pub history_bytes_max: usize,
    pub answer_bytes_max: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gateway {
    #[serde(rename = "connect_ms", deserialize_with = "ms")]
    pub connect: Duration,
    #[serde(rename = "first_token_ms", deserialize_with = "ms")]
    pub first_token: Duration,
    #[serde(rename = "idle_ms", deserialize_with = "ms")]
    pub idle: Duration,
    #[serde(rename = "total_ms", deserialize_with = "ms")]
    pub total: Duration,
    pub permits: usize,
    #[serde(rename = "spacing_ms", deserialize_with = "ms")]
    pub spacing: Duration,
    #[serde(rename = "push_back_ms", deserialize_with = "ms")]
    pub push_back: Duration,
    #[serde(rename = "push_back_spacing_ms", deserialize_with = "ms")]
    pub push_back_spacing: Duration,
    pub attempts_per_hop: u32,
    #[serde(rename = "time_box_ms", deserialize_with = "ms")]
    pub time_box: Duration,
    #[serde(rename = "hint_ms_max", deserialize_with = "ms")]
    pub hint_max: Duration,
    pub tenant_calls_max: usize,
    #[serde(rename = "hedge_after_ms", deserialize_with = "ms")]
    pub hedge_after: Duration,
    pub cache_bytes_max: usize,
    pub cache_answer_bytes_max: usize,
    #[serde(rename = "cache_keep_ms", deserialize_with = "ms")]
    pub cache_keep: Duration,
    pub event_bytes_max: usize,
    pub body_bytes_max: usize,
    #[serde(rename = "wait_ms", deserialize_with = "ms")]
    pub wait: Duration,
    pub retry_percent: u32,
    pub retry_per_second: u32,
    pub retry_burst: u32,
    #[serde(rename = "parked_plan_ms", deserialize_with = "ms")]
    pub parked_plan: Duration,
    #[serde(rename = "parked_denied_ms", deserialize_with = "ms")]
    pub parked_denied: Duration,
    pub idle_connections_max: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    pub ended_days: u64,
    pub failed_days: u64,
    pub rows_max: u32,
    #[serde(rename = "sweep_every_ms", deserialize_with = "ms")]
    pub sweep_every: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Breaker {
    pub failures: u32,
    #[serde(rename = "cool_down_ms", deserialize_with = "ms")]
    pub cool_down: Duration,
    #[serde(rename = "cool_down_ms_max", deserialize_with = "ms")]
    pub cool_down_max: Duration,
    pub successes_to_close: u32,
    #[serde(rename = "rate_window_ms", deserialize_with = "ms")]
    pub rate_window: Duration,
    pub rate_calls_min: u32,
    pub rate_failures_percent: u32,
    pub rate_timeouts_percent: u32,
    pub rate_errors_percent: u32,
    pub is_shared: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    pub tenant_max: u32,
    #[serde(rename = "misfire_after_ms", deserialize_with = "ms")]
    pub misfire_after: Duration,
    pub misfire_max: u32,
    #[serde(rename = "retry_for_ms", deserialize_with = "ms")]
    pub retry_for: Duration,
    pub history_max: u32,
    pub concurrency: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    pub allow_http: bool,
    pub allowed_networks: Vec<Network>,
    #[serde(rename = "connect_ms", deserialize_with = "ms")]
    pub connect: Duration,
    #[serde(rename = "total_ms", deserialize_with = "ms")]
    pub total: Duration,
    pub concurrency: usize,
    pub target_concurrency: usize,
    #[serde(rename = "back_off_ms", deserialize_with = "ms")]
    pub back_off: Duration,
    #[serde(rename = "back_off_ms_max", deserialize_with = "ms")]
    pub back_off_max: Duration,
    pub tries_max: u32,
    #[serde(rename = "give_up_ms", deserialize_with = "ms")]
    pub give_up: Duration,
    #[serde(rename = "keep_ms", deserialize_with = "ms")]
    pub keep: Duration,
    #[serde(rename = "secret_overlap_ms", deserialize_with = "ms")]
    pub secret_overlap: Duration,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Log {
    pub filter: String,
    pub format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Provider {
    pub dialect: Dialect,
    #[serde(default)]
    pub base_url: String,
    #[serde(default)]
    pub api_key_env: String,
    #[serde(default)]
    pub vendor: String,
    #[serde(default = "counted")]
    pub breaker_count: Vec<CountedOutcome>,
    #[serde(default)]
    pub endpoints: BTreeMap<String, Endpoint>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    pub base_url: String,
    #[serde(default = "one")]
    pub weight: u32,
}

/// What a breaker may count. Rate limits, slow streams, faults of the request and cancels never are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedOutcome {
    Connect,
    Server,
    FirstToken,
    Broken,
    Undecodable,
    Empty,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Model {
    #[serde(default, rename = "first_token_ms", deserialize_with = "optional_ms")]
    pub first_token: Option<Duration>,
    #[serde(default, rename = "idle_ms", deserialize_with = "optional_ms")]
    pub idle: Option<Duration>,
    #[serde(default, rename = "total_ms", deserialize_with = "optional_ms")]
    pub total: Option<Duration>,
    pub context_tokens: Option<u64>,
    pub tools: Option<bool>,
    pub vision: Option<bool>,
    pub json_schema: Option<bool>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    Openai,
    Anthropic,
    Gemini,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Chain {
    pub hops: Vec<Hop>,
}

/// One exit, written `provider/model`; a model name may itself hold slashes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ExitName {
    pub provider: String,
    pub model: String,
}

/// One place in a chain: `provider/model`, or a table that also says how requests are changed for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
    pub exit: ExitName,
    pub set: toml::Table,
    pub drop: Vec<String>,
    pub cache_markers: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agent {
    pub chain: String,
    #[serde(default)]
    pub instructions: String,
    #[serde(default)]
    pub cache: bool,
    #[serde(default)]
    pub fallback_answer: String,
}

impl std::str::FromStr for ExitName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                Ok(Self { provider: provider.to_owned(), model: model.to_owned() })
            }
            _ => Err(format!("`{text}` is not `provider/model`")),
        }
    }
}

impl<'de> Deserialize<'de> for ExitName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl<'de> Deserialize<'de> for Hop {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Whole {
            exit: ExitName,
            #[serde(default)]
            set: toml::Table,
            #[serde(default)]
            drop: Vec<String>,
            #[serde(default)]
            cache_markers: bool,
        }

        match toml::Value::deserialize(from)? {
            toml::Value::String(text) => {
                let exit = text.parse().map_err(serde::de::Error::custom)?;
                Ok(Self { exit, set: toml::Table::new(), drop: Vec::new(), cache_markers: false })
            }
            whole => {
                let Whole { exit, set, drop, cache_markers } =
                    whole.try_into().map_err(|error: toml::de::Error| serde::de::Error::custom(error.message()))?;
                Ok(Self { exit, set, drop, cache_markers })
            }
        }
    }
}

fn counted() -> Vec<CountedOutcome> {
    vec![CountedOutcome::Connect, CountedOutcome::Server, CountedOutcome::FirstToken, CountedOutcome::Broken]
}

fn one() -> u32 {
    1
}

fn optional_ms<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    ms(from).map(Some)
}

fn optional_address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| serde::de::Error::custom(format!("`{text}` is not `address:port`")))
}
