//! The stop: what is open ends, nobody new is let in, and it is over in time.

use std::time::Duration;

use penstock_protocol::TaskId;
use penstock_store::fixture::TestDatabase;
use reqwest::{Method, StatusCode};
use tokio::net::TcpStream;

use super::harness::{Door, eventually, settings_of, task_named};
use super::pipe::Pipe;

#[tokio::test(flavor = "multi_thread")]
async fn an_open_submit_ends_with_its_answer_and_new_connections_are_refused() {
    let database = TestDatabase::create().await;
    let mut settings = settings_of(&database).await;
    let (mysql, through) = Pipe::to(&database.url).await;
    settings.mysql.url = through.into();
    let door = Door::start(settings, &database).await;
    let (id, address) = (TaskId::mint(), door.url.trim_start_matches("http://").to_owned());
    mysql.freeze();
    let open = tokio::spawn(door.ann.request(Method::POST, "/api/task").json(&task_named(id)).send());
    eventually("the submit is admitted", async || door.depth().await == 1).await;
    let tenant = door.ann.tenant;
    let stop = tokio::spawn(door.stop());
    eventually("nobody is let in", async || TcpStream::connect(&address).await.is_err()).await;
    mysql.thaw();
    assert_eq!(open.await.unwrap().unwrap().status(), StatusCode::ACCEPTED);
    assert!(stop.await.unwrap(), "the drain ended by itself");
    let row = database.store.task(penstock_protocol::TaskKey::new(tenant, id)).await.unwrap();
    assert!(row.is_some());
    database.drop_database().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_hangs_does_not_outlast_the_drain() {
    let database = TestDatabase::create().await;
    let mut settings = settings_of(&database).await;
    let (mysql, through) = Pipe::to(&database.url).await;
    settings.mysql.url = through.into();
    settings.api.drain = Duration::from_millis(300);
    let door = Door::start(settings, &database).await;
    mysql.freeze();
    let open = tokio::spawn(door.ann.request(Method::GET, "/api/task").send());
    eventually("the request hangs", async || door.get("/metrics").await.text.contains("http_requests_open 2")).await;
    assert!(!door.stop().await, "it was dropped, not awaited");
    mysql.thaw();
    open.abort();
    database.drop_database().await;
}
