//! One place that serves an exit: where its calls go, what they carry, its breaker, and how many are under way.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::Url;
use reqwest::header::HeaderMap;

use crate::breaker::{BreakerPass, BreakerSettings, Refused, SharedBreaker};
use crate::error::BuildError;
use crate::settings::{self, Exit, Provider};

/// An endpoint at run time.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) label: String,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) breaker: Arc<SharedBreaker>,
    weight: u32,
    in_flight: AtomicU64,
}

/// The right to call one endpoint. While it lives the call counts as in flight; dropped without a report, it is a neutral one.
#[derive(Debug)]
pub(crate) struct Passage {
    endpoint: Arc<Endpoint>,
    pub(crate) breaker: BreakerPass,
}

impl Endpoint {
    /// `breaker`: of the same endpoint before the settings changed.
    pub(crate) fn new(
        endpoint: &settings::Endpoint,
        exit: &Exit,
        provider: &Provider,
        breaker: BreakerSettings,
        held: Option<Arc<SharedBreaker>>,
    ) -> Result<Self, BuildError> {
        let url = Url::parse(&provider.dialect.url(&endpoint.base_url, &exit.model))
            .ok()
            .filter(|url| matches!(url.scheme(), "http" | "https"))
            .ok_or_else(|| BuildError::BaseUrl {
                provider: exit.provider.clone(),
                base_url: endpoint.base_url.clone(),
            })?;
        let headers = provider
            .dialect
            .headers(provider.api_key.as_ref())
            .map_err(|_| BuildError::ApiKey { provider: exit.provider.clone() })?;
        let breaker = match held {
            Some(held) => {
                held.set(breaker);
                held
            }
            None => SharedBreaker::new(format!("{}/{} at {}", exit.provider, exit.model, endpoint.label), breaker),
        };
        let weight = endpoint.weight.max(1);
        Ok(Self { label: endpoint.label.clone(), url, headers, breaker, weight, in_flight: AtomicU64::new(0) })
    }

    /// Calls in flight, this one included, by weight. The least busy is chosen.
    pub(crate) fn load(&self) -> u64 {
        (self.in_flight.load(Ordering::Relaxed) + 1).saturating_mul(1_000) / u64::from(self.weight)
    }

    pub(crate) fn pass(self: &Arc<Self>) -> Result<Passage, Refused> {
        let breaker = self.breaker.pass()?;
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Ok(Passage { endpoint: Arc::clone(self), breaker })
    }
}

impl Passage {
    pub(crate) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        self.endpoint.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
