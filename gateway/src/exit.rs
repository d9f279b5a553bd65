//! One exit at run time: a provider and model with its endpoints, gate and timers, shared by every chain that names it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::endpoint::{Endpoint, Passage};
use crate::error::BuildError;
use crate::gate::Gate;
use crate::metrics::ExitLabels;
use crate::provider::{Dialect, Trouble};
use crate::settings::{self, AnswerBounds, ParkingSettings, Settings, Timers};
use crate::verdict::report;
use crate::{BreakerReport, Outcome};

/// A provider and model.
#[derive(Debug)]
pub(crate) struct Exit {
    pub(crate) name: settings::Exit,
    pub(crate) labels: ExitLabels,
    pub(crate) dialect: Dialect,
    pub(crate) gate: Arc<Gate>,
    pub(crate) timers: Timers,
    /// `DashScope` says `insufficient_quota` when tokens per minute are used up; elsewhere it means no money.
    pub(crate) is_quota_throttle: bool,
    pub(crate) answer_bounds: AnswerBounds,
    /// Never empty.
    pub(crate) endpoints: Vec<Arc<Endpoint>>,
    /// Outcomes that its breakers count as failures.
    counted: Vec<Outcome>,
    parking: ParkingSettings,
    parked_until: Arc<Mutex<Option<Instant>>>,
}

impl Exit {
    /// `held`: the same exit before the settings changed; its state goes on.
    pub(crate) fn new(exit: &settings::Exit, settings: &Settings, held: Option<&Self>) -> Result<Self, BuildError> {
        let provider = settings.providers.get(&exit.provider).ok_or_else(|| BuildError::UnknownProvider {
            provider: exit.provider.clone(),
            model: exit.model.clone(),
        })?;
        let mut endpoints = Vec::with_capacity(provider.endpoints.len());
        for endpoint in &provider.endpoints {
            let same = held.and_then(|held| held.endpoints.iter().find(|held| held.label == endpoint.label));
            let breaker = same.map(|same| Arc::clone(&same.breaker));
            endpoints.push(Arc::new(Endpoint::new(endpoint, exit, provider, settings.breaker, breaker)?));
        }
        if endpoints.is_empty() {
            return Err(BuildError::NoEndpoint { provider: exit.provider.clone() });
        }
        let model = settings.models.get(exit).cloned().unwrap_or_default();
        let timers = Timers {
            connect: settings.timers.connect,
            first_token: model.first_token.unwrap_or(settings.timers.first_token),
            idle: model.idle.unwrap_or(settings.timers.idle),
            total: model.total.unwrap_or(settings.timers.total),
        };
        let is_dash_scope =
            |endpoint: &Arc<Endpoint>| endpoint.url.host_str().is_some_and(|host| host.ends_with(".aliyuncs.com"));
        Ok(Self {
            name: exit.clone(),
            labels: ExitLabels { provider: Arc::from(exit.provider.as_str()), model: Arc::from(exit.model.as_str()) },
            dialect: provider.dialect,
            gate: held.map_or_else(|| Arc::new(Gate::new(settings.gate)), |held| Arc::clone(&held.gate)),
            timers,
            is_quota_throttle: endpoints.iter().any(is_dash_scope),
            answer_bounds: settings.answer,
            endpoints,
            counted: provider.breaker_count.clone(),
            parking: settings.parking,
            parked_until: held.map_or_else(Arc::default, |held| Arc::clone(&held.parked_until)),
        })
    }

    /// The least busy endpoint whose breaker lets the call pass. `avoided` just failed: it comes last.
    ///
    /// Errors: [`Outcome::Parked`] or [`Outcome::Tripped`], with the time until it is worth asking again.
    pub(crate) fn admit(&self, avoided: Option<&Arc<Endpoint>>) -> Result<Passage, Trouble> {
        let now = Instant::now();
        let parked_until = *self.parked_until();
        if let Some(until) = parked_until.filter(|until| now < *until) {
            return Err(Trouble::closed_off(Outcome::Parked, until - now));
        }
        let mut endpoints: Vec<_> = self.endpoints.iter().collect();
        endpoints
            .sort_by_key(|endpoint| (avoided.is_some_and(|avoided| Arc::ptr_eq(avoided, endpoint)), endpoint.load()));
        let mut nearest = None::<Instant>;
        for endpoint in endpoints {
            match endpoint.pass() {
                Ok(passage) => return Ok(passage),
                Err(refused) => nearest = Some(nearest.map_or(refused.until, |until| until.min(refused.until))),
            }
        }
        let wait = nearest.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        Err(Trouble::closed_off(Outcome::Tripped, wait))
    }

    /// What an attempt's end does to the exit: its breaker, its gate, its parking.
    pub(crate) fn ended(&self, passage: &mut Passage, outcome: Outcome, hint: Option<Duration>) {
        passage.breaker.finish(report(outcome, &self.counted));
        match outcome {
            Outcome::RateLimited => self.gate.push_back(hint),
            Outcome::PlanExhausted => self.park(outcome, self.parking.plan_exhausted),
            Outcome::Denied => self.park(outcome, self.parking.denied),
            _ => {}
        }
    }

    /// Its breakers, for operators.
    pub(crate) fn reports(&self) -> Vec<BreakerReport> {
        let parked = self.parked_until().map(|until| until.saturating_duration_since(Instant::now()));
        let parked_ms =
            parked.filter(|left| !left.is_zero()).map(|left| left.as_millis().try_into().unwrap_or(u64::MAX));
        let report = |endpoint: &Arc<Endpoint>| BreakerReport {
            name: self.labels.to_string(),
            endpoint: endpoint.label.clone(),
            parked_ms,
            breaker: endpoint.breaker.snapshot(),
        };
        self.endpoints.iter().map(report).collect()
    }

    /// Trips that calls of this process found out.
    pub(crate) fn own_trips(&self) -> Vec<(BreakerReport, u64, Instant)> {
        let trips = self.reports().into_iter().zip(&self.endpoints).filter_map(|(report, endpoint)| {
            let (number, until) = endpoint.breaker.own_trip()?;
            Some((report, number, until))
        });
        trips.collect()
    }

    fn park(&self, outcome: Outcome, rest: Duration) {
        *self.parked_until() = Some(Instant::now() + rest);
        tracing::error!(
            provider = &*self.labels.provider,
            model = &*self.labels.model,
            outcome = outcome.as_str(),
            "{}/{} is left alone for {} s: look at its key, plan and model name",
            self.labels.provider,
            self.labels.model,
            rest.as_secs()
        );
    }

    fn parked_until(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.parked_until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
