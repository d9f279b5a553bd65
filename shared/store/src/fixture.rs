//! For tests: a database of one's own on the server that the test harness started.
#![expect(clippy::expect_used, clippy::panic, reason = "a test without its server must fail loudly")]

use std::time::Duration;

use penstock_config::Mysql;
use secrecy::SecretString;
use sqlx::{AssertSqlSafe, Connection, MySqlConnection};

use crate::Store;

/// A migrated database with a random name; dropped by [`TestDatabase::drop_database`].
#[derive(Debug)]
pub struct TestDatabase {
    /// Access to it.
    pub store: Store,
    /// URL with the database.
    pub url: String,
    server: String,
    name: String,
}

impl TestDatabase {
    /// Creates and migrates a database.
    pub async fn create() -> Self {
        let server = server_url();
        let name = format!("penstock_test_{}", uuid::Uuid::now_v7().simple());
        let mut connection = MySqlConnection::connect(&server).await.expect("the MySQL server of the tests answers");
        sqlx::query(AssertSqlSafe(format!("CREATE DATABASE {name}")))
            .execute(&mut connection)
            .await
            .expect("the test user may create databases");
        let url = format!("{}/{name}", server.trim_end_matches('/'));
        let store = Store::connect(&settings(&url)).expect("the URL is one of MySQL");
        store.migrate().await.expect("migrations run");
        Self { store, url, server, name }
    }

    /// Drops the database.
    pub async fn drop_database(self) {
        self.store.close().await;
        let mut connection =
            MySqlConnection::connect(&self.server).await.expect("the MySQL server of the tests answers");
        sqlx::query(AssertSqlSafe(format!("DROP DATABASE {}", self.name)))
            .execute(&mut connection)
            .await
            .expect("the database can be dropped");
    }
}

/// Settings as in production, for `url`.
#[must_use]
pub fn settings(url: &str) -> Mysql {
    Mysql {
        url: SecretString::from(url.to_owned()),
        pool_max: 8,
        timeout: Duration::from_secs(10),
        batch_rows_max: 64,
        batch_waiting_max: 10_000,
    }
}

#[expect(clippy::disallowed_methods, reason = "the test harness hands over its servers in the environment")]
fn server_url() -> String {
    std::env::var("PENSTOCK_TEST_MYSQL_URL")
        .unwrap_or_else(|_| panic!("PENSTOCK_TEST_MYSQL_URL is not set: run `make test`, which starts the servers"))
}
