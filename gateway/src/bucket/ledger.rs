//! The ledger of one exit: Redis, or while that rests, the twin in this process.
//!
//! The twin stays warm: each answer of Redis is written into it, so that it goes on from the last level seen. A settlement
//! goes to whichever ledger is current; a difference that lands on the other one is not chased.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use penstock_protocol::clock::wall_ms;
use tokio::time::Instant;

use super::link::{Link, LinkError};
use super::local::{Judgement, Local};
use super::metrics::ExitGauges;
use super::script::{Answer, Ask, Keys, leave, settle, settle_answer, take, take_answer};
use super::{Change, Cost, Rules};

/// Nobody waits longer, and scripts stay within whole numbers.
const AGE_MAX: Duration = Duration::from_secs(86_400);

/// What all ledgers of a process share.
#[derive(Debug)]
pub(crate) struct Office {
    pub(crate) link: Link,
    /// Name of this process in the lines.
    pub(crate) process: String,
    /// Part of each limit that this process uses alone while Redis rests.
    pub(crate) local_share: f64,
    clock: RedisClock,
}

/// Time of Redis, as far as this process knows it: the last answer and what has passed since. It dates the twin and chooses
/// the day; Redis itself goes by its own clock.
#[derive(Debug)]
struct RedisClock {
    began: Instant,
    offset_ms: AtomicI64,
}

/// One exit's ledger.
#[derive(Debug)]
pub(crate) struct Ledger {
    office: Arc<Office>,
    keys: Keys,
    rules: ArcSwap<Books>,
    local: Mutex<Local>,
    gauges: ExitGauges,
}

/// The rules, and what of them this process may use alone.
#[derive(Debug)]
struct Books {
    all: Rules,
    own: Rules,
}

impl Office {
    pub(crate) fn new(link: Link, process: String, local_share: f64) -> Self {
        let offset_ms = AtomicI64::new(i64::try_from(wall_ms()).unwrap_or(0));
        Self { link, process, local_share, clock: RedisClock { began: Instant::now(), offset_ms } }
    }
}

impl RedisClock {
    fn elapsed_ms(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.offset_ms.load(Ordering::Relaxed).saturating_add(self.elapsed_ms())).unwrap_or(0)
    }

    fn see(&self, now_ms: u64) {
        let now_ms = i64::try_from(now_ms).unwrap_or(0);
        self.offset_ms.store(now_ms - self.elapsed_ms(), Ordering::Relaxed);
    }
}

impl Ledger {
    pub(crate) fn new(office: Arc<Office>, keys: Keys, rules: Rules, gauges: ExitGauges) -> Self {
        let books = Books::new(rules, office.local_share);
        Self { office, keys, rules: ArcSwap::from_pointee(books), local: Mutex::default(), gauges }
    }

    /// Whether anything is limited.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.rules.load().all.is_empty()
    }

    /// Puts other rules in place of those that hold; levels stay.
    pub(crate) fn set_rules(&self, rules: Rules) {
        self.rules.store(Arc::new(Books::new(rules, self.office.local_share)));
    }

    /// Takes `cost` for a head that has waited for `age`.
    ///
    /// Not to be dropped: a take whose answer nobody reads stays debited.
    pub(crate) async fn take(&self, age: Duration, cost: &Cost) -> Judgement {
        let books = self.rules.load_full();
        // Twice: the first may have named the wrong day.
        for _ in 0..2 {
            let ask = Ask {
                process: &self.office.process,
                age_ms: u64::try_from(age.min(AGE_MAX).as_millis()).unwrap_or(0),
                cost,
                now_ms: self.office.clock.now_ms(),
                virtual_ms: 0,
            };
            let Ok(value) = self.office.link.send(&take(&self.keys, &books.all, &ask)).await else { break };
            match take_answer(&books.all, value) {
                Ok(answer) => {
                    self.see(&books.all, &answer);
                    if let Some(judgement) = answer.judgement {
                        return judgement;
                    }
                }
                Err(error) => {
                    self.office.link.reject(&error);
                    break;
                }
            }
        }
        self.local().take(&books.own, cost, self.office.clock.now_ms())
    }

    /// The command that settles a take in Redis.
    pub(crate) fn settle_command(&self, change: &Change, slot_ms: u64) -> redis::Cmd {
        settle(&self.keys, &self.rules.load().all, change, slot_ms, 0)
    }

    /// Reads the answer of that command.
    pub(crate) fn settled(&self, value: redis::Value) -> Result<(), LinkError> {
        let (now_ms, levels) = settle_answer(value)?;
        let books = self.rules.load();
        // Rules that were changed meanwhile are answered by the next take.
        if levels.len() == books.all.buckets.len() {
            self.see(&books.all, &Answer { judgement: None, now_ms, levels, uses: Vec::new() });
        }
        Ok(())
    }

    /// Settles a take in this process.
    pub(crate) fn settle_here(&self, change: &Change, slot_ms: u64) {
        self.local().settle(&self.rules.load().own, change, slot_ms, self.office.clock.now_ms());
    }

    /// The command that removes this process's ticket.
    pub(crate) fn leave_command(&self) -> redis::Cmd {
        leave(&self.keys, &self.office.process)
    }

    fn see(&self, rules: &Rules, answer: &Answer) {
        if answer.now_ms > 0 {
            self.office.clock.see(answer.now_ms);
        }
        self.local().see(rules, &answer.levels, &answer.uses, self.office.local_share, answer.now_ms);
        for (rule, level) in rules.buckets.iter().zip(&answer.levels) {
            self.gauges.level(rule.dimension, *level);
        }
    }

    fn local(&self) -> MutexGuard<'_, Local> {
        self.local.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Books {
    fn new(all: Rules, share: f64) -> Self {
        Self { own: all.shared(share), all }
    }
}
