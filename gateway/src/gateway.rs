//! The gateway of one process: its routes and the door for calls.
//!
//! Called by the worker's agent loop, once per turn. How a call goes stands in `call`, one try of it in `attempt`.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use penstock_protocol::TaskKey;
use tokio::time::Instant;

use crate::call::Call;
use crate::error::{BuildError, GatewayError};
use crate::metrics::GatewayMetrics;
use crate::patience::Patience;
use crate::retry::RetryBudget;
use crate::route::Routes;
use crate::settings::Settings;
use crate::{ModelRequest, ModelStream};

/// For whom a call is made, and until when.
#[derive(Clone, Debug)]
pub struct CallScope {
    /// The task; the vendor sees its key as `x-client-request-id`.
    pub task: TaskKey,
    /// The call ends by then, wherever it stands.
    pub deadline: Option<Instant>,
    /// How long it waits for rate limits before it goes to the next hop; the setting's time without it.
    pub wait: Option<Duration>,
}

impl CallScope {
    /// A call of `task` without a deadline of its own.
    #[must_use]
    pub fn of(task: TaskKey) -> Self {
        Self { task, deadline: None, wait: None }
    }
}

/// The model gateway of one process.
#[derive(Debug)]
pub struct Gateway {
    routes: ArcSwap<Routes>,
    retry_budget: RetryBudget,
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
        Ok(Self { routes: ArcSwap::from_pointee(routes), retry_budget, metrics })
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
        self.retry_budget.deposit(&routes.retry.budget);
        let call = Call {
            routes: &routes,
            metrics: &self.metrics,
            retry_budget: &self.retry_budget,
            request,
            scope,
            give_up: Instant::now() + routes.retry.time_box,
            patience: Patience::new(scope.wait.unwrap_or(routes.retry.wait)),
            attempts: 0,
        };
        call.along(chain).await
    }
}
