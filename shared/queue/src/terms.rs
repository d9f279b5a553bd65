//! The terms by which the queue serves: what is paused, and each tenant's weight, cap and start rate.
//!
//! Rows in MySQL are the truth. Recovery brings Redis in line with them whenever their revision is another one, and in
//! every rebuild before anything is handed out: a new book serves nobody until its terms are confirmed.

use penstock_protocol::TenantNo;

use crate::queue::Verb;
use crate::recovery::BookId;
use crate::{Queue, QueueError, field};

/// Tenants in one call.
const TENANTS_PER_CALL: usize = 200;
/// Tasks that one call looks at while those of an agent are put aside or brought back.
const TASKS_PER_CALL: u32 = 500;

/// All terms, as MySQL has them.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    /// Grows with every change.
    pub revision: u64,
    /// Nothing is handed out.
    pub is_paused: bool,
    /// Running cap of tenants without one; 0 = none.
    pub running_max: u64,
    /// Agents whose tasks do not start.
    pub agents_paused: Vec<String>,
    /// Every tenant.
    pub tenants: Vec<TenantTerms>,
}

/// A tenant's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TenantTerms {
    /// The tenant.
    pub tenant: TenantNo,
    /// Its share of the slots among tenants that wait, from 1.
    pub weight: u32,
    /// Most tasks that run at once; `None` = as the queue has it, 0 = any number.
    pub running_max: Option<u32>,
    /// Most starts in a minute, evenly spread; `None` = any number.
    pub starts_per_minute: Option<u32>,
    /// None of its tasks start.
    pub is_paused: bool,
}

impl TenantTerms {
    /// The usual terms: weight 1, no cap but the queue's, any rate.
    #[must_use]
    pub fn usual(tenant: TenantNo) -> Self {
        Self { tenant, weight: 1, running_max: None, starts_per_minute: None, is_paused: false }
    }

    fn args(&self, verb: Verb) -> Verb {
        let gap_ms = self.starts_per_minute.map_or(0.0, |starts| 60_000.0 / f64::from(starts.max(1)));
        verb.arg(self.tenant.to_string())
            .arg(self.weight.max(1))
            .arg(self.running_max.map_or_else(String::new, |cap| cap.to_string()))
            .arg(format!("{gap_ms:.3}"))
            .arg(u8::from(self.is_paused))
    }
}

impl Queue {
    /// Brings the book in line with `terms`. False: it was wiped since, and whoever wiped it sets its terms.
    ///
    /// May be repeated and broken off anywhere: only the last step says that the terms are in force.
    pub async fn apply(&self, book: &BookId, terms: &Terms) -> Result<bool, QueueError> {
        let agents: String = terms.agents_paused.iter().map(|agent| format!(" {} ", field::agent(agent))).collect();
        let verb = self.verb("set_queue", None).arg(book.as_str()).arg(terms.running_max).arg(agents);
        if !self.call::<bool>(&verb).await? {
            return Ok(false);
        }
        for some in terms.tenants.chunks(TENANTS_PER_CALL) {
            let verb = self.verb("set_tenants", None).arg(book.as_str());
            if !self.call::<bool>(&some.iter().fold(verb, |verb, tenant| tenant.args(verb))).await? {
                return Ok(false);
            }
        }
        for walk in ["unpark", "park"] {
            let mut from = String::new();
            loop {
                from = self.call(&self.verb(walk, None).arg(&from).arg(TASKS_PER_CALL)).await?;
                if from.is_empty() {
                    break;
                }
            }
        }
        let verb = self.verb("confirm_terms", None).arg(book.as_str()).arg(terms.revision);
        self.call(&verb.arg(u8::from(terms.is_paused))).await
    }
}
