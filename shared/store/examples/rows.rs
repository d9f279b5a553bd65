//! What a large table costs: the life of a task (accept, claim, end) beside few and beside many finished ones.
//!
//!     ROWS=10000000 cargo run --release -p penstock-store --features fixture --example rows
//!
//! Needs PENSTOCK_TEST_MYSQL_URL: a server on which the user may create databases. Prints medians and P95 of single tasks,
//! one after another, and the ratio; ten million rows need some 5 GB of disk.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement that cannot go on must fail")]

use std::time::{Duration, Instant};

use penstock_protocol::{Ending, Input, PlaceSource, Status, TaskId, TaskKey, TaskSpec, TenantNo, ThreadId, clock};
use penstock_store::fixture::TestDatabase;
use penstock_store::{End, NewTask, NotBefore, Store};
use sqlx::{Connection, MySqlConnection};

const SAMPLES: usize = 2_000;
/// Rows of one INSERT while the table is filled.
const FILL_ROWS: u64 = 50_000;

#[tokio::main]
async fn main() {
    #[expect(clippy::disallowed_methods, reason = "a person says how many")]
    let rows: u64 = std::env::var("ROWS").map_or(200_000, |rows| rows.parse().unwrap());
    let database = TestDatabase::create().await;
    let places = PlaceSource::new(1, 0);
    measure(&database.store, &places).await;
    let few = measure(&database.store, &places).await;
    let filled = Instant::now();
    fill(&database, rows).await;
    println!("{rows} rows were filled in within {:.0} s", filled.elapsed().as_secs_f64());
    measure(&database.store, &places).await;
    let many = measure(&database.store, &places).await;
    for (name, few, many) in [("median", few.0, many.0), ("P95", few.1, many.1)] {
        let ratio = many.as_secs_f64() / few.as_secs_f64();
        println!("{name}: {few:.1?} beside few rows, {many:.1?} beside {rows}: × {ratio:.2}");
    }
    database.drop_database().await;
}

/// Median and P95 of accept + claim + end.
async fn measure(store: &Store, places: &PlaceSource) -> (Duration, Duration) {
    let mut took = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        let (now, key) = (clock::wall_ms(), TaskKey::new(TenantNo(1), TaskId::mint()));
        let task = NewTask {
            key,
            thread: ThreadId::mint(),
            agent: "assistant".into(),
            user: None,
            place: places.next(now, 0),
            priority: 0,
            cost_tokens: 1000,
            body_hash: [7; 32],
            idempotency_key: None,
            accepted_ms: now,
            deadline_in_ms: None,
            cancel_on_disconnect: false,
            replay_of: None,
            start: NotBefore::Now,
            webhook: None,
            spec: TaskSpec {
                input: Input::Text("how are you ".repeat(20)),
                is_new_thread: true,
                metadata: serde_json::Value::Null,
                state: serde_json::Value::Null,
                tools: vec![],
                context: vec![],
                retry: None,
                traceparent: None,
            },
        };
        let began = Instant::now();
        store.accept(task).await.unwrap();
        store.claim(key, 1, "w").await.unwrap();
        let ending = Ending {
            status: Status::Succeeded,
            result: Some("very well ".repeat(20).into()),
            error: None,
            usage: vec![],
        };
        store.end(End { key, attempt: 1, ending, model: None, model_calls: 1 }).await.unwrap();
        took.push(began.elapsed());
    }
    took.sort();
    (took[SAMPLES / 2], took[SAMPLES * 95 / 100])
}

/// Copies finished rows, spread over the last month, with ids in the order of time as they are minted.
async fn fill(database: &TestDatabase, rows: u64) {
    let mut connection = MySqlConnection::connect(&database.url).await.unwrap();
    let mut left = rows;
    while left > 0 {
        let count = left.min(FILL_ROWS);
        let copied = sqlx::query(
            "INSERT INTO task (tenant, id, thread, agent, status, place, open_place, priority, cost_tokens, body_hash, \
             accepted_ms, started_ms, ended_ms, attempt, worker, spec, result, model_calls) \
             SELECT t.tenant, CONCAT(UNHEX(LPAD(HEX(t.accepted_ms - 1000 * FLOOR(RAND() * 2592000)), 12, '0')), \
             RANDOM_BYTES(10)), RANDOM_BYTES(16), t.agent, t.status, t.place, NULL, t.priority, t.cost_tokens, \
             t.body_hash, t.accepted_ms - 1000 * FLOOR(RAND() * 2592000), t.started_ms, t.ended_ms, t.attempt, t.worker, \
             t.spec, t.result, t.model_calls FROM task t WHERE t.open_place IS NULL LIMIT ?",
        )
        .bind(count)
        .execute(&mut connection)
        .await
        .unwrap();
        left -= copied.rows_affected().min(left);
    }
}
