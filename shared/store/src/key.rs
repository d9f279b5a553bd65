//! Table `api_key`. A key itself is never stored, only its SHA-256.

use penstock_protocol::{TenantNo, clock};
use sqlx::Row;

use crate::tenant::bump;
use crate::{Store, StoreError};

/// A key as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// Number for operators.
    pub id: u32,
    /// Owner.
    pub tenant: TenantNo,
    /// Label for people.
    pub name: String,
    /// SHA-256 of the key.
    pub hash: [u8; 32],
    /// Comma-separated scopes.
    pub scopes: String,
    /// When it was made.
    pub created_ms: u64,
    /// When it stops working by itself.
    pub expires_ms: Option<u64>,
    /// When it was revoked.
    pub revoked_ms: Option<u64>,
}

/// A key to be stored.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// Name of its tenant.
    pub tenant: String,
    /// Label for people.
    pub name: String,
    /// SHA-256 of the key.
    pub hash: [u8; 32],
    /// Comma-separated scopes.
    pub scopes: String,
    /// When it stops working by itself.
    pub expires_ms: Option<u64>,
}

impl Store {
    /// Stores a key of a tenant that is not revoked. Errors: `Conflict` when there is no such tenant.
    pub async fn create_key(&self, key: &NewKey) -> Result<u32, StoreError> {
        let created = self
            .database
            .run(|mut connection| async move {
                let done = sqlx::query(
                    "INSERT IGNORE INTO api_key (tenant, name, hash, scopes, created_ms, expires_ms) \
                     SELECT no, ?, ?, ?, ?, ? FROM tenant WHERE name = ? AND revoked_ms IS NULL",
                )
                .bind(&key.name)
                .bind(&key.hash[..])
                .bind(&key.scopes)
                .bind(clock::wall_ms())
                .bind(key.expires_ms)
                .bind(&key.tenant)
                .execute(&mut *connection)
                .await?;
                bump(&mut connection).await?;
                Ok((done.rows_affected() > 0).then(|| done.last_insert_id()))
            })
            .await?;
        let missing = || StoreError::Conflict(format!("there is no active tenant named `{}`", key.tenant));
        u32::try_from(created.ok_or_else(missing)?)
            .map_err(|_| StoreError::Corrupt { row: "api_key".to_owned(), reason: "number too large".to_owned() })
    }

    /// Revokes a key by its number. Errors: `Conflict` when there is no such key.
    pub async fn revoke_key(&self, id: u32) -> Result<(), StoreError> {
        let revoked = self
            .database
            .run(|mut connection| async move {
                let done = sqlx::query("UPDATE api_key SET revoked_ms = COALESCE(revoked_ms, ?) WHERE id = ?")
                    .bind(clock::wall_ms())
                    .bind(id)
                    .execute(&mut *connection)
                    .await?;
                bump(&mut connection).await?;
                // The connection counts rows found, not rows changed: a second revocation is no error.
                Ok(done.rows_affected() > 0)
            })
            .await?;
        if revoked { Ok(()) } else { Err(StoreError::Conflict(format!("there is no key number {id}"))) }
    }

    /// All keys, revoked and expired ones included, by number.
    pub async fn keys(&self) -> Result<Vec<KeyRow>, StoreError> {
        self.database
            .run(|mut connection| async move {
                let rows = sqlx::query(
                    "SELECT id, tenant, name, hash, scopes, created_ms, expires_ms, revoked_ms FROM api_key ORDER BY id",
                )
                .fetch_all(&mut *connection)
                .await?;
                rows.iter()
                    .map(|row| {
                        let hash: Vec<u8> = row.try_get(3)?;
                        Ok(KeyRow {
                            id: row.try_get(0)?,
                            tenant: TenantNo(row.try_get(1)?),
                            name: row.try_get(2)?,
                            hash: hash.try_into().map_err(|_| sqlx::Error::Decode("hash is not 32 bytes".into()))?,
                            scopes: row.try_get(4)?,
                            created_ms: row.try_get(5)?,
                            expires_ms: row.try_get(6)?,
                            revoked_ms: row.try_get(7)?,
                        })
                    })
                    .collect()
            })
            .await
    }
}
