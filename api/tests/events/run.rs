//! A worker played by hand: it takes tasks through the real queue and store, and says what the test lets it say.

use std::sync::Mutex;
use std::time::Duration;

use penstock_api::app::App;
use penstock_protocol::event::with_cursor;
use penstock_protocol::{Ending, Event, EventId, Status, TaskId, TaskKey, ThreadId};
use penstock_queue::{Emission, EmitVerdict, Finish, ReadyEntry, StartVerdict, WorkerId};
use penstock_store::{Claimed, End};
use serde_json::json;
use tokio::time::{Instant, sleep};

use crate::harness::{Door, PATIENCE, task_named};

/// Takes tasks for one door.
pub(crate) struct Hands {
    app: App,
    worker: WorkerId,
    taken: Mutex<Vec<ReadyEntry>>,
}

/// One attempt under way.
pub(crate) struct Run {
    app: App,
    worker: WorkerId,
    pub(crate) key: TaskKey,
    thread: ThreadId,
    attempt: u32,
    n: u64,
    seq: u64,
}

impl Hands {
    pub(crate) async fn at(door: &Door) -> Self {
        let worker = WorkerId::new(format!("hands-{}", uuid::Uuid::new_v4().simple())).unwrap();
        door.app.queue.beat(&worker, 1000, &[], 0).await.unwrap();
        Self { app: door.app.clone(), worker, taken: Mutex::default() }
    }

    /// Submits a task under `id`.
    pub(crate) async fn submit(door: &Door, id: TaskId) -> TaskKey {
        door.ann.submit(&task_named(id)).await.assert_accepted();
        TaskKey::new(door.ann.tenant, id)
    }

    /// Claims and starts a submitted task.
    pub(crate) async fn start(&self, id: TaskId) -> Run {
        let entry = self.entry(id).await;
        let claimed = self.app.store.claim(entry.key, entry.attempt, self.worker.as_str()).await.unwrap();
        let Claimed::Mine(row) = claimed else { panic!("the claim was not taken: {claimed:?}") };
        let started = Event::run_started(row.thread, id).to_json();
        let verdict = self.app.queue.start(&entry, &self.worker, &started).await.unwrap();
        let StartVerdict::Running { seq } = verdict else { panic!("not started: {verdict:?}") };
        let (app, worker, attempt) = (self.app.clone(), self.worker.clone(), entry.attempt);
        Run { app, worker, key: entry.key, thread: row.thread, attempt, n: 1, seq }
    }

    /// Submits and starts.
    pub(crate) async fn begin(&self, door: &Door, id: TaskId) -> Run {
        Self::submit(door, id).await;
        self.start(id).await
    }

    async fn entry(&self, id: TaskId) -> ReadyEntry {
        let mut reader = self.app.queue.ready_reader(self.worker.clone());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let read = reader.read_now(100).await.unwrap();
            if let Some(entry) = self.pick(read, id) {
                return entry;
            }
            assert!(Instant::now() < deadline, "task {id} was not handed out");
            sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Hands {
    /// Keeps what was read and picks the entry of `id`.
    fn pick(&self, read: Vec<ReadyEntry>, id: TaskId) -> Option<ReadyEntry> {
        let mut taken = self.taken.lock().unwrap();
        taken.extend(read);
        let at = taken.iter().position(|entry| entry.key.task == id)?;
        Some(taken.swap_remove(at))
    }
}

impl Run {
    /// Writes events.
    pub(crate) async fn say(&mut self, events: &[Event]) {
        let events: Vec<_> = events.iter().map(Event::to_json).collect();
        let emission = Emission {
            key: self.key,
            attempt: self.attempt,
            first_n: self.n + 1,
            first_seq: self.seq + 1,
            events: &events,
        };
        assert_eq!(self.app.queue.emit(&emission).await.unwrap(), EmitVerdict::Written);
        self.n += events.len() as u64;
        self.seq += events.len() as u64;
    }

    /// Opens the answer.
    pub(crate) async fn open(&mut self) {
        self.say(&[Event::TextMessageStart { message_id: "m1".into(), role: "assistant".into() }]).await;
    }

    /// A piece of the answer.
    pub(crate) async fn delta(&mut self, text: &str) {
        self.say(&[Event::TextMessageContent { message_id: "m1".into(), delta: text.into() }]).await;
    }

    /// Closes the answer.
    pub(crate) async fn close(&mut self) {
        self.say(&[Event::TextMessageEnd { message_id: "m1".into() }]).await;
    }

    /// Stores the result and publishes the end.
    pub(crate) async fn succeed(mut self, text: &str) {
        self.store(text).await;
        self.publish().await;
    }

    /// Stores the result, without a word to Redis.
    pub(crate) async fn store(&mut self, text: &str) {
        let result = Some(json!({"message_id": "m1", "text": text}));
        let ending = Ending { status: Status::Succeeded, result, error: None, usage: Vec::new() };
        let end = End { key: self.key, attempt: self.attempt, ending, model: None, model_calls: 1 };
        self.app.store.end(end).await.unwrap();
    }

    /// Publishes the end that the row states.
    pub(crate) async fn publish(&mut self) {
        let row = self.app.store.task(self.key).await.unwrap().unwrap();
        let event = row.terminal_event().unwrap();
        let (worker, attempt) = (&self.worker, self.attempt);
        let finish = Finish {
            key: self.key,
            attempt,
            worker,
            cost_tokens: None,
            input_tokens: 0,
            last_seq: self.seq,
            event: &event,
        };
        self.app.queue.finish(&finish).await.unwrap();
    }

    /// Takes the stream away, as a flush would.
    pub(crate) async fn lose_stream(&self) {
        redis(&self.app, &["DEL", &self.app.queue.shard().events(self.key)]).await;
    }

    /// Whether an event is refused.
    pub(crate) async fn is_refused(&mut self, text: &str) -> bool {
        let events = [Event::TextMessageContent { message_id: "m1".into(), delta: text.into() }.to_json()];
        let (key, attempt) = (self.key, self.attempt);
        let emission = Emission { key, attempt, first_n: self.n + 1, first_seq: self.seq + 1, events: &events };
        self.app.queue.emit(&emission).await.unwrap() == EmitVerdict::Fenced
    }

    pub(crate) fn worker(&self) -> &WorkerId {
        &self.worker
    }

    pub(crate) fn thread(&self) -> ThreadId {
        self.thread
    }
}

/// Writes one event past the queue's checks, without a bell.
pub(crate) async fn write_silently(app: &App, key: TaskKey, id: &str, seq: u64, event: &Event) {
    let (stream, seq) = (app.queue.shard().events(key), seq.to_string());
    redis(app, &["XADD", &stream, id, "s", &seq, "e", &event.to_json()]).await;
}

/// Every event of a stream, framed as clients must see it.
pub(crate) async fn frames(app: &App, key: TaskKey) -> Vec<String> {
    let stored = app.queue.read_events(key, EventId::default(), 100_000).await.unwrap();
    stored.iter().map(|stored| with_cursor(&stored.event, stored.id, stored.seq)).collect()
}

/// Sends a plain command on a connection of its own.
pub(crate) async fn redis(_app: &App, words: &[&str]) {
    let client = redis::Client::open(crate::harness::redis_url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut command = redis::cmd(words[0]);
    for word in &words[1..] {
        command.arg(*word);
    }
    command.query_async::<redis::Value>(&mut connection).await.unwrap();
}
