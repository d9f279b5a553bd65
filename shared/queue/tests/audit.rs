//! What an audit finds in a book that somebody tampered with, and that mending it gets the tasks moving again.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on must fail")]

use std::collections::BTreeMap;

use penstock_protocol::ThreadId;
use penstock_queue::fixture::{TestQueue, task};
use penstock_queue::{
    AdmitLimits, AdmitRequest, AdmitVerdict, AuditFinding, AuditPart, QueuedTask, Start, VirtualClock, WorkerId,
};

async fn findings(test: &TestQueue, mend: bool) -> Vec<AuditFinding> {
    let mut all = Vec::new();
    for part in AuditPart::ALL {
        let mut cursor: Option<String> = None;
        loop {
            let page = test.queue.audit(part, cursor.as_deref(), 2, mend).await.unwrap();
            all.extend(page.findings);
            cursor = page.cursor;
            if cursor.is_none() {
                break;
            }
        }
    }
    all
}

/// Found and true values by name.
fn by_name(findings: &[AuditFinding]) -> BTreeMap<String, (String, String)> {
    findings.iter().map(|f| (f.what.clone(), (f.found.clone(), f.truth.clone()))).collect()
}

fn pair(found: &str, truth: &str) -> (String, String) {
    (found.to_owned(), truth.to_owned())
}

/// Writes some fields of a record among the tenants, `#` for the totals.
async fn write_fields(test: &TestQueue, name: &str, values: &[(usize, &str)]) {
    let record: String = test.command(&["HGET", &test.key("tenants"), name]).await;
    let mut fields: Vec<&str> = record.split('|').collect();
    for (at, value) in values {
        fields[*at] = value;
    }
    let _: i64 = test.command(&["HSET", &test.key("tenants"), name, &fields.join("|")]).await;
}

/// Waiting, held, handed out and of several tenants.
async fn busy(test: &TestQueue) {
    let thread = ThreadId::mint();
    for number in 0..9_u32 {
        let talk = (number % 3 == 0).then_some(thread);
        let task = QueuedTask { thread: talk, user: Some("ann".into()), ..task(number % 4 + 1, u64::from(number)) };
        test.queue.enqueue(&task).await.unwrap();
    }
    test.queue.beat(&WorkerId::new("w").unwrap(), 2, &[], 0).await.unwrap();
}

#[tokio::test]
async fn a_sound_book_gives_an_audit_nothing_to_say() {
    let test = TestQueue::create().await;
    busy(&test).await;
    assert_eq!(findings(&test, false).await, []);
    let before = test.queue.book(0, 100).await.unwrap().entries;
    assert_eq!(findings(&test, true).await, []);
    assert_eq!(test.queue.book(0, 100).await.unwrap().entries, before, "mending nothing changes nothing");
    test.delete().await;
}

#[tokio::test]
async fn wrong_counters_are_found_and_mended_and_the_tenant_is_served_again() {
    let test = TestQueue::create().await;
    test.queue.enqueue(&task(1, 1)).await.unwrap();
    // As a lost update would leave it: the tenant seems to have no line, and is out of the ring.
    write_fields(&test, "1", &[(5, "7"), (6, "0"), (7, "4"), (9, "")]).await;
    let _: i64 = test.command(&["ZREM", &test.key("ring"), "1"]).await;
    write_fields(&test, "#", &[(2, "3"), (3, "0")]).await;
    let expected = BTreeMap::from([
        ("waiting".to_owned(), pair("7", "1")),
        ("lined".to_owned(), pair("0", "1")),
        ("running".to_owned(), pair("4", "0")),
        ("ring".to_owned(), pair("0", "1")),
        ("used".to_owned(), pair("3", "0")),
    ]);
    assert_eq!(by_name(&findings(&test, false).await), expected, "looking changes nothing");
    findings(&test, true).await;
    assert_eq!(findings(&test, false).await, []);
    let worker = WorkerId::new("w").unwrap();
    test.queue.beat(&worker, 1, &[], 0).await.unwrap();
    assert_eq!(test.queue.ready_reader(worker).read_now(1).await.unwrap().len(), 1, "it is served");
    test.delete().await;
}

#[tokio::test]
async fn a_thread_whose_holder_is_gone_goes_on_with_the_next() {
    let test = TestQueue::create().await;
    let thread = Some(ThreadId::mint());
    let (first, second) = (QueuedTask { thread, ..task(1, 1) }, QueuedTask { thread, ..task(1, 2) });
    test.queue.enqueue(&first).await.unwrap();
    test.queue.enqueue(&second).await.unwrap();
    assert_eq!(test.queue.gauges().await.unwrap().held, 1);
    // The holder vanishes with its place in line.
    let id = first.key.to_string();
    let _: i64 = test.command(&["HDEL", &test.key("tasks"), &id]).await;
    let line: Vec<String> = test.command(&["ZRANGE", &test.key("line"), "0", "-1"]).await;
    let member = line.iter().find(|member| member.ends_with(&first.key.task.to_string())).unwrap();
    let place = member.split('|').nth(1).unwrap();
    let _: i64 = test.command(&["ZREM", &test.key("line"), member]).await;
    let found = findings(&test, false).await;
    assert!(found.iter().any(|finding| finding.what == "thread" && finding.found == place), "{found:?}");
    findings(&test, true).await;
    assert_eq!(findings(&test, false).await, []);
    let gauges = test.queue.gauges().await.unwrap();
    assert_eq!((gauges.line, gauges.held), (1, 0), "the next one has its turn");
    test.delete().await;
}

#[tokio::test]
async fn a_task_that_is_held_by_nobody_gets_its_turn() {
    let test = TestQueue::create().await;
    let thread = Some(ThreadId::mint());
    test.queue.enqueue(&QueuedTask { thread, ..task(1, 1) }).await.unwrap();
    test.queue.enqueue(&QueuedTask { thread, ..task(1, 2) }).await.unwrap();
    let holders: Vec<String> = test.command(&["HKEYS", &test.key("threads")]).await;
    let holder = holders.iter().find(|field| *field != "#").unwrap();
    let _: i64 = test.command(&["HDEL", &test.key("threads"), holder]).await;
    assert_eq!(findings(&test, false).await.iter().map(|f| f.what.as_str()).collect::<Vec<_>>(), ["turn"]);
    findings(&test, true).await;
    assert_eq!(test.queue.gauges().await.unwrap().held, 0);
    test.delete().await;
}

#[tokio::test]
async fn a_users_counter_is_mended_only_while_nobody_counts_on() {
    let test = TestQueue::create().await;
    let ann = QueuedTask { user: Some("ann".into()), ..task(1, 1) };
    test.queue.enqueue(&ann).await.unwrap();
    let _: i64 = test.command(&["HSET", &test.key("users"), "1|ann", "5"]).await;
    assert_eq!(test.queue.user_counters().await.unwrap(), BTreeMap::from([("1|ann".to_owned(), 5)]));
    let book = test.queue.book(0, 100).await.unwrap();
    assert_eq!(book.entries[0].user.as_deref(), Some("1|ann"));
    assert!(!test.queue.mend_user("1|ann", Some(4), 1).await.unwrap(), "it has moved since");
    assert!(test.queue.mend_user("1|ann", Some(5), 1).await.unwrap());
    assert_eq!(test.queue.user_counters().await.unwrap(), BTreeMap::from([("1|ann".to_owned(), 1)]));
    test.delete().await;
}

#[tokio::test]
async fn a_task_that_waits_for_a_time_never_waits_behind_its_own_turn() {
    let clock = VirtualClock::default();
    clock.set_ms(1_000_000);
    let test = TestQueue::create_with(|settings| settings.virtual_clock = Some(clock.clone())).await;
    let thread = Some(ThreadId::mint());
    let task = QueuedTask { thread, delay_ms: 1000, ..task(1, 1) };
    // The door's Redis finds that its start has come, and takes the free thread; MySQL's clock is a second behind.
    let limits = AdmitLimits { depth_max: 10, thread_free: thread, ..AdmitLimits::default() };
    let request = AdmitRequest { key: task.key, user: None, body_hash: &task.body_hash, start: Start::Now, limits };
    assert!(matches!(test.queue.admit(&request).await.unwrap(), AdmitVerdict::Admitted(_)));
    test.queue.enqueue(&task).await.unwrap();
    clock.set_ms(1_002_000);
    test.queue.tick().await.unwrap();
    let gauges = test.queue.gauges().await.unwrap();
    assert_eq!((gauges.line, gauges.held), (1, 0), "{gauges:?}");
    assert_eq!(findings(&test, false).await, []);
    test.delete().await;
}
