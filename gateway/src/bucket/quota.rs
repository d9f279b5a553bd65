//! The limits of one exit as its calls meet them: wait in line, take, and later settle.
//!
//! Order of a call: line → a place before the gate → take → gate → send → settle. Called by the attempt, between breaker and
//! gate; every attempt takes anew.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use penstock_protocol::TenantNo;
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::correction::Correction;
use super::debit::Debit;
use super::ledger::Ledger;
use super::line::{Line, Place};
use super::local::Judgement;
use super::metrics::{ExitMetrics, TakeAnswer};
use super::settler::Settler;
use super::{Change, Cost, Dimension, Rules, WaitSettings};

/// Added to each suggested wait, so that the tokens are there when the head asks again.
const SLACK: Duration = Duration::from_millis(20);

/// Limits, line and debits of one provider and model.
#[derive(Debug)]
pub(crate) struct Quota {
    ledger: Arc<Ledger>,
    line: Arc<Line>,
    /// Where a setting bounds passes.
    passes: Option<PassLane>,
    next_pass: Mutex<Instant>,
    /// Calls that may wait at the gate with tokens in hand.
    ahead: Arc<Semaphore>,
    correction: Correction,
    settler: Arc<Settler>,
    wait: WaitSettings,
    metrics: ExitMetrics,
}

/// Buckets of the calls that pass without tokens, with a line of their own.
#[derive(Debug)]
pub(super) struct PassLane {
    pub(super) ledger: Arc<Ledger>,
    pub(super) line: Arc<Line>,
}

/// What a call asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) tenant: TenantNo,
    /// Of the request, not corrected.
    pub(crate) estimate: Cost,
    /// End of its patience.
    pub(crate) until: Instant,
}

/// What became of it.
#[derive(Debug)]
pub(crate) enum Taken {
    /// It may be sent.
    Debit(Debit),
    /// Its patience ended; with this much more it would have had its turn, as far as it knows.
    Impatient { wait: Duration },
    /// A limit of the day is used up for so long; waiting is useless.
    Exhausted { wait: Duration, dimension: Dimension },
}

/// A call has waited long, and waits on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Throttled {
    /// Provider whose limit it is.
    pub provider: Arc<str>,
    /// Model whose limit it is.
    pub model: Arc<str>,
    /// How long the call has waited.
    pub waited: Duration,
    /// The call goes another way, or passes, by then.
    pub wait_max: Duration,
}

pub(super) struct QuotaParts {
    pub(super) ledger: Arc<Ledger>,
    pub(super) passes: Option<Arc<Ledger>>,
    pub(super) settler: Arc<Settler>,
    pub(super) wait: WaitSettings,
    pub(super) metrics: ExitMetrics,
}

impl Quota {
    pub(super) fn new(parts: QuotaParts) -> Self {
        let QuotaParts { ledger, passes, settler, wait, metrics } = parts;
        let line = || Arc::new(Line::new(wait.waiting_max));
        Self {
            ledger,
            line: line(),
            passes: passes.map(|ledger| PassLane { ledger, line: line() }),
            next_pass: Mutex::new(Instant::now()),
            ahead: Arc::new(Semaphore::new(wait.ahead.clamp(1, Semaphore::MAX_PERMITS))),
            correction: Correction::default(),
            settler,
            wait,
            metrics,
        }
    }

    /// Whether nothing is limited here: then no estimate is needed.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.ledger.is_unlimited()
    }

    /// Waits for tokens as long as the wish has patience; one without any looks once. `tell` is called once, when the wait has
    /// become long.
    ///
    /// Cancel-safe: a call that leaves gives back what it has and its place in the line.
    pub(crate) async fn take(self: &Arc<Self>, wish: &Wish, tell: impl FnOnce(Throttled)) -> Taken {
        if self.is_unlimited() {
            return Taken::Debit(Debit::none());
        }
        let began = Instant::now();
        let is_patient = wish.until > began;
        if !is_patient && !self.line.is_empty() {
            return Taken::Impatient { wait: Duration::ZERO };
        }
        let until = if is_patient { wish.until } else { began + self.wait.take_now_max };
        let Some(place) = self.line.join(wish.tenant) else { return Taken::Impatient { wait: Duration::ZERO } };
        self.count_waiting();
        let wait = Wait { estimate: wish.estimate, cost: self.correction.applied(&wish.estimate), began, is_patient };
        let mut last_wait = Duration::ZERO;
        let taken = {
            let mut asking = std::pin::pin!(timeout_at(until, self.wait_in_line(place, &wait, &mut last_wait)));
            tokio::select! {
                biased;
                taken = &mut asking => taken,
                () = sleep_until(began + self.wait.told_after) => {
                    tell(self.metrics.throttled(began.elapsed(), until.saturating_duration_since(began)));
                    asking.await
                }
            }
        };
        self.count_waiting();
        let taken = taken.unwrap_or(Taken::Impatient { wait: last_wait });
        if matches!(taken, Taken::Debit(_)) {
            self.metrics.granted(began.elapsed());
        }
        taken
    }

    /// Lets a call go without tokens after its patience ended: spaced, counted, and bounded where a setting says so.
    ///
    /// `None`: not before `until`.
    pub(crate) async fn pass(self: &Arc<Self>, wish: &Wish, until: Instant) -> Option<Debit> {
        let cost = self.correction.applied(&wish.estimate);
        let passing = async {
            if let Some(lane) = &self.passes {
                let place = lane.line.join(wish.tenant)?;
                self.pass_in_line(lane, place, cost).await;
            }
            let ahead = Arc::clone(&self.ahead).acquire_owned().await.ok();
            sleep_until(self.pass_start()).await;
            Some(ahead)
        };
        let ahead = timeout_at(until, passing).await.ok()??;
        self.metrics.passes.inc();
        let mut debit = Debit::passed(Arc::clone(self), wish.estimate, cost);
        if let Some(ahead) = ahead {
            debit.hold_place(ahead);
        }
        Some(debit)
    }

    /// Puts other rules in place; levels stay.
    pub(super) fn set_rules(&self, rules: Rules, passes: Rules) {
        self.ledger.set_rules(rules);
        if let Some(lane) = &self.passes {
            lane.ledger.set_rules(passes);
        }
    }

    pub(super) fn settle(&self, change: Change, slot_ms: u64) {
        self.settler.settle(&self.ledger, change, slot_ms);
    }

    pub(super) fn metrics(&self) -> &ExitMetrics {
        &self.metrics
    }

    /// Learns how far the estimate was from what the vendor counted.
    pub(super) fn learn(&self, estimate: &Cost, taken: &Cost, input: u64, output: u64) {
        self.correction.learn(estimate, input, output);
        let real = super::limits::as_f64(input.saturating_add(output).min(super::dimension::COST_MAX));
        let ratio = real / super::limits::as_f64(taken.of(Dimension::Tokens).max(1));
        self.metrics.estimated(ratio, self.correction.factor());
    }

    /// From a place in the line to a debit, or to the news that waiting is useless.
    async fn wait_in_line(self: &Arc<Self>, mut place: Place, wait: &Wait, last_wait: &mut Duration) -> Taken {
        place.head().await;
        // Before the take: few calls hold tokens while the gate is shut.
        let ahead = Arc::clone(&self.ahead).acquire_owned().await;
        let mut ticket = Ticket { quota: self, is_written: false };
        loop {
            match self.ask(wait).await {
                Answered::Debit(mut debit) => {
                    ticket.is_written = false;
                    if let Ok(ahead) = ahead {
                        debit.hold_place(ahead);
                    }
                    place.granted(wait.cost.of(Dimension::Tokens).max(1));
                    return Taken::Debit(debit);
                }
                Answered::No(Judgement::Exhausted { wait_ms, dimension }) => {
                    ticket.is_written = false;
                    self.metrics.refused(TakeAnswer::Exhausted);
                    return Taken::Exhausted { wait: Duration::from_millis(wait_ms), dimension };
                }
                Answered::No(judgement) => {
                    ticket.is_written = true;
                    self.metrics.refused(TakeAnswer::Wait);
                    let wait_ms = if let Judgement::Wait { wait_ms, .. } = judgement { wait_ms } else { 1 };
                    *last_wait = Duration::from_millis(wait_ms);
                    if !wait.is_patient {
                        return Taken::Impatient { wait: *last_wait };
                    }
                    sleep(*last_wait + SLACK).await;
                }
            }
        }
    }

    async fn pass_in_line(&self, lane: &PassLane, mut place: Place, cost: Cost) {
        place.head().await;
        let began = Instant::now();
        while let Judgement::Wait { wait_ms, .. } = lane.ledger.take(began.elapsed(), &cost).await {
            sleep(Duration::from_millis(wait_ms) + SLACK).await;
        }
        place.granted(1);
    }

    /// One take, whose answer is dealt with even if the caller has left meanwhile.
    async fn ask(self: &Arc<Self>, wait: &Wait) -> Answered {
        self.settler.start();
        let (answer, answered) = oneshot::channel();
        let (quota, Wait { estimate, cost, .. }, age) = (Arc::clone(self), *wait, wait.began.elapsed());
        tokio::spawn(async move {
            let judgement = quota.ledger.take(age, &cost).await;
            let told = match judgement {
                // Dropped unread, the debit gives itself back.
                Judgement::Granted { slot_ms } => {
                    answer.send(Answered::Debit(Debit::taken(Arc::clone(&quota), estimate, cost, slot_ms)))
                }
                no => answer.send(Answered::No(no)),
            };
            if let Err(Answered::No(_)) = told {
                quota.leave();
            }
        });
        // The task always answers; should it have panicked, asking again is right.
        answered.await.unwrap_or(Answered::No(Judgement::Wait { wait_ms: 1_000, short: None }))
    }

    /// Takes this process's ticket out of the line, unless another head will write it anew.
    fn leave(&self) {
        if self.line.waiting_count() == 0 {
            self.settler.leave(&self.ledger);
        }
    }

    /// The moment at which the next pass may start.
    fn pass_start(&self) -> Instant {
        let mut next = self.next_pass.lock().unwrap_or_else(PoisonError::into_inner);
        let start = (*next).max(Instant::now());
        *next = start + self.wait.pass_spacing;
        start
    }

    fn count_waiting(&self) {
        self.metrics.waiting.set(i64::try_from(self.line.waiting_count()).unwrap_or(i64::MAX));
    }
}

/// One call's wait.
#[derive(Clone, Copy, Debug)]
struct Wait {
    estimate: Cost,
    /// Corrected.
    cost: Cost,
    began: Instant,
    /// Whether it waits at all, or only looks.
    is_patient: bool,
}

#[derive(Debug)]
enum Answered {
    Debit(Debit),
    No(Judgement),
}

/// The ticket of a head in Redis. A head that leaves ungranted takes it along.
struct Ticket<'a> {
    quota: &'a Quota,
    is_written: bool,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        if self.is_written {
            self.quota.leave();
        }
    }
}
