//! The way of one call: route, then for its exit gate and attempt, then again or not.
//!
//! Law 9: nothing is tried again once the first token is out. Law 12: attempts, waits and the time before the first token are
//! bounded. Called by the worker's agent loop, once per turn.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use penstock_protocol::TaskKey;
use tokio::time::{Instant, sleep, timeout_at};

use crate::attempt::{Attempt, Tally, open};
use crate::client::http_client;
use crate::error::{BuildError, GatewayError, failed};
use crate::hop::Hop;
use crate::metrics::GatewayMetrics;
use crate::provider::openai::{Trouble, request_body};
use crate::retry::{Again, back_off, jitter_up, same_hop_again};
use crate::settings::{RetrySettings, Settings, Timers};
use crate::{ModelRequest, ModelStream, Outcome};

/// Longest wait of one call for a vendor's hint; a longer one is told to the caller instead.
const HINT_MAX: Duration = Duration::from_secs(60);

/// For whom a call is made, and until when.
#[derive(Clone, Debug)]
pub struct CallScope {
    /// The task; the vendor sees its key as `x-client-request-id`.
    pub task: TaskKey,
    /// The call ends by then, wherever it stands.
    pub deadline: Option<Instant>,
}

/// The model gateway of one process.
#[derive(Debug)]
pub struct Gateway {
    client: reqwest::Client,
    chains: BTreeMap<String, Chain>,
    timers: Timers,
    retry: RetrySettings,
    metrics: GatewayMetrics,
}

/// The exits that a call may try, in order.
#[derive(Debug)]
struct Chain {
    /// Never empty.
    hops: Vec<Arc<Hop>>,
}

impl Gateway {
    /// Builds the gateway; nothing is connected yet.
    ///
    /// # Errors
    /// When a chain names an unknown provider or none, or a URL or key cannot be used.
    pub fn new(settings: &Settings, metrics: GatewayMetrics) -> Result<Self, BuildError> {
        // One hop per exit, however many chains name it: they share its gate.
        let mut hops = HashMap::new();
        let mut chains = BTreeMap::new();
        for (name, exits) in &settings.chains {
            let mut chain = Vec::with_capacity(exits.len());
            for exit in exits {
                let hop = match hops.get(exit) {
                    Some(hop) => Arc::clone(hop),
                    None => {
                        let provider = settings.providers.get(&exit.provider).ok_or_else(|| {
                            BuildError::UnknownProvider { chain: name.clone(), provider: exit.provider.clone() }
                        })?;
                        let hop = Arc::new(Hop::new(exit, provider, settings.gate)?);
                        hops.insert(exit, Arc::clone(&hop));
                        hop
                    }
                };
                chain.push(hop);
            }
            let chain = Chain::new(chain).ok_or_else(|| BuildError::EmptyChain { chain: name.clone() })?;
            chains.insert(name.clone(), chain);
        }
        let has_tls = hops.values().any(|hop: &Arc<Hop>| hop.url.scheme() == "https");
        let client = http_client(settings.timers.connect, settings.idle_connections_max, has_tls)?;
        Ok(Self { client, chains, timers: settings.timers, retry: settings.retry, metrics })
    }

    /// Asks a model and returns when the first token is there.
    ///
    /// Cancel: drop the future, or later the stream. Either closes the connection to the vendor.
    ///
    /// # Errors
    /// [`GatewayError::Failed`] when the first token did not come within the attempts and the time box.
    pub async fn stream(&self, request: &ModelRequest, scope: &CallScope) -> Result<ModelStream, GatewayError> {
        let chain = self
            .chains
            .get(&request.chain)
            .ok_or_else(|| GatewayError::UnknownChain { chain: request.chain.clone() })?;
        let give_up = Instant::now() + self.retry.time_box;
        // A switch to the next hop of the chain has its place here: when the first is used up, before any token.
        self.on_hop(chain.first(), request, scope, give_up).await
    }

    /// Tries one exit, as often as its outcomes and the bounds allow.
    async fn on_hop(
        &self,
        hop: &Arc<Hop>,
        request: &ModelRequest,
        scope: &CallScope,
        give_up: Instant,
    ) -> Result<ModelStream, GatewayError> {
        let body = request_body(request, &hop.labels.model)?;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let trouble = match self.attempt(hop, body.clone(), scope, give_up).await {
                Ok(attempt) => return Ok(ModelStream::new(attempt, &self.timers, scope.deadline, attempts)),
                Err(trouble) => trouble,
            };
            if trouble.outcome == Outcome::RateLimited {
                hop.gate.push_back(trouble.hint);
            }
            let end = scope.deadline.map_or(give_up, |deadline| deadline.min(give_up));
            let wait = self.wait_before_next(hop, &trouble, attempts).filter(|wait| Instant::now() + *wait < end);
            tracing::warn!(
                provider = &*hop.labels.provider,
                model = &*hop.labels.model,
                outcome = trouble.outcome.as_str(),
                status = trouble.status,
                code = trouble.code.as_deref(),
                attempts,
                is_tried_again = wait.is_some(),
                "a model call failed before its first token"
            );
            match wait {
                Some(wait) => sleep(wait).await,
                None => return Err(failed(hop, trouble, attempts).into()),
            }
        }
    }

    /// One attempt. Its checks in their order: breaker, buckets, gate, breaker again; of these the gate stands.
    async fn attempt(
        &self,
        hop: &Arc<Hop>,
        body: Bytes,
        scope: &CallScope,
        give_up: Instant,
    ) -> Result<Attempt, Trouble> {
        let mut tally = Tally::new(Arc::clone(hop), self.metrics.clone());
        let (until, outcome) = match scope.deadline {
            Some(deadline) if deadline <= give_up => (deadline, Outcome::Deadline),
            _ => (give_up, Outcome::NoPermit),
        };
        let Ok(permit) = timeout_at(until, hop.gate.enter()).await else {
            tally.count(outcome);
            return Err(Trouble::own(outcome, ""));
        };
        open(&self.client, body, scope, &self.timers, give_up, tally, permit).await
    }

    /// How long to wait before the next attempt on the same exit; `None`: there is none.
    fn wait_before_next(&self, hop: &Hop, trouble: &Trouble, attempts: u32) -> Option<Duration> {
        if attempts >= self.retry.attempts || trouble.is_retry_useless {
            return None;
        }
        let without_hint = match same_hop_again(trouble.outcome) {
            Again::No => return None,
            Again::Once if attempts > 1 => return None,
            Again::Once | Again::Yes => back_off(attempts),
            // The gate is pushed back by its own time; that is the wait.
            Again::AfterHint => hop.gate.push_back_time(),
        };
        match trouble.hint {
            Some(hint) if hint > HINT_MAX => None,
            Some(hint) => Some(jitter_up(hint)),
            None => Some(without_hint),
        }
    }
}

impl Chain {
    /// `None` without an exit.
    fn new(hops: Vec<Arc<Hop>>) -> Option<Self> {
        (!hops.is_empty()).then_some(Self { hops })
    }

    fn first(&self) -> &Arc<Hop> {
        &self.hops[0]
    }
}
