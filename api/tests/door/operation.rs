//! Probes, metrics, the description of the API, and the answers that no handler gives.

use penstock_store::fixture::TestDatabase;
use reqwest::{Method, StatusCode};
use tower::ServiceExt;

use super::harness::{Answer, Door, eventually, redis_url, settings_of, task};
use super::pipe::Pipe;

#[tokio::test(flavor = "multi_thread")]
async fn readiness_follows_redis_mysql_and_the_stop_while_health_does_not() {
    let database = TestDatabase::create().await;
    let mut settings = settings_of(&database).await;
    let (redis, redis_through) = Pipe::to(&redis_url()).await;
    let (mysql, mysql_through) = Pipe::to(&database.url).await;
    settings.redis.url = redis_through.into();
    settings.mysql.url = mysql_through.into();
    let door = Door::start(settings, &database).await;
    for (pipe, name) in [(&redis, "redis"), (&mysql, "mysql")] {
        pipe.freeze();
        let answer = door.get("/readyz").await;
        assert_eq!((answer.status, &answer.json()[name]), (StatusCode::SERVICE_UNAVAILABLE, &false.into()), "{name}");
        assert_eq!(door.get("/healthz").await.status, StatusCode::OK);
        pipe.thaw();
        eventually("it is ready again", async || door.get("/readyz").await.status == StatusCode::OK).await;
    }
    // Over HTTP nobody is let in any more, so the service is asked itself.
    let service = penstock_api::router(&door.app).unwrap();
    door.app.shutdown.cancel();
    let request = axum::extract::Request::get("/readyz").body(axum::body::Body::empty()).unwrap();
    assert_eq!(service.oneshot(request).await.unwrap().status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(door.stop().await);
    database.drop_database().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_happens_is_counted_under_names_from_closed_lists() {
    let door = Door::open_with(|settings| settings.queue.depth_max = 1).await;
    door.ann.submit(&task()).await.assert_accepted();
    door.ann.submit(&task()).await.assert_problem(429, "queue_full");
    door.get("/nowhere/at/all").await.assert_problem(404, "route_not_found");
    let text = door.get("/metrics").await.text;
    for line in [
        r#"penstock_http_requests_total{route="/api/task",status="2xx"} 1"#,
        r#"penstock_http_requests_total{route="/api/task",status="4xx"} 1"#,
        r#"penstock_http_requests_total{route="other",status="4xx"} 1"#,
        r#"penstock_problems_total{code="queue_full"} 1"#,
        r#"penstock_admissions_total{verdict="admitted"} 1"#,
        r#"penstock_admissions_total{verdict="full"} 1"#,
        "penstock_accept_seconds_count 1",
        "penstock_queue_depth_tasks 1",
        "penstock_queue_answering 1",
        "penstock_keys_age_seconds 0",
        "# EOF",
    ] {
        assert!(text.contains(line), "`{line}` is not in\n{text}");
    }
    assert!(!text.contains("nowhere"));
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_route_answers_is_a_problem_too() {
    let door = Door::open().await;
    door.get("/api/nothing").await.assert_problem(404, "route_not_found");
    let answer = Answer::read(door.ann.request(Method::PATCH, "/api/task").send().await.unwrap()).await;
    answer.assert_problem(405, "method_not_allowed");
    let allowed = answer.header("allow").unwrap();
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_keeps_its_id_or_gets_one() {
    let door = Door::open().await;
    let given = door.ann.request(Method::GET, "/api/queue").header("x-request-id", "abc-1").send().await.unwrap();
    assert_eq!(given.headers()["x-request-id"], "abc-1");
    let made = door.ann.get("/api/queue").await;
    assert_eq!(made.header("x-request-id").unwrap().len(), 32);
    let long = door.ann.request(Method::GET, "/api/queue").header("x-request-id", "x".repeat(65)).send().await.unwrap();
    assert_eq!(long.headers()["x-request-id"].len(), 32);
    door.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_request_over_the_bound_is_answered_503_and_probes_are_not_counted() {
    let database = TestDatabase::create().await;
    let mut settings = settings_of(&database).await;
    let (mysql, through) = Pipe::to(&database.url).await;
    settings.mysql.url = through.into();
    settings.api.requests_max = 2;
    let door = Door::start(settings, &database).await;
    mysql.freeze();
    let held = [0, 1].map(|_| tokio::spawn(door.ann.request(Method::GET, "/api/task").send()));
    eventually("two requests are held", async || door.get("/metrics").await.text.contains("http_requests_open 3"))
        .await;
    door.ann.submit(&task()).await.assert_problem(503, "overloaded");
    assert_eq!(door.get("/healthz").await.status, StatusCode::OK);
    mysql.thaw();
    for request in held {
        assert_eq!(request.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    door.ann.submit(&task()).await.assert_accepted();
    door.stop().await;
    database.drop_database().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_description_lists_every_route_and_needs_no_key() {
    let door = Door::open().await;
    let answer = door.get("/openapi.json").await;
    let paths = answer.json()["paths"].clone();
    for (path, method) in [
        ("/api/task", "post"),
        ("/api/task", "get"),
        ("/api/task/{id}", "get"),
        ("/api/task/{id}", "delete"),
        ("/api/queue", "get"),
        ("/readyz", "get"),
    ] {
        assert!(paths[path][method].is_object(), "{method} {path}");
    }
    door.stop().await;
}
