//! A client's WebSocket.

use std::time::Duration;

use futures_util::{FutureExt, SinkExt, StreamExt};
use penstock_protocol::TaskId;
use reqwest::Method;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::http::{HeaderName, HeaderValue, Response};
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

use crate::harness::{Customer, Door, PATIENCE};

pub(crate) struct Socket {
    stream: WebSocketStream<MaybeTlsStream<TcpStream>>,
    pub(crate) protocol: Option<String>,
}

/// What a client got until its socket ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) frames: Vec<String>,
    /// Close code, and `None` for a connection that was cut.
    pub(crate) code: Option<u16>,
}

impl Socket {
    /// Dials `path` with the key of `customer`.
    pub(crate) async fn dial(door: &Door, customer: &Customer, path: &str) -> Self {
        Self::try_dial(&door.url, path, &[("authorization", &bearer(customer))]).await.expect("the door upgrades")
    }

    /// Follows a task of the first customer.
    pub(crate) async fn follow(door: &Door, task: TaskId) -> Self {
        Self::dial(door, &door.ann, &format!("/api/task/{task}/ws")).await
    }

    /// Follows after a cursor.
    pub(crate) async fn resume(door: &Door, task: TaskId, after: &str) -> Self {
        Self::dial(door, &door.ann, &format!("/api/task/{task}/ws?after={after}")).await
    }

    /// Dials with any headers; errors with the door's HTTP answer.
    pub(crate) async fn try_dial(
        url: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Self, Box<Response<Option<Vec<u8>>>>> {
        let mut request = format!("{}{path}", url.replace("http://", "ws://")).into_client_request().unwrap();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            request.headers_mut().insert(name, HeaderValue::from_str(value).unwrap());
        }
        match connect_async(request).await {
            Ok((stream, answer)) => {
                let protocol = answer.headers().get("sec-websocket-protocol");
                Ok(Self { stream, protocol: protocol.map(|name| name.to_str().unwrap().to_owned()) })
            }
            Err(Error::Http(answer)) => Err(answer),
            Err(error) => panic!("the door does not answer: {error}"),
        }
    }

    /// The next text frame, pings left out; `Err` with the close code.
    pub(crate) async fn next(&mut self) -> Result<String, Option<u16>> {
        loop {
            let received = timeout(PATIENCE, self.stream.next()).await.expect("something comes");
            match received {
                Some(Ok(Message::Text(text))) => return Ok(text.as_str().to_owned()),
                Some(Ok(Message::Close(frame))) => {
                    // The answer to a close leaves with the next read.
                    drop(self.stream.next().await);
                    return Err(frame.map(|frame| frame.code.into()));
                }
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Err(None),
            }
        }
    }

    /// The next event.
    pub(crate) async fn event(&mut self) -> Value {
        let text = self.next().await.expect("an event comes");
        serde_json::from_str(&text).unwrap()
    }

    /// Everything until the socket ends.
    pub(crate) async fn rest(mut self) -> Seen {
        let mut seen = Seen::default();
        loop {
            match self.next().await {
                Ok(text) => seen.frames.push(text),
                Err(code) => {
                    seen.code = code;
                    return seen;
                }
            }
        }
    }

    /// Goes away without a word, like a page that is closed.
    pub(crate) async fn cut(self) {
        drop(self.stream);
    }

    /// Whether nothing comes for a while. A stretch of quiet can only be judged by time.
    pub(crate) async fn is_quiet(&mut self, time: Duration) -> bool {
        timeout(time, self.next()).await.is_err()
    }

    /// Whether nothing has come and the socket stands.
    pub(crate) fn is_open(&mut self) -> bool {
        self.next().now_or_never().is_none()
    }

    pub(crate) async fn send(&mut self, message: Message) {
        self.stream.send(message).await.unwrap();
    }

    /// Any frame, pings too.
    pub(crate) async fn any(&mut self) -> Message {
        timeout(PATIENCE, self.stream.next()).await.expect("something comes").unwrap().unwrap()
    }
}

/// The `Authorization` of a customer.
pub(crate) fn bearer(customer: &Customer) -> String {
    let request = customer.request(Method::GET, "/").build().unwrap();
    request.headers()["authorization"].to_str().unwrap().to_owned()
}

pub(crate) fn types(frames: &[String]) -> Vec<String> {
    let kind = |frame: &String| serde_json::from_str::<Value>(frame).unwrap()["type"].as_str().unwrap().to_owned();
    frames.iter().map(kind).collect()
}

/// Asserts what every reader is promised: dense numbers and rising ids from `first` on, one end, at the end.
#[track_caller]
pub(crate) fn assert_whole(seen: &Seen, first: u64) {
    let mut next = first;
    let mut last_id = penstock_protocol::EventId::default();
    for (at, frame) in seen.frames.iter().enumerate() {
        let event: Value = serde_json::from_str(frame).unwrap();
        let cursor = &event["metadata"]["penstock"];
        assert_eq!(cursor["seq"].as_u64(), Some(next), "{frame}");
        let id: penstock_protocol::EventId = cursor["id"].as_str().unwrap().parse().unwrap();
        assert!(id > last_id, "{frame} follows {last_id}");
        (next, last_id) = (next + 1, id);
        let is_end = matches!(event["type"].as_str(), Some("RUN_FINISHED" | "RUN_ERROR"));
        assert_eq!(is_end, at + 1 == seen.frames.len(), "frame {at} of {}: {frame}", seen.frames.len());
    }
    assert_eq!(seen.code, Some(1000));
}

/// The text that a client puts together from deltas.
pub(crate) fn text(frames: &[String]) -> String {
    let delta = |frame: &String| serde_json::from_str::<Value>(frame).unwrap()["delta"].as_str().map(str::to_owned);
    frames.iter().filter_map(delta).collect()
}
