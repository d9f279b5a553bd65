//! A client of the door with little CPU of its own: HTTP/1.1 over one kept connection, and WebSockets.
//!
//! Used by the demo, the benchmark and the whole-system tests; an application uses any HTTP client.

use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

/// Longest wait for one answer.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// A WebSocket to the door.
pub type Socket = WebSocketStream<MaybeTlsStream<TcpStream>>;

/// Where a door is, and the key for it.
#[derive(Clone, Debug)]
pub struct Door {
    /// `host:port`.
    pub address: String,
    /// API key.
    pub key: String,
}

/// An answer of the door.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Headers, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body as JSON; null where it is none.
    pub body: Value,
    /// Body as it came.
    pub text: String,
}

/// One kept connection to the door.
#[derive(Debug)]
pub struct Connection {
    door: Door,
    stream: Option<BufReader<TcpStream>>,
}

impl Answer {
    /// The value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }
}

impl Door {
    /// The door at `url` (`http://host:port`).
    ///
    /// # Errors
    /// When the URL is not of that form.
    pub fn at(url: &str, key: &str) -> anyhow::Result<Self> {
        let address = url.strip_prefix("http://").with_context(|| format!("`{url}` is not http://host:port"))?;
        Ok(Self { address: address.trim_end_matches('/').to_owned(), key: key.to_owned() })
    }

    /// A connection that is opened when it is first used.
    #[must_use]
    pub fn connection(&self) -> Connection {
        Connection { door: self.clone(), stream: None }
    }

    /// One request on a connection of its own.
    ///
    /// # Errors
    /// When the door does not answer.
    pub async fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> anyhow::Result<Answer> {
        self.connection().request(method, path, headers, body).await
    }

    /// Opens a WebSocket at `path`.
    ///
    /// # Errors
    /// When the door refuses it.
    pub async fn socket(&self, path: &str) -> anyhow::Result<Socket> {
        let mut request = format!("ws://{}{path}", self.address).into_client_request()?;
        request.headers_mut().insert("authorization", format!("Bearer {}", self.key).parse()?);
        Ok(connect_async(request).await?.0)
    }
}

impl Connection {
    /// Sends a request and reads the answer. `headers` are whole lines, each ending in CR LF.
    ///
    /// # Errors
    /// When the door does not answer in time, or not in HTTP/1.1 with a length.
    pub async fn request(&mut self, method: &str, path: &str, headers: &str, body: &str) -> anyhow::Result<Answer> {
        let Door { address, key } = &self.door;
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {key}\r\n\
             content-type: application/json\r\n{headers}content-length: {}\r\n\r\n{body}",
            body.len()
        );
        let is_fresh = self.stream.is_none();
        match timeout(ANSWER_MAX, self.exchange(&request)).await.context("no answer in time")? {
            // A kept connection may have been closed by the other side meanwhile.
            Err(_) if !is_fresh => {
                self.stream = None;
                timeout(ANSWER_MAX, self.exchange(&request)).await.context("no answer in time")?
            }
            answered => answered,
        }
    }

    async fn exchange(&mut self, request: &str) -> anyhow::Result<Answer> {
        let mut stream = match self.stream.take() {
            Some(stream) => stream,
            None => {
                let stream = TcpStream::connect(&self.door.address).await?;
                stream.set_nodelay(true)?;
                BufReader::new(stream)
            }
        };
        stream.write_all(request.as_bytes()).await?;
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status line")?;
        let (mut headers, mut length, mut closes) = (Vec::new(), None, false);
        loop {
            line.clear();
            if stream.read_line(&mut line).await? == 0 {
                bail!("the answer ends in its headers");
            }
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
            match name.as_str() {
                "content-length" => length = value.parse().ok(),
                "connection" => closes = value.eq_ignore_ascii_case("close"),
                _ => {}
            }
            headers.push((name, value));
        }
        let mut body = vec![0; length.unwrap_or(0)];
        stream.read_exact(&mut body).await?;
        if !closes {
            self.stream = Some(stream);
        }
        let text = String::from_utf8(body)?;
        Ok(Answer { status, headers, body: serde_json::from_str(&text).unwrap_or_default(), text })
    }
}
