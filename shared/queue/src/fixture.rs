//! For tests: a queue of one's own on the server that the test harness started.
#![expect(clippy::expect_used, clippy::panic, reason = "a test without its server must fail loudly")]

use penstock_protocol::{Place, TaskId, TaskKey, TenantNo};
use redis::{FromRedisValue, cmd};
#[doc(no_inline)]
pub use redis::{Value, from_redis_value};

use crate::{Library, Queue, QueueSettings, QueuedTask, Shard, TenantTerms, Terms};

/// A queue with a random deployment name; its keys go with [`TestQueue::delete`].
#[derive(Debug)]
pub struct TestQueue {
    /// Access to it; admission is open.
    pub queue: Queue,
}

impl TestQueue {
    /// An empty queue with open admission.
    pub async fn create() -> Self {
        Self::create_with(|_| ()).await
    }

    /// The same with other settings.
    pub async fn create_with(change: impl FnOnce(&mut QueueSettings)) -> Self {
        let mut settings = settings();
        change(&mut settings);
        let queue = Queue::connect(settings).await.expect("the Redis server of the tests answers");
        let test = Self { queue };
        test.rebuild_empty().await;
        test
    }

    /// The same with other verbs.
    pub async fn create_with_library(change: impl FnOnce(&mut QueueSettings), library: Library) -> Self {
        let mut settings = settings();
        change(&mut settings);
        let queue = Queue::connect_with(settings, library).await.expect("the Redis server of the tests answers");
        let test = Self { queue };
        test.rebuild_empty().await;
        test
    }

    async fn rebuild_empty(&self) {
        let census = self.queue.census().await.expect("census");
        let token = self.queue.wipe(&census).await.expect("wipe").expect("nobody else uses the queue");
        assert!(self.queue.apply(token.book(), &Terms::default()).await.expect("terms"), "nobody else wipes");
        assert!(self.queue.open(&token).await.expect("open"), "nobody else uses the queue");
    }

    /// Brings the queue in line with `terms`.
    pub async fn apply(&self, terms: &Terms) {
        let census = self.queue.census().await.expect("census");
        assert!(self.queue.apply(&census.book, terms).await.expect("terms"), "nobody wipes the queue");
    }

    /// The same for the tenants named; all else is as usual.
    pub async fn apply_to(&self, tenants: &[TenantTerms]) {
        self.apply(&Terms { tenants: tenants.to_vec(), ..Terms::default() }).await;
    }

    /// Sends a plain command.
    pub async fn command<T: FromRedisValue>(&self, words: &[&str]) -> T {
        command(&self.queue, words).await
    }

    /// Sends plain commands in one round trip.
    pub async fn commands(&self, commands: &[Vec<&str>]) -> Vec<Value> {
        let mut pipeline = redis::pipe();
        for words in commands {
            let (name, arguments) = words.split_first().expect("a command has a name");
            let mut command = cmd(name);
            for argument in arguments {
                command.arg(*argument);
            }
            pipeline.add_command(command);
        }
        self.queue.commands("test", &pipeline).await.expect("the commands work")
    }

    /// Full name of a key of the queue.
    #[must_use]
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.queue.shard().prefix())
    }

    /// Deletes every key of the queue, as a flush would.
    pub async fn delete_keys(&self) {
        let pattern = format!("{}*", self.queue.shard().prefix());
        let mut cursor = "0".to_owned();
        loop {
            let (next, keys): (String, Vec<String>) =
                self.command(&["SCAN", &cursor, "MATCH", &pattern, "COUNT", "1000"]).await;
            for key in keys {
                let _: i64 = self.command(&["DEL", &key]).await;
            }
            if next == "0" {
                return;
            }
            cursor = next;
        }
    }

    /// Deletes the queue.
    pub async fn delete(self) {
        self.delete_keys().await;
    }
}

/// Sends a plain command to the server of `queue`.
pub async fn command<T: FromRedisValue>(queue: &Queue, words: &[&str]) -> T {
    let (name, arguments) = words.split_first().expect("a command has a name");
    let mut command = cmd(name);
    for argument in arguments {
        command.arg(*argument);
    }
    let value: Value = queue.command("test", &command).await.expect("the command works");
    T::from_redis_value(value).expect("the answer has the expected type")
}

/// Settings as in production, for a random deployment.
#[must_use]
pub fn settings() -> QueueSettings {
    let deployment = format!("test-{}", uuid::Uuid::new_v4().simple());
    let mut settings = QueueSettings::new(server_url(), Shard::new(&deployment, "main", 0).expect("a plain name"));
    // A loaded test machine is no slow Redis.
    settings.admit_timeout = std::time::Duration::from_secs(5);
    settings.call_timeout = std::time::Duration::from_secs(5);
    settings
}

/// A task of `tenant` without user and thread, at a place given by `number`.
#[must_use]
pub fn task(tenant: u32, number: u64) -> QueuedTask {
    QueuedTask {
        key: TaskKey::new(TenantNo(tenant), TaskId::mint()),
        user: None,
        thread: None,
        body_hash: [7; 32],
        place: Place::from_stored(format!("{number:013x}{number:08x}")),
        accepted_ms: number,
        cost_tokens: 100,
        attempt: 0,
        is_quarantined: false,
        agent: String::new(),
    }
}

/// URL of the Redis server of the tests.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the test harness hands over its servers in the environment")]
pub fn server_url() -> String {
    std::env::var("PENSTOCK_TEST_REDIS_URL")
        .unwrap_or_else(|_| panic!("PENSTOCK_TEST_REDIS_URL is not set: run `make test`, which starts the servers"))
}
