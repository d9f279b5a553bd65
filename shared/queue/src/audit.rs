//! Counters and turns against what they speak of, for the reconciler and the operator's check.

use std::collections::BTreeMap;

use redis::cmd;

use crate::{Queue, QueueError};

/// What a page of an audit looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditPart {
    /// Counters of tenants, their places in the ring, and the sums.
    Tenants,
    /// Threads whose turn somebody has who is not live.
    Threads,
    /// Tasks held by a thread whose turn nobody has.
    Held,
}

impl AuditPart {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Tenants, Self::Threads, Self::Held];

    fn name(self) -> &'static str {
        match self {
            Self::Tenants => "tenants",
            Self::Threads => "threads",
            Self::Held => "held",
        }
    }
}

/// One difference, as Redis words it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditFinding {
    /// Counter or turn.
    pub what: String,
    /// Tenant, or `tenant|thread`; empty for a sum.
    pub whose: String,
    /// What stands there.
    pub found: String,
    /// What ought to.
    pub truth: String,
}

/// A part of an audit.
#[derive(Clone, Debug)]
pub struct AuditPage {
    /// Differences.
    pub findings: Vec<AuditFinding>,
    /// Where to go on; `None` = that was all.
    pub cursor: Option<String>,
}

impl Queue {
    /// Audits a page of about `count`, from `cursor` on, and mends what it finds if told to. Atomic in Redis, so that a
    /// difference is one also while the system runs.
    pub async fn audit(
        &self,
        part: AuditPart,
        cursor: Option<&str>,
        count: usize,
        mend: bool,
    ) -> Result<AuditPage, QueueError> {
        let verb = self.verb("audit", None).arg(part.name()).arg(cursor.unwrap_or("0")).arg(count).arg(u8::from(mend));
        let mut words: Vec<String> = self.call(&verb).await?;
        let cursor = if words.is_empty() { "0".to_owned() } else { words.remove(0) };
        let findings = words.chunks_exact(4).filter_map(|words| match words {
            [what, whose, found, truth] => Some(AuditFinding {
                what: what.clone(),
                whose: whose.clone(),
                found: found.clone(),
                truth: truth.clone(),
            }),
            _ => None,
        });
        Ok(AuditPage { findings: findings.collect(), cursor: (cursor != "0").then_some(cursor) })
    }

    /// Live tasks of end users as their counters say, by `tenant|user`.
    pub async fn user_counters(&self) -> Result<BTreeMap<String, u64>, QueueError> {
        let mut read = cmd("HGETALL");
        read.arg(self.keys().users());
        let counters: BTreeMap<String, String> = self.answer("hgetall", self.command("hgetall", &read).await?)?;
        Ok(counters.into_iter().filter_map(|(user, live)| Some((user, live.parse().ok()?))).collect())
    }

    /// Sets the counter of an end user to what the records say, unless it has moved since it was `found`.
    pub async fn mend_user(&self, user: &str, found: Option<u64>, live: u64) -> Result<bool, QueueError> {
        let found = found.map_or(String::new(), |found| found.to_string());
        self.call(&self.verb("mend_user", None).arg(user).arg(found).arg(live)).await
    }
}
