//! The gateway of one process: its routes and the door for calls.
//!
//! Called by the worker's agent loop, once per turn. How a call goes stands in `call`, one try of it in `attempt`.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use arc_swap::ArcSwap;
use penstock_protocol::TaskKey;
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::breaker::{BreakerSnapshot, Forced};
use crate::cache::{AnswerCache, question};
use crate::call::Call;
use crate::error::{BuildError, GatewayError, failed};
use crate::hedge::{Won, hedged};
use crate::metrics::GatewayMetrics;
use crate::patience::Patience;
use crate::provider::Trouble;
use crate::retry::RetryBudget;
use crate::route::{Chain, Routes};
use crate::settings::Settings;
use crate::stream::LiveStream;
use crate::tenant::{TenantLease, Tenants};
use crate::{ModelRequest, ModelStream, Outcome};

/// For whom a call is made, and until when.
#[derive(Clone, Debug)]
pub struct CallScope {
    /// The task; the vendor sees its key as `x-client-request-id`.
    pub task: TaskKey,
    /// The call ends by then, wherever it stands.
    pub deadline: Option<Instant>,
    /// How long it waits for rate limits before it goes to the next hop, or fails on the last one. Without it: the setting's
    /// time, and on the last hop the whole time box.
    pub wait: Option<Duration>,
    /// Whether the answer may be one that was given before to the same question of the same tenant.
    pub cache: bool,
    /// Text that is answered, and marked, when no model answers. Not for a request that is itself at fault.
    pub fallback_answer: Option<Arc<str>>,
}

impl CallScope {
    /// A call of `task` without a deadline of its own.
    #[must_use]
    pub fn of(task: TaskKey) -> Self {
        Self { task, deadline: None, wait: None, cache: false, fallback_answer: None }
    }
}

/// One breaker, for operators.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerReport {
    /// `provider/model`.
    pub name: String,
    /// Label of the endpoint.
    pub endpoint: String,
    /// How long the exit is left alone after an answer that no retry mends, in ms.
    pub parked_ms: Option<u64>,
    /// Its state.
    #[serde(flatten)]
    pub breaker: BreakerSnapshot,
}

impl BreakerReport {
    /// The name of this one breaker.
    #[must_use]
    pub fn breaker_name(&self) -> String {
        format!("{} at {}", self.name, self.endpoint)
    }
}

/// The model gateway of one process.
#[derive(Debug)]
pub struct Gateway {
    routes: ArcSwap<Routes>,
    retry_budget: RetryBudget,
    cache: Arc<AnswerCache>,
    tenants: Arc<Tenants>,
    metrics: GatewayMetrics,
}

impl Gateway {
    /// Builds the gateway; nothing is connected yet.
    ///
    /// # Errors
    /// When a chain names an unknown provider or none, or a URL or key cannot be used.
    pub fn new(settings: &Settings, metrics: GatewayMetrics) -> Result<Self, BuildError> {
        let routes = Routes::build(settings, None)?;
        let retry_budget = RetryBudget::new(&settings.retry.budget);
        Ok(Self {
            routes: ArcSwap::from_pointee(routes),
            retry_budget,
            cache: AnswerCache::new(),
            tenants: Arc::default(),
            metrics,
        })
    }

    /// Takes new settings for every call that begins from now on. Breakers, gates and parked exits keep their state.
    ///
    /// # Errors
    /// When the settings cannot be used; the old ones stay.
    pub fn reconfigure(&self, settings: &Settings) -> Result<(), BuildError> {
        let routes = Routes::build(settings, Some(&self.routes.load()))?;
        self.routes.store(Arc::new(routes));
        Ok(())
    }

    /// Every breaker, as it stands.
    #[must_use]
    pub fn breakers(&self) -> Vec<BreakerReport> {
        let routes = self.routes.load();
        let mut reports: Vec<_> = routes.exits.values().flat_map(|exit| exit.reports()).collect();
        reports.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.endpoint.cmp(&b.endpoint)));
        reports
    }

    /// Holds the breakers of `provider/model` (all its endpoints) in a state, or lets go of them. Whether there are any.
    pub fn force(&self, name: &str, forced: Option<Forced>) -> bool {
        let routes = self.routes.load();
        let exit = routes.exits.values().find(|exit| exit.labels.to_string() == name);
        for endpoint in exit.into_iter().flat_map(|exit| &exit.endpoints) {
            endpoint.breaker.force(forced);
        }
        exit.is_some()
    }

    /// Trips that calls of this process found out: where, the trip's number, and when it is due.
    #[must_use]
    pub fn own_trips(&self) -> Vec<(BreakerReport, u64, Instant)> {
        let routes = self.routes.load();
        routes.exits.values().flat_map(|exit| exit.own_trips()).collect()
    }

    /// Takes over a trip of the breaker of `report` that another process told, until `until`.
    pub fn heard_trip(&self, report: &BreakerReport, until: Instant) {
        let routes = self.routes.load();
        let exit = routes.exits.values().find(|exit| exit.labels.to_string() == report.name);
        for endpoint in exit.into_iter().flat_map(|exit| &exit.endpoints) {
            if endpoint.label == report.endpoint {
                endpoint.breaker.trip_until(until);
            }
        }
    }

    /// Puts the states of the breakers into the metrics; called when somebody asks for them.
    pub fn observe(&self) {
        for report in self.breakers() {
            self.metrics.breaker(&report);
        }
    }

    /// Asks a model and returns when the first token is there.
    ///
    /// Cancel: drop the future, or later the stream. Either closes the connection to the vendor.
    ///
    /// # Errors
    /// [`GatewayError::Failed`] when no hop gave a first token within its attempts and the time box,
    /// [`GatewayError::AllExitsDown`] when every hop was closed off and nothing was sent.
    pub async fn stream(&self, request: &ModelRequest, scope: &CallScope) -> Result<ModelStream, GatewayError> {
        let routes = self.routes.load_full();
        let chain = routes
            .chains
            .get(&request.chain)
            .ok_or_else(|| GatewayError::UnknownChain { chain: request.chain.clone() })?;
        let asked = match scope.cache && routes.cache.bytes_max > 0 {
            true => question(scope.task.tenant, request),
            false => None,
        };
        if let Some(kept) = asked.as_ref().and_then(|question| self.cache.get(question)) {
            self.metrics.cached(true);
            tracing::debug!("the answer is kept from before");
            return Ok(ModelStream::kept(kept));
        }
        match self.live(&routes, chain, request, scope).await {
            Ok((live, lease)) => {
                let recording = asked.map(|question| {
                    self.metrics.cached(false);
                    self.cache.record(question, live.exit(), routes.cache)
                });
                Ok(ModelStream::live(live, recording, lease))
            }
            Err(error) => match &scope.fallback_answer {
                Some(text) if is_nobodys(&error) => {
                    tracing::warn!(%error, "a call gets the caller's fallback answer");
                    self.metrics.fallback_answer();
                    Ok(ModelStream::fallback_answer(text))
                }
                _ => Err(error),
            },
        }
    }

    /// Asks the chain once the tenant may call, with a hedge where the settings want one.
    async fn live(
        &self,
        routes: &Routes,
        chain: &Chain,
        request: &ModelRequest,
        scope: &CallScope,
    ) -> Result<(LiveStream, Option<TenantLease>), GatewayError> {
        let give_up = Instant::now() + routes.retry.time_box;
        let lease = match routes.tenant_calls_max {
            0 => None,
            calls_max => {
                let until = scope.deadline.map_or(give_up, |deadline| deadline.min(give_up));
                let lease = self.tenants.enter(scope.task.tenant, calls_max, until).await;
                tracing::debug!(is_granted = lease.is_some(), "the tenant's calls at once");
                Some(lease.ok_or_else(|| out_of_turn(chain, until < give_up))?)
            }
        };
        self.retry_budget.deposit(&routes.retry.budget);
        let is_hedged = AtomicBool::new(false);
        let call = |is_hedge| Call {
            routes,
            metrics: &self.metrics,
            retry_budget: &self.retry_budget,
            request,
            scope,
            give_up,
            patience: Patience::new(scope.wait.unwrap_or(routes.retry.wait)),
            attempts: 0,
            is_hedge,
            is_hedged: &is_hedged,
        };
        if routes.hedge_after.is_zero() || chain.hops.len() < 2 {
            return Ok((call(false).along(chain).await?, lease));
        }
        // Boxed, since two of them would make every caller's future twice as large.
        let first = Box::pin(call(false).along(chain));
        let second = Box::pin(call(true).along(chain));
        let (live, won) = hedged(first, second, routes.hedge_after, &is_hedged).await?;
        if is_hedged.into_inner() {
            self.metrics.hedged(won == Won::Second);
        }
        Ok((live, lease))
    }
}

/// A call whose tenant had too many others under way until its time was over. Nothing was sent.
fn out_of_turn(chain: &Chain, is_deadline: bool) -> GatewayError {
    let outcome = if is_deadline { Outcome::Deadline } else { Outcome::NoPermit };
    failed(&chain.first().exit, Trouble::own(outcome, "too many calls of this tenant run at once"), 0).into()
}

/// Whether nobody could answer, as opposed to a request that nobody would answer, or a caller whose time is over.
fn is_nobodys(error: &GatewayError) -> bool {
    match error {
        GatewayError::AllExitsDown { .. } => true,
        GatewayError::Failed(failed) => {
            !matches!(failed.outcome, Outcome::Refused | Outcome::ContextTooLong | Outcome::Deadline | Outcome::Dropped)
        }
        GatewayError::UnknownChain { .. } | GatewayError::Unwritable(_) => false,
    }
}
