//! The Redis of the tests, and one exit's keys on it, used directly and at a time of one's own.

use redis::aio::MultiplexedConnection;
use redis::{Client, FromRedisValue, Value, cmd};

use super::super::library::LIBRARY;
use super::super::script::{Answer, Ask, Keys, settle, settle_answer, take, take_answer};
use super::super::{Change, Cost, Rules};

/// URL of the Redis server of the tests.
#[expect(clippy::disallowed_methods, reason = "the test harness hands over its servers in the environment")]
pub(super) fn url() -> String {
    std::env::var("PENSTOCK_TEST_REDIS_URL")
        .unwrap_or_else(|_| panic!("PENSTOCK_TEST_REDIS_URL is not set: run `make test`, which starts the servers"))
}

/// A deployment that no other test has.
pub(super) fn deployment() -> String {
    format!("test-{}", uuid::Uuid::new_v4().simple())
}

/// Keys of one exit, and a connection.
pub(super) struct Exit {
    pub(super) prefix: String,
    keys: Keys,
    connection: MultiplexedConnection,
}

impl Exit {
    pub(super) async fn new() -> Self {
        Self::of(&deployment()).await
    }

    pub(super) async fn of(deployment: &str) -> Self {
        let client = Client::open(url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let load = cmd("FUNCTION").arg("LOAD").arg("REPLACE").arg(&LIBRARY.source).to_owned();
        let _: String = load.query_async(&mut connection).await.unwrap();
        let prefix = format!("{{{deployment}:bucket:fake/m}}:");
        Self { prefix, keys: Keys::of_calls(deployment, "fake", "m"), connection }
    }

    pub(super) async fn take(&mut self, rules: &Rules, process: &str, age_ms: u64, cost: &Cost, now_ms: u64) -> Answer {
        let ask = Ask { process, age_ms, cost, now_ms, virtual_ms: now_ms };
        let value: Value = take(&self.keys, rules, &ask).query_async(&mut self.connection).await.unwrap();
        take_answer(rules, value).unwrap()
    }

    /// A take whose caller believes that it is another day.
    pub(super) async fn take_believing(&mut self, rules: &Rules, cost: &Cost, believed_ms: u64, now_ms: u64) -> Answer {
        let ask = Ask { process: "a", age_ms: 0, cost, now_ms: believed_ms, virtual_ms: now_ms };
        let value: Value = take(&self.keys, rules, &ask).query_async(&mut self.connection).await.unwrap();
        take_answer(rules, value).unwrap()
    }

    pub(super) async fn settle(&mut self, rules: &Rules, change: &Change, slot_ms: u64, now_ms: u64) -> Vec<i64> {
        let command = settle(&self.keys, rules, change, slot_ms, now_ms);
        let value: Value = command.query_async(&mut self.connection).await.unwrap();
        settle_answer(value).unwrap().1
    }

    /// A plain command; `{}` in a word stands for the exit's key prefix.
    pub(super) async fn command<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = cmd(words[0]);
        for word in &words[1..] {
            command.arg(word.replace("{}", &self.prefix));
        }
        command.query_async(&mut self.connection).await.unwrap()
    }
}
