//! One exit at run time: where its calls go, what they carry, and its gate.

use std::sync::Arc;

use reqwest::Url;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue};
use secrecy::ExposeSecret;

use crate::error::BuildError;
use crate::gate::Gate;
use crate::metrics::ExitLabels;
use crate::settings::{Exit, GateSettings, Provider};

/// A provider and model, shared by every chain that names it.
#[derive(Debug)]
pub(crate) struct Hop {
    pub(crate) labels: ExitLabels,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) gate: Gate,
    /// DashScope says `insufficient_quota` when tokens per minute are used up; elsewhere it means no money.
    pub(crate) is_quota_throttle: bool,
}

impl Hop {
    pub(crate) fn new(exit: &Exit, provider: &Provider, gate: GateSettings) -> Result<Self, BuildError> {
        let name = || exit.provider.clone();
        let endpoint = format!("{}/chat/completions", provider.base_url.trim_end_matches('/'));
        let url = Url::parse(&endpoint)
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .ok_or_else(|| BuildError::BaseUrl { provider: name(), base_url: provider.base_url.clone() })?;
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        if let Some(key) = &provider.api_key {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose_secret()))
                .map_err(|_| BuildError::ApiKey { provider: name() })?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        Ok(Self {
            is_quota_throttle: url.host_str().is_some_and(|host| host.ends_with(".aliyuncs.com")),
            labels: ExitLabels { provider: Arc::from(exit.provider.as_str()), model: Arc::from(exit.model.as_str()) },
            url,
            headers,
            gate: Gate::new(gate),
        })
    }
}
