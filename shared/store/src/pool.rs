//! The connection pool, bounded in size and time, and the batchers that write through it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use penstock_config::Mysql;
use prometheus_client::registry::Registry;
use secrecy::ExposeSecret;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions};
use sqlx::pool::PoolConnection;
use sqlx::{MySql, MySqlPool};
use tokio::sync::Notify;

use crate::StoreError;
use crate::batch::{BatchRow, Batcher};
use crate::repeat::Repeats;
use crate::task::{Claim, EndRow, NewRow};
use crate::webhook::Webhooks;

/// Prepared statements kept on one connection: one text for each batch size and kind.
const STATEMENTS_MAX: usize = 1024;

/// Access to MySQL. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) database: Database,
    pub(crate) accepts: Batcher<NewRow>,
    pub(crate) claims: Batcher<Claim>,
    pub(crate) ends: Batcher<EndRow>,
    pub(crate) webhooks: Arc<Webhooks>,
    pub(crate) schedule_woken: Arc<Notify>,
}

/// The pool with its time bound; what batchers and single statements share.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pool: MySqlPool,
    timeout: Duration,
    repeats: Repeats,
}

impl Store {
    /// Prepares a pool; connects when first used, so that a process can start while MySQL is away.
    ///
    /// Errors: a URL that is not one of MySQL.
    pub fn connect(settings: &Mysql) -> Result<Self, StoreError> {
        let options: MySqlConnectOptions = settings.url.expose_secret().parse().map_err(|_| {
            StoreError::Conflict("mysql.url: must be mysql://user:password@host:port/database".to_owned())
        })?;
        let options = options.statement_cache_capacity(STATEMENTS_MAX);
        let pool = MySqlPoolOptions::new()
            .max_connections(settings.pool_max)
            .acquire_timeout(settings.timeout)
            // A dead connection costs one retry (`Database::run`); a ping before each use would cost a round trip always.
            .test_before_acquire(false)
            .connect_lazy_with(options);
        let database = Database { pool, timeout: settings.timeout, repeats: Repeats::default() };
        let (rows, waiting) = (settings.batch_rows_max, settings.batch_waiting_max);
        Ok(Self {
            accepts: Batcher::start(&database, rows, waiting),
            claims: Batcher::start(&database, rows, waiting),
            ends: Batcher::start(&database, rows, waiting),
            webhooks: Arc::default(),
            schedule_woken: Arc::default(),
            database,
        })
    }

    /// Brings the schema up to date. Safe to run from several processes at once.
    pub async fn migrate(&self) -> Result<(), StoreError> {
        let migrator = sqlx::migrate!("../../migrations");
        migrator.run(&self.database.pool).await.map_err(|error| StoreError::Refused(error.into()))
    }

    /// Whether MySQL answers and the schema is there.
    pub async fn ping(&self) -> Result<(), StoreError> {
        self.database
            .run(|mut connection| async move {
                sqlx::query("SELECT 1 FROM revision LIMIT 1").execute(&mut *connection).await
            })
            .await?;
        Ok(())
    }

    /// Registers what the store counts in the process's registry.
    pub fn register(&self, registry: &mut Registry) {
        self.database.repeats.register(registry);
    }

    /// Closes the pool; statements that run are awaited.
    pub async fn close(&self) {
        self.database.pool.close().await;
    }
}

impl Database {
    /// Runs `statements` on one connection within the time-out, again after lock trouble or a lost connection.
    ///
    /// So `statements` must be safe to repeat: each statement of this crate is, because it is conditional and its
    /// outcome is read back from the row.
    pub(crate) async fn run<T, F, Done>(&self, statements: F) -> Result<T, StoreError>
    where
        F: Fn(PoolConnection<MySql>) -> Done,
        Done: Future<Output = Result<T, sqlx::Error>>,
    {
        self.within_time(async {
            let mut tried = 0;
            loop {
                // A lost connection is found dead when it returns to the pool, and closed there.
                match statements(self.pool.acquire().await?).await {
                    Ok(done) => return Ok(done),
                    Err(error) => self.repeats.again(&mut tried, error).await?,
                }
            }
        })
        .await
    }

    /// Waits until the pool is told to close. Cancel-safe.
    pub(crate) async fn closing(&self) {
        self.pool.close_event().await;
    }

    /// Writes a batch on the connection that the writer keeps, with the same time-out and repeats.
    pub(crate) async fn write<R: BatchRow>(
        &self,
        kept: &mut Option<PoolConnection<MySql>>,
        rows: &[R],
    ) -> Result<Vec<R::Outcome>, StoreError> {
        self.within_time(async {
            let mut tried = 0;
            loop {
                let mut connection = match kept.take() {
                    Some(connection) => connection,
                    None => self.pool.acquire().await?,
                };
                match R::write(&mut connection, rows).await {
                    Ok(done) => {
                        *kept = Some(connection);
                        return Ok(done);
                    }
                    Err(error) => self.repeats.again(&mut tried, error).await?,
                }
            }
        })
        .await
    }

    async fn within_time<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        match tokio::time::timeout(self.timeout, work).await {
            Ok(done) => done,
            Err(_) => Err(StoreError::Unavailable(format!("no answer in {} ms", self.timeout.as_millis()))),
        }
    }
}
