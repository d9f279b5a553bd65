//! Many tasks through the queue, with a handler that does nothing: what is left in Redis afterwards is what was there before.
//!
//! `PENSTOCK_SOAK_TASKS` asks for more than the usual number; `make chaos` does.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use penstock_queue::fixture::{TestQueue, task};
use penstock_queue::{
    AdmitLimits, AdmitRequest, AdmitVerdict, AttemptVerdict, AuditPart, CensusState, Finish, QueuedTask, Start,
    StartVerdict, VirtualClock, WorkerId,
};
use tokio::time::Instant;

const STARTED: &str = r#"{"type":"RUN_STARTED","threadId":"t","runId":"r"}"#;
const FINISHED: &str = r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"success"}}"#;
const TENANTS: u32 = 40;
const SLOTS: usize = 32;
/// Tombstones are remembered this long.
const TOMBSTONE_MS: u64 = 30_000;

#[expect(clippy::disallowed_methods, reason = "a person asks for a longer run")]
fn tasks() -> u64 {
    std::env::var("PENSTOCK_SOAK_TASKS").ok().map_or(2_000, |count| count.parse().unwrap())
}

async fn memory(test: &TestQueue) -> u64 {
    let info: String = test.command(&["INFO", "memory"]).await;
    let used = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    used.trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn after_many_tasks_redis_holds_what_it_held_before() {
    let clock = VirtualClock::default();
    clock.set_ms(1_000_000);
    let test = TestQueue::create_with(|settings| {
        settings.virtual_clock = Some(clock.clone());
        // Streams go by the server's own clock: at once, as far as a soak can wait.
        settings.events_keep = Duration::from_millis(1);
    })
    .await;
    let (count, began) = (tasks(), Instant::now());
    // A first round fills what grows once: buffers, the tenants' records, hash tables.
    through(&test, &clock, count.min(1000)).await;
    let before = memory(&test).await;
    through(&test, &clock, count).await;
    let after = memory(&test).await;

    assert_eq!(test.queue.census().await.unwrap().state, CensusState::Open);
    for part in AuditPart::ALL {
        assert_eq!(test.queue.audit(part, None, 1000, false).await.unwrap().findings, []);
    }
    let gauges = test.queue.gauges().await.unwrap();
    assert_eq!((gauges.depth(), gauges.running, gauges.delayed, gauges.tombstones), (0, 0, 0, 0), "{gauges:?}");
    let records: i64 = test.command(&["HLEN", &test.key("tasks")]).await;
    assert_eq!(records, 1, "only the sentinel");
    let grown = after.saturating_sub(before);
    println!(
        "| soak | {count} tasks | {:.0} tasks/s | memory {before} B before, {after} B after",
        count as f64 / began.elapsed().as_secs_f64()
    );
    // Other tests use this server too; a byte a task that stayed would show in a long run.
    assert!(grown < 8 << 20, "{grown} bytes stayed");
    test.delete().await;
}

/// `count` tasks of many tenants, from admission to the end; then time passes until nobody remembers them.
async fn through(test: &TestQueue, clock: &VirtualClock, count: u64) {
    let (queue, next) = (&test.queue, Arc::new(AtomicU64::new(0)));
    let lanes = (0..SLOTS).map(|lane| {
        let (queue, next) = (queue.clone(), Arc::clone(&next));
        tokio::spawn(async move {
            let worker = WorkerId::new(format!("w-{lane}")).unwrap();
            queue.beat(&worker, 1, &[], 0).await.unwrap();
            let mut reader = queue.ready_reader(worker.clone());
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    break;
                }
                let tenant = u32::try_from(number % u64::from(TENANTS)).unwrap() + 1;
                let task = QueuedTask { user: Some(format!("u{}", number % 7)), ..task(tenant, number) };
                let limits = AdmitLimits { depth_max: 1_000_000, ..AdmitLimits::default() };
                let request = AdmitRequest {
                    key: task.key,
                    user: task.user.as_deref(),
                    body_hash: &task.body_hash,
                    start: Start::Now,
                    limits,
                };
                assert!(matches!(queue.admit(&request).await.unwrap(), AdmitVerdict::Admitted(_)));
                queue.enqueue(&task).await.unwrap();
                // Whichever task is handed to this slot.
                for entry in reader.read_now(1).await.unwrap() {
                    let verdict = queue.start(&entry, &worker, STARTED).await.unwrap();
                    assert!(matches!(verdict, StartVerdict::Running { .. }));
                    let finish = Finish {
                        key: entry.key,
                        attempt: entry.attempt,
                        worker: &worker,
                        cost_tokens: Some(120),
                        input_tokens: 0,
                        last_seq: 1,
                        event: FINISHED,
                    };
                    assert_eq!(queue.finish(&finish).await.unwrap(), AttemptVerdict::Done);
                }
            }
            // What other lanes were handed and did not read is taken here.
            loop {
                let rest = reader.read_now(8).await.unwrap();
                if rest.is_empty() && queue.gauges().await.unwrap().depth() == 0 {
                    return;
                }
                for entry in rest {
                    queue.start(&entry, &worker, STARTED).await.unwrap();
                    let finish = Finish {
                        key: entry.key,
                        attempt: entry.attempt,
                        worker: &worker,
                        cost_tokens: None,
                        input_tokens: 0,
                        last_seq: 1,
                        event: FINISHED,
                    };
                    queue.finish(&finish).await.unwrap();
                }
            }
        })
    });
    for lane in lanes.collect::<Vec<_>>() {
        lane.await.unwrap();
    }
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        clock.set_ms(clock.now_ms() + TOMBSTONE_MS + 1);
        queue.tick().await.unwrap();
        if queue.gauges().await.unwrap().tombstones == 0 {
            return;
        }
        assert!(Instant::now() < deadline, "tombstones stay");
    }
}
