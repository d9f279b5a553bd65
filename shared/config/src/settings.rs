//! The typed settings. Meanings, units and ranges stand beside the defaults in `default.toml`.
#![expect(missing_docs, reason = "each field is documented once, in default.toml, which is also the printed reference")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use secrecy::SecretString;
use serde::{Deserialize, Deserializer};

use crate::duration::ms;

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
    pub retention: Retention,
    pub log: Log,
    pub providers: BTreeMap<String, Provider>,
    pub chains: BTreeMap<String, Chain>,
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
    #[serde(rename = "lease_ms", deserialize_with = "ms")]
    pub lease: Duration,
    #[serde(rename = "beat_every_ms", deserialize_with = "ms")]
    pub beat_every: Duration,
    pub crashes_max: u32,
    pub failures_max: u32,
    pub priority_head_start_ms: u64,
    pub task_cost_tokens: u64,
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
    #[serde(rename = "silence_ms", deserialize_with = "ms")]
    pub silence: Duration,
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
    pub base_url: String,
    #[serde(default)]
    pub api_key_env: String,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    pub provider: String,
    pub model: String,
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

impl<'de> Deserialize<'de> for Hop {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        match text.split_once('/') {
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                Ok(Self { provider: provider.to_owned(), model: model.to_owned() })
            }
            _ => Err(serde::de::Error::custom(format!("`{text}` is not `provider/model`"))),
        }
    }
}

fn optional_address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    if text.is_empty() {
        return Ok(None);
    }
    text.parse().map(Some).map_err(|_| serde::de::Error::custom(format!("`{text}` is not `address:port`")))
}
