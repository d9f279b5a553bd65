//! A vendor that counts calls and tokens over a rolling window, as strict ones do, and answers 429 beyond its limits. It speaks
//! HTTP/1.1 in OpenAI's dialect, as much of it as a call needs. A call says in its text what it costs: `[[tokens=1200]]`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};

/// Output tokens of every answer.
pub(crate) const OUTPUT_TOKENS: u64 = 10;
/// Time to the answer.
const SERVICE: Duration = Duration::from_millis(20);

/// What the vendor allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    pub(crate) requests: u64,
    pub(crate) tokens: u64,
    pub(crate) window: Duration,
}

/// What the vendor has seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) calls: u64,
    pub(crate) refused: u64,
    /// Usage of all answers.
    pub(crate) tokens: u64,
    /// Most calls and tokens that arrived in any window, refused ones included.
    pub(crate) requests_max: u64,
    pub(crate) tokens_max: u64,
}

#[derive(Debug)]
pub(crate) struct Vendor {
    pub(crate) base_url: String,
    books: Arc<Mutex<Books>>,
}

#[derive(Debug)]
struct Books {
    allowance: Allowance,
    seen: Seen,
    arrived: Window,
    accepted: Window,
}

/// Calls of the last window.
#[derive(Debug, Default)]
struct Window {
    calls: VecDeque<(Instant, u64)>,
    tokens: u64,
}

impl Vendor {
    pub(crate) async fn start(allowance: Allowance) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let base_url = format!("http://{}/v1", listener.local_addr()?);
        let books = Books { allowance, seen: Seen::default(), arrived: Window::default(), accepted: Window::default() };
        let books = Arc::new(Mutex::new(books));
        let shared = Arc::clone(&books);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                // A connection that breaks is its caller's business.
                let books = Arc::clone(&shared);
                tokio::spawn(async move { drop(serve(socket, &books).await) });
            }
        });
        Ok(Self { base_url, books })
    }

    pub(crate) fn seen(&self) -> Seen {
        lock(&self.books).seen.clone()
    }
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Window {
    fn slide(&mut self, window: Duration, now: Instant) {
        while let Some((at, tokens)) = self.calls.front().copied().filter(|(at, _)| *at + window <= now) {
            debug_assert!(at <= now);
            self.tokens -= tokens;
            self.calls.pop_front();
        }
    }

    fn push(&mut self, now: Instant, tokens: u64) {
        self.calls.push_back((now, tokens));
        self.tokens += tokens;
    }

    fn requests(&self) -> u64 {
        u64::try_from(self.calls.len()).unwrap_or(u64::MAX)
    }
}

impl Books {
    /// Whether the call is within the limits.
    fn judge(&mut self, tokens: u64) -> bool {
        let (now, allowance) = (Instant::now(), self.allowance);
        self.seen.calls += 1;
        self.arrived.slide(allowance.window, now);
        self.arrived.push(now, tokens);
        self.seen.requests_max = self.seen.requests_max.max(self.arrived.requests());
        self.seen.tokens_max = self.seen.tokens_max.max(self.arrived.tokens);
        self.accepted.slide(allowance.window, now);
        let is_within =
            self.accepted.requests() < allowance.requests && self.accepted.tokens + tokens <= allowance.tokens;
        if is_within {
            self.accepted.push(now, tokens);
            self.seen.tokens += tokens;
        } else {
            self.seen.refused += 1;
        }
        is_within
    }
}

async fn serve(mut socket: TcpStream, books: &Mutex<Books>) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut received = Vec::new();
    loop {
        let Some(body) = next_body(&mut socket, &mut received).await? else { return Ok(()) };
        let input = cost(&body).unwrap_or(0);
        let is_within = lock(books).judge(input + OUTPUT_TOKENS);
        let answer = if is_within {
            sleep(SERVICE).await;
            answer(input)
        } else {
            let body = r#"{"error":{"message":"rolling window","type":"requests","code":"rate_limit_exceeded"}}"#;
            format!(
                "HTTP/1.1 429 Too Many Requests\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            )
        };
        socket.write_all(answer.as_bytes()).await?;
    }
}

/// The body of the next request; `None`: the caller has closed.
async fn next_body(socket: &mut TcpStream, received: &mut Vec<u8>) -> std::io::Result<Option<Vec<u8>>> {
    loop {
        if let Some(head_length) = find(received, b"\r\n\r\n").map(|at| at + 4) {
            let head = String::from_utf8_lossy(&received[..head_length]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
            let whole = head_length + length.unwrap_or(0);
            if received.len() >= whole {
                let mut request: Vec<u8> = received.drain(..whole).collect();
                return Ok(Some(request.split_off(head_length)));
            }
        }
        if socket.read_buf(received).await? == 0 {
            return Ok(None);
        }
    }
}

fn cost(body: &[u8]) -> Option<u64> {
    let start = find(body, b"[[tokens=")? + 9;
    let digits: String = body[start..].iter().map(|byte| char::from(*byte)).take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

fn answer(input: u64) -> String {
    let total = input + OUTPUT_TOKENS;
    let body = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"ok\"}}}}]}}\n\n\
         data: {{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"stop\"}}]}}\n\n\
         data: {{\"choices\":[],\"usage\":{{\"prompt_tokens\":{input},\"completion_tokens\":{OUTPUT_TOKENS},\
         \"total_tokens\":{total}}}}}\n\ndata: [DONE]\n\n"
    );
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}
