//! The loop that delivers: one process of the fleet looks, whoever stored an end looks too, and a claim decides.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use penstock_config::LiveSettings;
use penstock_protocol::TenantNo;
use penstock_queue::Queue;
use penstock_store::{Store, StoreError, WebhookDue};
use reqwest::Client;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client;
use crate::delivery::{deliver, due};
use crate::metrics::Outcome;
use crate::{Target, WebhookMetrics};

/// How often one process of the fleet looks for deliveries that are due.
const LOOK_EVERY: Duration = Duration::from_secs(3);
/// A turn is over before the next look.
const LOOK_TURN: Duration = Duration::from_millis(2800);
/// Least time between two looks of one process: ends that come thick share one.
const LOOK_GAP: Duration = Duration::from_millis(100);
/// Deliveries seen in one look; more are seen by the next, at once.
const LOOK_ROWS: u32 = 100;
/// A claimed delivery comes due again after this long if its process dies; longer than the longest try (60 s).
const LEASE_MS: u64 = 90_000;
/// Deliveries beyond the bound of their target wait about this long.
const POSTPONE_MS: u64 = 2000;
/// How often, and how many, old records are deleted.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
const SWEEP_ROWS: u32 = 500;

/// Deliveries under way, by tenant and host.
type Busy = Arc<Mutex<HashMap<(TenantNo, String), usize>>>;

/// What delivers. Cheap to clone.
#[derive(Clone)]
pub struct Deliverer {
    store: Store,
    queue: Queue,
    settings: LiveSettings,
    metrics: WebhookMetrics,
    busy: Busy,
}

/// What one look left to do.
struct Looked {
    /// More may be due than were seen.
    is_more: bool,
    /// Time until the next one comes due.
    next_in: Option<Duration>,
}

impl Deliverer {
    /// A deliverer; it does nothing before [`Deliverer::run`].
    #[must_use]
    pub fn new(store: Store, queue: Queue, settings: LiveSettings, metrics: WebhookMetrics) -> Self {
        Self { store, queue, settings, metrics, busy: Busy::default() }
    }

    /// Delivers until `stop` is cancelled; deliveries under way then end by themselves, within `webhook.total_ms`.
    ///
    /// While MySQL is away it says so once, and once when it is back.
    pub async fn run(self, stop: CancellationToken) {
        let permits = Arc::new(Semaphore::new(self.settings.now().webhook.concurrency));
        let (under_way, mut is_away) = (TaskTracker::new(), false);
        let (mut wait, mut swept) = (LOOK_EVERY, Instant::now());
        loop {
            let is_own = tokio::select! {
                () = stop.cancelled() => break,
                own = self.turn(wait) => own,
            };
            if !is_own {
                wait = LOOK_EVERY;
                continue;
            }
            let looked = self.look(&permits, &under_way).await;
            if looked.is_err() != is_away {
                is_away = looked.is_err();
                match &looked {
                    Ok(_) => tracing::info!("webhooks are delivered again"),
                    Err(error) => tracing::warn!(%error, "webhooks cannot be looked for; trying on"),
                }
            }
            wait = match looked {
                Ok(Looked { is_more: true, .. }) => LOOK_GAP,
                Ok(Looked { next_in: Some(next_in), .. }) => next_in.clamp(LOOK_GAP, LOOK_EVERY),
                Ok(Looked { next_in: None, .. }) | Err(_) => LOOK_EVERY,
            };
            if swept.elapsed() >= SWEEP_EVERY {
                swept = Instant::now();
                self.sweep().await;
            }
        }
        under_way.close();
        drop(timeout(self.settings.now().webhook.total, under_way.wait()).await);
    }

    /// Waits for the next look; false when it is another process's. A wait shorter than the usual one, or a wake, is for
    /// a delivery that this process knows to be due: it looks without asking.
    async fn turn(&self, wait: Duration) -> bool {
        tokio::select! {
            () = self.store.webhook_woken() => {
                sleep(LOOK_GAP).await;
                true
            }
            () = sleep(wait) => {
                // Without Redis everybody looks: deliveries do not need it.
                wait < LOOK_EVERY || self.queue.take_turn("webhook", LOOK_TURN).await.unwrap_or(true)
            }
        }
    }

    async fn look(&self, permits: &Arc<Semaphore>, under_way: &TaskTracker) -> Result<Looked, StoreError> {
        let next = self.store.next_webhooks(LOOK_ROWS).await?;
        let due: Vec<_> = next.iter().filter(|due| due.in_ms == 0).copied().collect();
        let next_in = next.iter().map(|due| due.in_ms).find(|in_ms| *in_ms > 0).map(Duration::from_millis);
        let mut is_more = due.len() >= usize::try_from(LOOK_ROWS).unwrap_or(usize::MAX);
        let (mut http, mut too_many) = (None, Vec::new());
        for due in due {
            // A full process looks no further; others do.
            let Ok(permit) = Arc::clone(permits).try_acquire_owned() else {
                is_more = true;
                break;
            };
            let Some(place) = self.place(&due).await? else {
                too_many.push(due.key);
                continue;
            };
            let client = match &http {
                Some(client) => Client::clone(client),
                None => match client::build(&self.settings, &self.settings.now().webhook) {
                    Ok(made) => http.insert(made).clone(),
                    Err(error) => {
                        tracing::error!(%error, "webhooks cannot be delivered: the system's TLS roots cannot be read");
                        break;
                    }
                },
            };
            let work = self.clone().carry_out(client, due);
            under_way.spawn(async move {
                work.await;
                drop((permit, place));
            });
        }
        if !too_many.is_empty() {
            too_many.iter().for_each(|_| self.metrics.count(Outcome::Postponed));
            self.store.postpone_webhooks(&too_many, POSTPONE_MS).await?;
        }
        Ok(Looked { is_more, next_in })
    }

    /// Takes a place at the delivery's target, for its tenant; `None` when the target has enough under way (law 13: one
    /// slow target holds up nobody else).
    async fn place(&self, due: &WebhookDue) -> Result<Option<Place>, StoreError> {
        let Some(row) = self.store.webhook(due.key).await? else { return Ok(None) };
        let host = Target::parse(&row.url).map(|target| target.authority()).unwrap_or_default();
        let name = (due.key.tenant, host);
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        let count = busy.entry(name.clone()).or_default();
        if *count >= self.settings.now().webhook.target_concurrency {
            return Ok(None);
        }
        *count += 1;
        Ok(Some(Place { busy: Arc::clone(&self.busy), name }))
    }

    async fn carry_out(self, client: Client, due: WebhookDue) {
        self.metrics.open.inc();
        if let Err(error) = self.try_once(&client, &due).await {
            tracing::debug!(task.id = %due.key, %error, "a webhook delivery is looked at again after its lease");
        }
        self.metrics.open.dec();
    }

    /// Claims, delivers, settles. A process that dies on the way leaves the claim to run out.
    async fn try_once(&self, client: &Client, next: &WebhookDue) -> Result<(), StoreError> {
        let Some(row) = self.store.claim_webhook(next, LEASE_MS).await? else { return Ok(()) };
        let task = self.store.task(row.key).await?;
        let (settle, outcome) = match (due(&row, task.as_ref()), &task) {
            (Ok(()), Some(task)) => {
                let secrets = self.store.webhook_secrets(row.key.tenant).await?;
                deliver(client, &self.settings.now().webhook, &row, task, secrets.as_ref()).await
            }
            (Err(settled), _) => settled,
            (Ok(()), None) => return Ok(()),
        };
        self.metrics.count(outcome);
        self.store.settle_webhook(&row, &settle).await
    }

    async fn sweep(&self) {
        if !self.queue.take_turn("webhook-sweep", SWEEP_EVERY / 2).await.unwrap_or(false) {
            return;
        }
        let keep_ms = u64::try_from(self.settings.now().webhook.keep.as_millis()).unwrap_or(u64::MAX);
        match self.store.sweep_webhooks(keep_ms, SWEEP_ROWS).await {
            Ok(gone) => tracing::debug!(gone, "old webhook records were deleted"),
            Err(error) => tracing::debug!(%error, "old webhook records were not deleted"),
        }
    }
}

/// One delivery under way to a target.
struct Place {
    busy: Busy,
    name: (TenantNo, String),
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut busy = self.busy.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = busy.get_mut(&self.name) {
            *count -= 1;
            if *count == 0 {
                busy.remove(&self.name);
            }
        }
    }
}
