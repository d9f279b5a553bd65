//! Limits of a vendor's account, shared by all processes: every call takes from every bucket of its provider and model, or
//! from none, and settles by what it really used.
//!
//! Law 8: all or none; a refused take debits nothing; debt only by settlement or by one large call. Law 10: Redis trouble
//! costs 50 ms, then limits are kept in this process for a while. Law 11: Redis TIME for what is shared. Without limits
//! nothing here is asked, and no connection is made.
//!
//! A [`Quota`] is one exit's limits, a [`Debit`] what one call has taken. Below them: the [`line`] whose head asks, the
//! [`ledger`] (Redis by [`link`] and [`script`], or the twin in [`local`]), and the [`settler`].

mod correction;
mod day;
mod debit;
mod dimension;
mod ledger;
mod library;
mod limits;
mod line;
mod link;
mod local;
mod metrics;
mod quota;
mod script;
mod settings;
mod settler;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use redis::Client;
use secrecy::ExposeSecret;

pub(crate) use debit::Debit;
pub(crate) use dimension::Change;
pub(crate) use dimension::{Cost, Dimension};
pub(crate) use limits::{BucketRule, DayRule, Rules};
pub use limits::{Carve, Limits};
pub(crate) use metrics::BucketMetrics;
pub use quota::Throttled;
pub(crate) use quota::{Quota, Taken, Wish};
pub use settings::{BucketSettings, LimitTable, LinkSettings, WaitSettings};

#[cfg(test)]
mod tests;

use ledger::{Ledger, Office};
use link::Link;
use quota::QuotaParts;
use script::Keys;
use settler::Settler;

/// A Redis URL that is none.
#[derive(Debug, thiserror::Error)]
#[error("the Redis URL of the buckets cannot be used")]
pub struct RedisUrlError(#[source] redis::RedisError);

/// Provider and model.
type ProviderModel = (Arc<str>, Arc<str>);

/// The limits of every exit of this process.
#[derive(Debug)]
pub(crate) struct Buckets {
    deployment: String,
    period_ms: u64,
    wait: WaitSettings,
    office: Arc<Office>,
    settler: Arc<Settler>,
    metrics: BucketMetrics,
    quotas: Mutex<HashMap<ProviderModel, Arc<Quota>>>,
}

impl Buckets {
    /// Nothing is connected until a limited exit is called.
    ///
    /// # Errors
    /// When the Redis URL cannot be read.
    pub(crate) fn new(settings: &BucketSettings, metrics: &BucketMetrics) -> Result<Self, RedisUrlError> {
        let redis = &settings.redis;
        let link = Link::new(
            link::LinkSettings {
                client: Client::open(redis.url.expose_secret()).map_err(RedisUrlError)?,
                connect_timeout: redis.connect_timeout,
                call_timeout: redis.call_timeout,
                cool_down: redis.cool_down,
            },
            metrics.is_local.clone(),
            metrics.trips.clone(),
        );
        let process = uuid::Uuid::new_v4().simple().to_string()[..12].to_owned();
        let office = Arc::new(Office::new(link, process, redis.local_share));
        Ok(Self {
            deployment: settings.deployment.clone(),
            period_ms: settings.minute_ms,
            wait: settings.wait.clone(),
            settler: Arc::new(Settler::new(Arc::clone(&office), metrics.clone())),
            office,
            metrics: metrics.clone(),
            quotas: Mutex::default(),
        })
    }

    /// The limits of one exit under `table`. They keep levels, line and correction of the same exit before.
    pub(crate) fn quota(&self, table: &LimitTable, provider: &Arc<str>, model: &Arc<str>) -> Arc<Quota> {
        let (rules, passes) = self.rules(table, provider, model);
        let mut quotas = self.quotas.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(quota) = quotas.get(&(Arc::clone(provider), Arc::clone(model))) {
            quota.set_rules(rules, passes);
            return Arc::clone(quota);
        }
        let quota = quotas.entry((Arc::clone(provider), Arc::clone(model))).or_insert_with(|| {
            let metrics = self.metrics.exit(provider, model);
            let ledger = |keys, rules| Arc::new(Ledger::new(Arc::clone(&self.office), keys, rules, metrics.gauges()));
            Arc::new(Quota::new(QuotaParts {
                ledger: ledger(Keys::of_calls(&self.deployment, provider, model), rules),
                passes: (self.wait.pass_share > 0.0)
                    .then(|| ledger(Keys::of_passes(&self.deployment, provider, model), passes)),
                settler: Arc::clone(&self.settler),
                wait: self.wait.clone(),
                metrics: metrics.clone(),
            }))
        });
        Arc::clone(quota)
    }

    /// Waits until every settlement said so far is sent: before a process ends.
    pub(crate) async fn flush(&self) {
        self.settler.flush().await;
    }

    /// The rules of an exit's calls, and of those that pass without tokens.
    fn rules(&self, table: &LimitTable, provider: &str, model: &str) -> (Rules, Rules) {
        let rules = table.rules(provider, model, self.period_ms);
        let passes = Rules { days: Vec::new(), ..rules.shared(self.wait.pass_share) };
        (rules, passes)
    }
}
