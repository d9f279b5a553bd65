//! The laws, judged at the end of each story from MySQL, from the streams in Redis and from the provider's record.

use std::collections::HashMap;
use std::time::Duration;

use penstock_protocol::{Status, TaskId, TaskKey};
use penstock_store::TaskRow;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::PATIENCE;
use super::load::Marked;
use crate::house::{House, is_terminal, wait_until};

/// Accepted tasks in one SELECT.
const ROWS_AT_ONCE: usize = 200;

/// What a story came to.
pub(super) struct Judged {
    pub(super) rows: Vec<TaskRow>,
    /// Calls that the provider received for these tasks.
    pub(super) calls: usize,
    /// Until the last task had ended, from the beginning of the judgement.
    pub(super) ended_after: Duration,
}

/// Every accepted task comes to exactly one end (law 4), told as stored (law 7); no model call was made more often than
/// there were attempts, so none for a finished step (law 6); and queue and truth are one.
pub(super) async fn judge(house: &House, accepted: &[Marked]) -> Judged {
    let began = Instant::now();
    let rows = ended_rows(house, accepted).await;
    let ended_after = began.elapsed();
    let mut redis = house.redis_connection().await;
    let mut following = JoinSet::new();
    for row in &rows {
        let stream = format!("{{penstock:main/0}}:ev:{}", row.key);
        let events: Vec<(String, Vec<String>)> =
            redis::cmd("XRANGE").arg(&stream).arg("-").arg("+").query_async(&mut redis).await.expect("Redis answers");
        let parsed = events.iter().filter_map(|(_, fields)| serde_json::from_str(fields.get(3)?).ok());
        let ends = parsed.filter(is_terminal).count();
        // A stream that Redis lost is told from the row.
        assert!(ends == 1 || events.is_empty(), "{} has {ends} ends in its stream", row.key);
        let (client, key, status) = (house.client(), row.key, row.status);
        following.spawn(async move {
            // Judges order, density and the one end.
            let followed = client.follow(key.task.0, PATIENCE).await;
            let end = followed.end();
            let told = match (end["type"].as_str(), end["outcome"]["type"].as_str()) {
                (Some("RUN_FINISHED"), Some("success")) => Status::Succeeded,
                (Some("RUN_FINISHED"), _) => Status::Cancelled,
                _ if end["code"] == "penstock.deadline" => Status::Expired,
                _ => Status::Failed,
            };
            assert_eq!(told, status, "the end of {key} as told and as stored");
        });
        if following.len() >= 50 {
            following.join_next().await.expect("one at least").expect("a story that can be followed");
        }
    }
    following.join_all().await;
    let calls = judge_calls(house, accepted, &rows).await;
    wait_until("queue and truth are one", PATIENCE, async || house.try_command(&["check"]).0).await;
    Judged { rows, calls, ended_after }
}

async fn ended_rows(house: &House, accepted: &[Marked]) -> Vec<TaskRow> {
    let store = &house.database.store;
    let tenant = store.tenants().await.expect("MySQL answers")[0].no;
    let keys: Vec<_> = accepted.iter().map(|marked| TaskKey::new(tenant, TaskId(marked.task))).collect();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let mut rows = Vec::new();
        for keys in keys.chunks(ROWS_AT_ONCE) {
            rows.extend(store.tasks(keys).await.expect("MySQL answers"));
        }
        assert_eq!(rows.len(), keys.len(), "what was accepted stands in MySQL");
        let open: Vec<_> = rows.iter().filter(|row| !row.status.is_terminal()).collect();
        if open.is_empty() {
            return rows;
        }
        assert!(Instant::now() < deadline, "{} tasks did not end, one of them {:#?}", open.len(), open[0]);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

async fn judge_calls(house: &House, accepted: &[Marked], rows: &[TaskRow]) -> usize {
    let marks: HashMap<_, _> = accepted.iter().map(|marked| (marked.task, marked.mark.as_str())).collect();
    let bodies: Vec<_> = house.provider_calls().await.iter().map(ToString::to_string).collect();
    let mut all = 0;
    for row in rows {
        let mark = marks[&row.key.task.0];
        let calls = bodies.iter().filter(|body| body.contains(mark)).count();
        all += calls;
        assert!(calls <= row.attempt as usize, "{} had {calls} model calls in {} attempts", row.key, row.attempt);
    }
    all
}

impl Judged {
    /// One line of the table.
    pub(super) fn tell(&self, story: &str, more: &str) {
        let count = |status| self.rows.iter().filter(|row| row.status == status).count();
        let crashes: u32 = self.rows.iter().map(|row| row.crashes).sum();
        let attempts = self.rows.iter().map(|row| row.attempt).max().unwrap_or(0);
        println!(
            "| {story:<34} | {:>5} tasks | {:>5} succeeded | {:>3} failed | {:>5} calls | attempts ≤ {attempts} | \
             crashes {crashes:>3} | last end {:>5.1} s | {} | {more}",
            self.rows.len(),
            count(Status::Succeeded),
            count(Status::Failed),
            self.calls,
            self.ended_after.as_secs_f64(),
            self.slowest(),
        );
    }

    /// The task that took longest from acceptance to its end.
    fn slowest(&self) -> String {
        let took = |row: &&TaskRow| row.ended_ms.unwrap_or(0).saturating_sub(row.accepted_ms);
        self.rows.iter().max_by_key(took).map_or(String::new(), |row| {
            let (begun, ended) = (row.started_ms.unwrap_or(row.accepted_ms), row.ended_ms.unwrap_or(row.accepted_ms));
            format!(
                "slowest waited {} ms, ran {} ms",
                begun.saturating_sub(row.accepted_ms),
                ended.saturating_sub(begun)
            )
        })
    }

    /// The longest time from acceptance to the first start.
    pub(super) fn wait_max(&self) -> Duration {
        let waits =
            self.rows.iter().map(|row| row.started_ms.unwrap_or(row.accepted_ms).saturating_sub(row.accepted_ms));
        Duration::from_millis(waits.max().unwrap_or(0))
    }
}
