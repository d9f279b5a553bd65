//! What can go wrong with the database, sorted by what the caller does about it.

/// A statement that did not give an answer.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// MySQL cannot be reached, or did not answer in time. Whether a write took place is unknown.
    #[error("MySQL did not answer: {0}")]
    Unavailable(String),
    /// More writes wait than `mysql.batch_waiting_max`; nothing was sent.
    #[error("too many writes wait for MySQL")]
    Busy,
    /// The name is taken, or what was named does not exist.
    #[error("{0}")]
    Conflict(String),
    /// MySQL refused the statement: a fault of this program or of the schema.
    #[error("MySQL refused a statement: {0}")]
    Refused(#[source] sqlx::Error),
    /// A stored value cannot be read.
    #[error("the row of {row} cannot be read: {reason}")]
    Corrupt {
        /// Which row.
        row: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Deadlock: the statement was rolled back and may be sent again.
pub(crate) const DEADLOCK: u16 = 1213;
/// Lock wait time-out: the same.
pub(crate) const LOCK_WAIT: u16 = 1205;

/// Server codes that mean "not now": shutdown, too many connections, lost connection, killed, read-only after failover.
const NOT_NOW: [u16; 8] = [1040, 1053, 1077, 1079, 1152, 1158, 1290, 1927];

impl StoreError {
    pub(crate) fn from_sqlx(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::WorkerCrashed => Self::Unavailable(error.to_string()),
            sqlx::Error::Database(_) if number(&error).is_some_and(|code| NOT_NOW.contains(&code)) => {
                Self::Unavailable(error.to_string())
            }
            sqlx::Error::Database(_) if matches!(number(&error), Some(DEADLOCK | LOCK_WAIT)) => {
                Self::Unavailable(error.to_string())
            }
            _ => Self::Refused(error),
        }
    }
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> Self {
        Self::from_sqlx(error)
    }
}

/// The server's number of an error.
pub(crate) fn number(error: &sqlx::Error) -> Option<u16> {
    let database = error.as_database_error()?;
    database.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>().map(sqlx::mysql::MySqlDatabaseError::number)
}

/// Whether a row with the same primary or unique key is there.
pub(crate) fn is_duplicate(error: &sqlx::Error) -> bool {
    number(error) == Some(1062)
}

/// Whether the connection was found dead or lost; the statement may or may not have worked.
pub(crate) fn is_connection_lost(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed)
}
