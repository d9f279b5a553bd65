//! What tests do at a door: submit, follow, cancel, read.

use std::time::Duration;

use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use tokio_tungstenite::tungstenite::Message;
use uuid::Uuid;

use super::wait_until;
use penstock_loadtest::client::{Answer, Door, Socket};

/// A client with one key at one door.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    door: Door,
}

/// The events of a task, to its end.
#[derive(Clone, Debug)]
pub(crate) struct Followed {
    /// All events, in order.
    pub(crate) events: Vec<Value>,
}

impl Client {
    pub(super) fn new(door: Door) -> Self {
        Self { door }
    }

    /// Submits a body; the status of the answer, or `None` without one.
    pub(crate) async fn try_post(&self, body: &Value) -> Option<u16> {
        self.door.request("POST", "/api/task", "", &body.to_string()).await.ok().map(|answer| answer.status)
    }

    /// Submits `input` to `agent` and returns the door's answer.
    pub(crate) async fn post(&self, agent: &str, input: &str) -> Answer {
        self.post_body(&json!({ "agent": agent, "input": input })).await
    }

    /// Submits a body.
    pub(crate) async fn post_body(&self, body: &Value) -> Answer {
        self.door.request("POST", "/api/task", "", &body.to_string()).await.expect("the door answers")
    }

    /// Submits and expects a 202; returns the task's id.
    pub(crate) async fn submit(&self, agent: &str, input: &str) -> Uuid {
        let answer = self.post(agent, input).await;
        assert_eq!(answer.status, 202, "{}", answer.text);
        answer.body["task_id"].as_str().and_then(|id| id.parse().ok()).expect("a task id")
    }

    /// Any request.
    pub(crate) async fn request(&self, method: &str, path: &str) -> Answer {
        self.door.request(method, path, "", "").await.expect("the door answers")
    }

    /// Any request with headers (whole lines, each ending in CR LF) and a body.
    pub(crate) async fn request_with(&self, method: &str, path: &str, headers: &str, body: &str) -> Answer {
        self.door.request(method, path, headers, body).await.expect("the door answers")
    }

    /// The task as its row says.
    pub(crate) async fn read(&self, task: Uuid) -> Value {
        self.request("GET", &format!("/api/task/{task}")).await.body
    }

    /// Cancels a task.
    pub(crate) async fn cancel(&self, task: Uuid) -> Answer {
        self.request("DELETE", &format!("/api/task/{task}")).await
    }

    /// Waits until the row of a task has a status.
    pub(crate) async fn wait_for(&self, task: Uuid, status: &str, within: Duration) {
        wait_until(&format!("{task} is {status}"), within, async || self.read(task).await["status"] == status).await;
    }

    /// Opens the socket of a task.
    pub(crate) async fn socket(&self, task: Uuid) -> Socket {
        self.door.socket(&format!("/api/task/{task}/ws")).await.expect("the door opens a socket")
    }

    /// Follows a task to its terminal event, coming back by cursor whenever the socket ends before it.
    pub(crate) async fn follow(&self, task: Uuid, within: Duration) -> Followed {
        let (deadline, mut events) = (Instant::now() + within, Vec::<Value>::new());
        loop {
            assert!(Instant::now() < deadline, "{task} has no terminal event after {within:?}: {events:#?}");
            let after = events.last().and_then(|event| event["metadata"]["penstock"]["id"].as_str());
            let query = after.map_or(String::new(), |after| format!("?after={after}"));
            let Ok(mut socket) = self.door.socket(&format!("/api/task/{task}/ws{query}")).await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            while let Ok(Some(Ok(frame))) = timeout_at(deadline, socket.next()).await {
                let Message::Text(text) = frame else { continue };
                let Ok(event) = serde_json::from_str::<Value>(&text) else { continue };
                let is_end = is_terminal(&event);
                events.push(event);
                if is_end {
                    let followed = Followed { events };
                    followed.check();
                    return followed;
                }
            }
        }
    }
}

impl Followed {
    /// The text of the answer: what a client shows at the end.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for event in &self.events {
            match event["type"].as_str() {
                Some("TEXT_MESSAGE_CONTENT") => text.push_str(event["delta"].as_str().unwrap_or_default()),
                // A retried run shows the conversation anew, without the partial answer.
                Some("MESSAGES_SNAPSHOT") => text.clear(),
                _ => {}
            }
        }
        text
    }

    /// The last event.
    #[must_use]
    pub(crate) fn end(&self) -> &Value {
        self.events.last().expect("at least the end")
    }

    /// How many events are of `kind`.
    #[must_use]
    pub(crate) fn count(&self, kind: &str) -> usize {
        self.events.iter().filter(|event| event["type"] == kind).count()
    }

    /// What holds for every stream: RUN_STARTED or RUN_ERROR first, numbers dense, one end.
    fn check(&self) {
        let first = self.events.first().map(|event| event["type"].clone());
        assert!(first == Some("RUN_STARTED".into()) || first == Some("RUN_ERROR".into()), "{:#?}", self.events);
        // Numbers are dense. What a reader is told before the stream's own events (a run that never started, or whose
        // beginning is gone) stands under number 0.
        let numbers: Vec<_> =
            self.events.iter().filter_map(|event| event["metadata"]["penstock"]["seq"].as_u64()).collect();
        assert_eq!(numbers.len(), self.events.len(), "{:#?}", self.events);
        let real: Vec<_> = numbers.iter().skip_while(|number| **number == 0).collect();
        assert!(real.windows(2).all(|pair| *pair[1] == pair[0] + 1), "not dense: {:#?}", self.events);
        assert_eq!(self.events.iter().filter(|event| is_terminal(event)).count(), 1);
    }
}

/// Whether an event ends its run.
#[must_use]
pub(crate) fn is_terminal(event: &Value) -> bool {
    event["type"] == "RUN_FINISHED" || event["type"] == "RUN_ERROR"
}
