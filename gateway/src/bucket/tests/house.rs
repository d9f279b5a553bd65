//! One limited exit as calls meet it, and a Redis of its own that can be stopped.

use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use penstock_protocol::TenantNo;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tokio::time::{Instant, sleep};

use super::super::{BucketMetrics, BucketSettings, Buckets, Cost, Debit, LimitTable, Limits, Quota, Taken, Wish};
use super::server::{deployment, url};

/// Longest wait for a state in a test.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) struct House {
    pub(super) deployment: String,
    pub(super) buckets: Buckets,
    pub(super) quota: Arc<Quota>,
    registry: Registry,
}

impl House {
    /// On the server of the tests.
    pub(super) fn new(limits: Limits, change: impl FnOnce(&mut BucketSettings)) -> Self {
        Self::on(&url(), limits, change)
    }

    pub(super) fn on(url: &str, limits: Limits, change: impl FnOnce(&mut BucketSettings)) -> Self {
        let mut settings = BucketSettings {
            deployment: deployment(),
            limits: LimitTable { global: limits, ..LimitTable::default() },
            ..BucketSettings::default()
        };
        settings.redis.url = url.to_owned().into();
        // A loaded test machine is no slow Redis.
        settings.redis.call_timeout = Duration::from_secs(5);
        change(&mut settings);
        let mut registry = Registry::with_prefix("penstock");
        let buckets = Buckets::new(&settings, &BucketMetrics::register(&mut registry)).unwrap();
        let quota = buckets.quota(&settings.limits, &"fake".into(), &"m".into());
        Self { deployment: settings.deployment, buckets, quota, registry }
    }

    /// A take with all the patience that a test has.
    pub(super) async fn take(&self, input_tokens: u64) -> Debit {
        match self.quota.take(&wish(input_tokens, PATIENCE), |_| ()).await {
            Taken::Debit(debit) => debit,
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn take_within(&self, input_tokens: u64, patience: Duration) -> Taken {
        self.quota.take(&wish(input_tokens, patience), |_| ()).await
    }

    /// The value of a metric; 0 where it does not stand.
    pub(super) fn metric(&self, name: &str) -> f64 {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let start = format!("penstock_{name} ");
        text.lines().find_map(|line| line.strip_prefix(&start)).map_or(0.0, |value| value.parse().unwrap())
    }

    pub(super) fn is_up(&self) -> bool {
        self.buckets.office.link.is_up()
    }
}

pub(super) fn wish(input_tokens: u64, patience: Duration) -> Wish {
    let estimate = Cost { input_tokens, ..Cost::default() };
    Wish { tenant: TenantNo(1), estimate, until: Instant::now() + patience }
}

pub(super) async fn eventually(what: &str, is_so: impl AsyncFn() -> bool) {
    let until = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < until, "not within {PATIENCE:?}: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// A Redis server of the test's own.
pub(super) struct Server {
    process: Child,
    pub(super) address: SocketAddr,
}

impl Server {
    pub(super) async fn start() -> Self {
        let address = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        Self::start_at(address).await
    }

    pub(super) async fn start_at(address: SocketAddr) -> Self {
        let process = Command::new("redis-server")
            .args(["--port", &address.port().to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .current_dir(std::env::temp_dir())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let server = Self { process, address };
        eventually("redis-server listens", async || tokio::net::TcpStream::connect(address).await.is_ok()).await;
        server
    }

    pub(super) fn url(&self) -> String {
        format!("redis://{}/", self.address)
    }

    /// Stops it from doing anything; its connections stay open.
    pub(super) fn pause(&self) {
        self.signal("-STOP");
    }

    pub(super) fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.process.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
