//! Law 10: a Redis that is silent, gone or odd costs the calls under way their time-out once, and no other call anything.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once};
use std::time::Duration;

use redis::AsyncCommands;
use tokio::io::copy;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, timeout};

use super::super::{BucketSettings, Limits, Taken};
use super::house::{House, Server, eventually, wish};

fn limits() -> Limits {
    Limits { rpm: 600_000, tpm: 600_000, ..Limits::default() }
}

/// Redis must answer within this, and is left alone this long.
fn hasty(settings: &mut BucketSettings) {
    settings.redis.call_timeout = Duration::from_millis(200);
    settings.redis.cool_down = Duration::from_millis(300);
    // Levels hardly move in the time of a test.
    settings.minute_ms = 3_600_000_000;
}

thread_local! {
    /// What the test of this thread has logged: its runtime has no other thread.
    static LINES: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Writes into the lines of the thread that logs. One for the process, since interest in log lines is kept for the process.
struct Lines;

impl std::io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LINES.with_borrow_mut(|lines| lines.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn listen() {
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| tracing_subscriber::fmt().with_ansi(false).with_writer(|| Lines).init());
}

fn lines_count() -> usize {
    LINES.with_borrow(|lines| String::from_utf8_lossy(lines).lines().count())
}

/// Sixty calls at once: one time-out for all of them together, since they share the connection.
async fn crowd(house: &House) {
    let calls = (0..60).map(|_| async { house.take(10).await.send() });
    futures_util::future::join_all(calls).await;
}

#[tokio::test]
async fn a_stopped_redis_is_left_alone_until_a_probe_is_answered_in_time() {
    listen();
    let server = Server::start().await;
    let house = House::on(&server.url(), limits(), hasty);
    crowd(&house).await;
    assert!(house.is_up() && lines_count() == 0);
    server.pause();
    for _ in 0..5 {
        crowd(&house).await;
        assert!(!house.is_up());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(house.metric("model_buckets_local"), 1.0);
    assert_eq!(house.metric("model_redis_trips_total"), 1.0);
    assert_eq!(lines_count(), 1, "one line for all of it");
    server.go_on();
    eventually("redis is used again", async || house.is_up()).await;
    crowd(&house).await;
    assert!(house.is_up());
    assert_eq!((house.metric("model_buckets_local"), lines_count()), (0.0, 2));
}

#[tokio::test]
async fn calls_of_a_resting_redis_do_not_wait_at_all() {
    let server = Server::start().await;
    let house = House::on(&server.url(), limits(), |settings| {
        hasty(settings);
        settings.redis.call_timeout = Duration::from_secs(2);
        settings.redis.cool_down = Duration::from_secs(600);
    });
    drop(house.take(1).await);
    server.pause();
    house.take(1).await.send();
    // Each of these would take two seconds if it asked.
    let began = Instant::now();
    for _ in 0..500 {
        house.take(1).await.send();
    }
    assert!(began.elapsed() < Duration::from_secs(500), "none of them asked");
    assert_eq!(house.metric("model_redis_trips_total"), 1.0);
}

#[tokio::test]
async fn the_local_bucket_goes_on_from_the_last_level_seen_for_its_share() {
    let server = Server::start().await;
    let house = House::on(&server.url(), Limits { tpm: 60_000, ..Limits::default() }, |settings| {
        hasty(settings);
        settings.redis.local_share = 0.5;
        settings.redis.cool_down = Duration::from_secs(600);
    });
    // 3 000 at once; 1 000 are taken, half of the rest is this process's.
    house.take(1_000).await.send();
    server.pause();
    house.take(600).await.send();
    assert!(!house.is_up());
    house.take(400).await.send();
    let refused = house.take_within(10, Duration::ZERO).await;
    assert!(matches!(refused, Taken::Impatient { .. }), "{refused:?}");
}

/// Hands bytes on until it is told to be silent: then nothing comes through in either direction, and nothing is closed.
async fn proxy(to: std::net::SocketAddr, is_silent: Arc<AtomicBool>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((inner, _)) = listener.accept().await {
            let is_silent = Arc::clone(&is_silent);
            tokio::spawn(async move {
                hold(&is_silent).await;
                let outer = TcpStream::connect(to).await.unwrap();
                let ((inner_read, mut inner_write), (outer_read, mut outer_write)) =
                    (inner.into_split(), outer.into_split());
                let (mut up, mut down) = (Held::new(inner_read, &is_silent), Held::new(outer_read, &is_silent));
                drop(tokio::join!(copy(&mut up, &mut outer_write), copy(&mut down, &mut inner_write)));
            });
        }
    });
    format!("redis://{address}/")
}

async fn hold(is_silent: &AtomicBool) {
    while is_silent.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// A reader that gives nothing while it is silent.
struct Held<R> {
    inner: R,
    is_silent: Arc<AtomicBool>,
    wake: std::pin::Pin<Box<tokio::time::Sleep>>,
}

impl<R> Held<R> {
    fn new(inner: R, is_silent: &Arc<AtomicBool>) -> Self {
        let wake = Box::pin(tokio::time::sleep(Duration::ZERO));
        Self { inner, is_silent: Arc::clone(is_silent), wake }
    }
}

impl<R: tokio::io::AsyncRead + Unpin> tokio::io::AsyncRead for Held<R> {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        into: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        while self.is_silent.load(Ordering::Relaxed) {
            std::task::ready!(self.wake.as_mut().poll(context));
            self.wake.as_mut().reset(Instant::now() + Duration::from_millis(5));
        }
        std::pin::Pin::new(&mut self.inner).poll_read(context, into)
    }
}

#[tokio::test]
async fn dropped_packets_are_no_refusal_and_are_noticed_all_the_same() {
    listen();
    let (server, is_silent) = (Server::start().await, Arc::new(AtomicBool::new(false)));
    let house = House::on(&proxy(server.address, Arc::clone(&is_silent)).await, limits(), hasty);
    crowd(&house).await;
    is_silent.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        crowd(&house).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert!(!house.is_up());
    is_silent.store(false, Ordering::Relaxed);
    eventually("redis is used again", async || house.is_up()).await;
    assert_eq!(lines_count(), 2);
}

#[tokio::test]
async fn a_redis_that_is_gone_and_comes_back_without_scripts_is_used_again() {
    let server = Server::start().await;
    let (address, url) = (server.address, server.url());
    let house = House::on(&url, limits(), hasty);
    house.take(1).await.send();
    drop(server);
    for _ in 0..3 {
        house.take(1).await.send();
    }
    assert!(!house.is_up());
    let _server = Server::start_at(address).await;
    eventually("redis is used again", async || {
        house.take(1).await.send();
        house.is_up()
    })
    .await;
}

#[tokio::test]
async fn scripts_that_were_flushed_are_loaded_again_at_once() {
    let server = Server::start().await;
    let house = House::on(&server.url(), limits(), |settings| settings.redis.cool_down = Duration::from_secs(600));
    house.take(1).await.send();
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let _: () = redis::cmd("FUNCTION").arg("FLUSH").query_async(&mut connection).await.unwrap();
    house.take(1).await.send();
    eventually("redis is used again", async || house.is_up()).await;
}

#[tokio::test]
async fn a_lost_settlement_is_counted_and_never_sent_again() {
    let server = Server::start().await;
    let house = House::on(&server.url(), Limits { tpm: 60_000, ..Limits::default() }, hasty);
    let mut debit = house.take(1_000).await;
    debit.send();
    server.pause();
    debit.settle(None, 500);
    house.buckets.flush().await;
    assert_eq!(house.metric("model_settle_lost_total"), 1.0);
    server.go_on();
    eventually("redis is used again", async || house.is_up()).await;
    house.buckets.flush().await;
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let key = format!("{{{}:bucket:fake/m}}:levels", house.deployment);
    // The stopped server had read it: what is lost may have worked, but not twice.
    let level: f64 = connection.hget(key, "t").await.unwrap();
    assert!((1_499.0..=1_501.0).contains(&level) || (1_999.0..=2_001.0).contains(&level), "{level}");
}

#[tokio::test]
async fn a_call_that_leaves_while_redis_thinks_leaves_no_debit_behind() {
    let server = Server::start().await;
    let house = House::on(&server.url(), Limits { tpm: 60_000, ..Limits::default() }, |settings| {
        settings.minute_ms = 3_600_000_000;
    });
    drop(house.take(1).await);
    house.buckets.flush().await;
    server.pause();
    let left =
        timeout(Duration::from_millis(50), house.quota.take(&wish(1_000, Duration::from_secs(60)), |_| ())).await;
    assert!(left.is_err());
    server.go_on();
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let key = format!("{{{}:bucket:fake/m}}:levels", house.deployment);
    eventually("what was taken is given back", async || {
        house.buckets.flush().await;
        let mut connection = connection.clone();
        let level: f64 = connection.hget(&key, "t").await.unwrap();
        level > 2_999.0 && house.metric(r#"model_settlements_total{provider="fake",model="m",by="given_back"}"#) == 2.0
    })
    .await;
    let _: () = redis::cmd("PING").query_async(&mut connection).await.unwrap();
}

#[tokio::test]
async fn a_redis_that_cannot_be_reached_at_start_limits_nobody_less() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let house = House::on(&format!("redis://{closed}/"), Limits { tpm: 60_000, ..Limits::default() }, hasty);
    house.take(3_000).await.send();
    let refused = house.take_within(100, Duration::ZERO).await;
    assert!(matches!(refused, Taken::Impatient { .. }), "{refused:?}");
    assert!(!house.is_up());
}
