//! Table `pause`: what operators stopped. The rows are the truth; recovery brings Redis in line with them.

use penstock_protocol::clock;
use sqlx::Row;

use crate::tenant::{bump, bump_queue};
use crate::{Store, StoreError};

/// What is paused: none of its tasks start, what runs goes on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Paused {
    /// The whole queue.
    Queue,
    /// A tenant, by its name.
    Tenant(String),
    /// An agent, by its name, for all tenants.
    Agent(String),
}

/// A pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PauseRow {
    /// What is paused.
    pub what: Paused,
    /// Since when.
    pub since_ms: u64,
}

impl Paused {
    /// `queue`, `tenant` or `agent`.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Tenant(_) => "tenant",
            Self::Agent(_) => "agent",
        }
    }

    /// Name of the tenant or agent; empty for the queue.
    #[must_use]
    pub fn name(&self) -> &str {
        match self {
            Self::Queue => "",
            Self::Tenant(name) | Self::Agent(name) => name,
        }
    }

    fn from_stored(kind: &str, name: String) -> Option<Self> {
        match kind {
            "queue" => Some(Self::Queue),
            "tenant" => Some(Self::Tenant(name)),
            "agent" => Some(Self::Agent(name)),
            _ => None,
        }
    }
}

impl Store {
    /// Pauses, or lets go on. May be repeated. Errors: `Conflict` when there is no such tenant.
    pub async fn set_paused(&self, what: &Paused, is_paused: bool) -> Result<(), StoreError> {
        if let Paused::Tenant(name) = what
            && !self.tenants().await?.iter().any(|tenant| tenant.name == *name)
        {
            return Err(StoreError::Conflict(format!("there is no tenant named `{name}`")));
        }
        self.database
            .run(|mut connection| async move {
                let statement = if is_paused {
                    sqlx::query("INSERT IGNORE INTO pause (kind, name, since_ms) VALUES (?, ?, ?)")
                        .bind(what.kind())
                        .bind(what.name())
                        .bind(clock::wall_ms())
                } else {
                    sqlx::query("DELETE FROM pause WHERE kind = ? AND name = ?").bind(what.kind()).bind(what.name())
                };
                statement.execute(&mut *connection).await?;
                bump(&mut connection).await?;
                bump_queue(&mut connection).await
            })
            .await
    }

    /// Everything that is paused.
    pub async fn pauses(&self) -> Result<Vec<PauseRow>, StoreError> {
        self.database
            .run(|mut connection| async move {
                let rows = sqlx::query("SELECT kind, name, since_ms FROM pause ORDER BY kind, name")
                    .fetch_all(&mut *connection)
                    .await?;
                let mut pauses = Vec::with_capacity(rows.len());
                for row in &rows {
                    let (kind, name): (String, String) = (row.try_get(0)?, row.try_get(1)?);
                    // A kind of a newer version is its business.
                    let Some(what) = Paused::from_stored(&kind, name) else { continue };
                    pauses.push(PauseRow { what, since_ms: row.try_get(2)? });
                }
                Ok(pauses)
            })
            .await
    }

    /// A number that grows with every change of a tenant's terms or of a pause.
    pub async fn queue_revision(&self) -> Result<u64, StoreError> {
        self.database
            .run(|mut connection| async move {
                sqlx::query_scalar("SELECT n FROM revision WHERE name = 'queue'").fetch_one(&mut *connection).await
            })
            .await
    }
}
