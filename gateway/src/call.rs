//! The way of one call along its chain: from hop to hop until one has given its first token.
//!
//! Law 9: a switch happens only before the first token. Law 12: attempts, waits and the time before the first token are
//! bounded. A hop is left when its outcome says so ([`verdict`]); a hop that is closed off costs the call nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep, timeout_at};

use crate::attempt::{Attempt, Tally, open};
use crate::bucket::{Cost, Debit, Taken, Throttled, Wish};
use crate::endpoint::Endpoint;
use crate::error::{CallFailed, GatewayError, failed};
use crate::estimate::estimate;
use crate::exit::Exit;
use crate::hop::Hop;
use crate::metrics::GatewayMetrics;
use crate::patience::Patience;
use crate::provider::Trouble;
use crate::retry::{RetryBudget, back_off, jitter_up};
use crate::route::{Chain, Need, Routes};
use crate::stream::{Fallback, LiveStream};
use crate::verdict::{Again, Next, verdict};
use crate::{CallScope, ModelRequest, Outcome};

/// Least time after which a caller is told to come back where every hop is closed off.
const REOPENING_MIN: Duration = Duration::from_secs(1);

/// One call under way.
pub(crate) struct Call<'a> {
    pub(crate) routes: &'a Routes,
    pub(crate) metrics: &'a GatewayMetrics,
    pub(crate) retry_budget: &'a RetryBudget,
    pub(crate) request: &'a ModelRequest,
    pub(crate) scope: &'a CallScope,
    /// Everything before the first token ends by then.
    pub(crate) give_up: Instant,
    /// How long it still waits for rate limits where another hop could serve.
    pub(crate) patience: Patience,
    /// Attempts that were sent.
    pub(crate) attempts: u32,
    /// Whether this call is asked of the second hop while the first is silent.
    pub(crate) is_hedge: bool,
    /// Set when a hedge has begun: then the second hop and those behind it are the hedge's.
    pub(crate) is_hedged: &'a AtomicBool,
    /// What the request costs in tokens, once a limit asks.
    pub(crate) estimate: Option<Cost>,
}

/// Why a hop was left, and what the end of the call says if no other serves.
struct Left<'a> {
    exit: &'a Exit,
    trouble: Trouble,
}

/// How an attempt comes to its tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tokens {
    /// It waits for them.
    Taken,
    /// It has waited, and no other hop has any: it goes without.
    Passed,
}

impl Call<'_> {
    /// Tries the hops of `chain` in order.
    pub(crate) async fn along(mut self, chain: &Chain) -> Result<LiveStream, GatewayError> {
        // The first reason names the switch, the last failure that was sent names the end.
        let (mut first_left, mut failure, mut nearest) = (None, None::<CallFailed>, None::<Duration>);
        let mut short_of_tokens = None;
        let need = Need::of(self.request);
        // Context of a hop that found the request too long.
        let mut too_small = None::<u64>;
        let mut hops = chain.hops.iter().peekable();
        if self.is_hedge {
            hops.next();
            first_left = Some(Outcome::FirstToken);
        }
        while let Some(hop) = hops.next() {
            let tried = match self.strikes(hop, need, too_small) {
                Some(trouble) => Err(Left { exit: &hop.exit, trouble }),
                None => self.on_hop(hop, hops.peek().is_none(), Tokens::Taken).await?,
            };
            let left = match tried {
                Ok(attempt) => return Ok(self.served(chain, attempt, first_left)),
                Err(left) => left,
            };
            let outcome = left.trouble.outcome;
            if outcome == Outcome::NoTokens {
                short_of_tokens = short_of_tokens.or(Some(hop));
            }
            first_left.get_or_insert(outcome);
            if outcome.is_closed_off() {
                nearest = nearest.into_iter().chain(left.trouble.hint).min();
            } else if outcome != Outcome::NotCapable || failure.is_none() {
                failure = Some(failed(left.exit, left.trouble, self.attempts));
            }
            let is_hedges = !self.is_hedge && self.is_hedged.load(Ordering::Relaxed);
            match verdict(outcome).next_hop {
                Next::No => {
                    short_of_tokens = None;
                    break;
                }
                Next::LargerContext => too_small = too_small.max(hop.facts.context_tokens),
                Next::Yes => {}
            }
            if is_hedges || Instant::now() >= self.end() {
                short_of_tokens = None;
                break;
            }
        }
        // Who has said how long it waits is told when to come back instead.
        if let Some(hop) = short_of_tokens.filter(|_| self.scope.wait.is_none()) {
            match self.on_hop(hop, true, Tokens::Passed).await? {
                Ok(attempt) => return Ok(self.served(chain, attempt, first_left)),
                Err(left) if left.trouble.outcome.is_closed_off() => {}
                Err(left) => failure = Some(failed(left.exit, left.trouble, self.attempts)),
            }
        }
        // A hop that could never serve does not hide that others will.
        let failure = failure.filter(|failure| failure.outcome != Outcome::NotCapable || nearest.is_none());
        Err(match failure {
            Some(failure) => failure.into(),
            None => GatewayError::AllExitsDown {
                chain: self.request.chain.clone(),
                retry_after: nearest.unwrap_or_default().max(REOPENING_MIN),
            },
        })
    }

    /// Why a hop is passed over: its model is known to lack what the request needs. What nobody knows is tried.
    fn strikes(&self, hop: &Hop, need: Need, too_small: Option<u64>) -> Option<Trouble> {
        let exit = &hop.exit.labels;
        let is_no_larger = too_small.zip(hop.facts.context_tokens).is_some_and(|(small, tokens)| tokens <= small);
        let lacking = need.lacking(&hop.facts).or(is_no_larger.then_some("context"));
        if let Some(lacking) = lacking {
            tracing::info!(hop = %exit, lacking, "a hop is passed over: its model cannot do what the request needs");
            self.metrics.count(exit, Outcome::NotCapable);
            return Some(Trouble::own(Outcome::NotCapable, lacking));
        }
        if let Some(unknown) = need.unknown(&hop.facts) {
            tracing::debug!(hop = %exit, unknown, "a hop is tried although nobody knows whether its model can do this");
        }
        None
    }

    fn served(&self, chain: &Chain, attempt: Attempt, left: Option<Outcome>) -> LiveStream {
        let served = &attempt.tally.exit().labels;
        let is_first = Arc::ptr_eq(attempt.tally.exit(), &chain.first().exit);
        let fallback = left.filter(|_| !is_first).map(|outcome| {
            let from = &chain.first().exit.labels;
            self.metrics.fell_back(from, served, outcome);
            tracing::warn!(from = %from, to = %served, reason = outcome.as_str(), "a call is served by another hop");
            Fallback { from: from.to_string(), reason: outcome }
        });
        LiveStream::new(attempt, self.scope.deadline, self.attempts, fallback)
    }

    /// Tries one hop, as often as its outcomes and the bounds allow.
    async fn on_hop<'h>(
        &mut self,
        hop: &'h Hop,
        is_last: bool,
        tokens: Tokens,
    ) -> Result<Result<Attempt, Left<'h>>, GatewayError> {
        let body = hop.body(self.request)?;
        let (sent_before, mut avoided) = (self.attempts, None);
        loop {
            let (trouble, endpoint) = match self.attempt(&hop.exit, &body, is_last, tokens, avoided.as_ref()).await {
                Ok(attempt) => return Ok(Ok(attempt)),
                Err(ended) => ended,
            };
            avoided = endpoint.or(avoided);
            let on_this_hop = self.attempts - sent_before;
            let wait = self.wait_before_next(&hop.exit, &trouble, on_this_hop, is_last);
            tracing::warn!(
                provider = &*hop.exit.labels.provider,
                model = &*hop.exit.labels.model,
                outcome = trouble.outcome.as_str(),
                status = trouble.status,
                code = trouble.code.as_deref(),
                attempts = self.attempts,
                is_tried_again = wait.is_some(),
                "a model call failed before its first token"
            );
            let Some(wait) = wait else { return Ok(Err(Left { exit: &hop.exit, trouble })) };
            let began = Instant::now();
            sleep(wait).await;
            if verdict(trouble.outcome).same_hop == Again::AfterHint {
                self.patience.spent_since(began);
            }
        }
    }

    /// One attempt. Its checks in their order: breaker, buckets, gate, breaker again.
    async fn attempt(
        &mut self,
        exit: &Arc<Exit>,
        body: &Bytes,
        is_last: bool,
        tokens: Tokens,
        avoided: Option<&Arc<Endpoint>>,
    ) -> Result<Attempt, (Trouble, Option<Arc<Endpoint>>)> {
        let passage = exit.admit(avoided).map_err(|trouble| {
            self.metrics.count(&exit.labels, trouble.outcome);
            (trouble, None)
        })?;
        let mut tally = Tally::new(Arc::clone(exit), passage, self.metrics.clone());
        tracing::debug!(exit = %exit.labels, endpoint = tally.endpoint().label, "the breaker lets the call pass");
        match self.tokens(exit, tokens).await {
            Ok(debit) => tally.hold(debit),
            Err(trouble) => {
                tally.end(trouble.outcome, None);
                return Err((trouble, None));
            }
        }
        let (until, outcome) = self.waits_until(is_last);
        let began = Instant::now();
        let entered = timeout_at(until, exit.gate.enter()).await;
        self.patience.spent_since(began);
        let Ok(gate) = entered else {
            tally.end(outcome, None);
            return Err((Trouble::own(outcome, ""), None));
        };
        tracing::debug!(waited_ms = ms(began.elapsed()), "the gate gives a permit");
        tally.enter();
        // It may have tripped meanwhile. Another endpoint, or a probe's place, is as good; else nothing is sent.
        if let Err(trouble) = tally.admit_again(avoided) {
            return Err((trouble, None));
        }
        self.attempts += 1;
        let endpoint = Arc::clone(tally.endpoint());
        open(&self.routes.client, body.clone(), self.scope, self.give_up, tally, gate)
            .await
            .map_err(|trouble| (trouble, Some(endpoint)))
    }

    /// The tokens of one attempt. It waits for them within the call's patience, on the last hop too: then another hop that
    /// has some is better, and none at all are better than to wait for ever.
    async fn tokens(&mut self, exit: &Exit, tokens: Tokens) -> Result<Debit, Trouble> {
        if exit.quota.is_unlimited() {
            return Ok(Debit::none());
        }
        let estimate = *self.estimate.get_or_insert_with(|| estimate(self.request));
        let until = self.end().min(self.patience.until());
        let wish = Wish { tenant: self.scope.task.tenant, estimate, until };
        if tokens == Tokens::Passed {
            let passed = exit.quota.pass(&wish, self.end()).await;
            return passed.ok_or_else(|| Trouble::own(self.out_of_time(), ""));
        }
        let began = Instant::now();
        let taken = exit.quota.take(&wish, |throttled| self.tell(throttled)).await;
        self.patience.spent_since(began);
        match taken {
            Taken::Debit(debit) => {
                tracing::debug!(waited_ms = ms(began.elapsed()), "the limits give tokens");
                Ok(debit)
            }
            Taken::Exhausted { wait, dimension } => Err(Trouble {
                message: format!("the {dimension} of the day are used up").into(),
                ..Trouble::closed_off(Outcome::Exhausted, wait)
            }),
            Taken::Impatient { .. } if Instant::now() >= self.end() => Err(Trouble::own(self.out_of_time(), "")),
            Taken::Impatient { wait } => Err(Trouble::closed_off(Outcome::NoTokens, wait)),
        }
    }

    fn tell(&self, throttled: Throttled) {
        if let Some(to) = &self.scope.throttled {
            // A caller who has not read the one before needs no second one.
            drop(to.try_send(throttled));
        }
    }

    /// What a call is called whose time is over before anything was sent.
    fn out_of_time(&self) -> Outcome {
        if self.scope.deadline.is_some_and(|deadline| deadline <= self.give_up) {
            Outcome::Deadline
        } else {
            Outcome::NoPermit
        }
    }

    /// Until when an attempt waits for its turn, and what it is called when it does not get it.
    fn waits_until(&self, is_last: bool) -> (Instant, Outcome) {
        let turn = if self.waits_to_the_end(is_last) { self.give_up } else { self.give_up.min(self.patience.until()) };
        match self.scope.deadline {
            Some(deadline) if deadline <= turn => (deadline, Outcome::Deadline),
            _ => (turn, Outcome::NoPermit),
        }
    }

    /// How long to wait before the next attempt on the same hop; `None`: there is none.
    fn wait_before_next(&self, exit: &Exit, trouble: &Trouble, on_this_hop: u32, is_last: bool) -> Option<Duration> {
        if on_this_hop >= self.routes.retry.attempts || trouble.is_retry_useless {
            return None;
        }
        let without_hint = match verdict(trouble.outcome).same_hop {
            Again::No => return None,
            Again::Once if on_this_hop > 1 => return None,
            Again::Once | Again::Yes => back_off(on_this_hop),
            // The gate is pushed back by its own time; that is the wait.
            Again::AfterHint => exit.gate.push_back_time(),
        };
        let wait = match trouble.hint {
            Some(hint) if hint > self.routes.retry.hint_max => return None,
            Some(hint) => jitter_up(hint),
            None => without_hint,
        };
        let end = if self.waits_to_the_end(is_last) { self.end() } else { self.end().min(self.patience.until()) };
        let is_in_time = Instant::now() + wait < end;
        (is_in_time && self.retry_budget.take(&self.routes.retry.budget)).then_some(wait)
    }

    /// Whether rate limits are waited for as long as the call has time: where no other hop could serve, and the caller has
    /// not said how long it waits.
    fn waits_to_the_end(&self, is_last: bool) -> bool {
        is_last && self.scope.wait.is_none()
    }

    /// The end of the time box, or the caller's deadline.
    fn end(&self) -> Instant {
        self.scope.deadline.map_or(self.give_up, |deadline| deadline.min(self.give_up))
    }
}

/// Milliseconds with their fraction, for logs.
pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
