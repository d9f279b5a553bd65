//! A WebSocket as readers use it: control frames, pings, and writes that never block the reading.
//!
//! Law 12: besides the outbox a socket holds one batch and one event; what a client may send is a few KiB. A client that
//! answers no ping for two intervals is gone, whatever TCP says.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::extract::ws::{Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use futures_util::{Sink, Stream};
use tokio::time::{Instant, Sleep, sleep, timeout};

use super::close::End;
use super::jitter::spread;

/// Bytes read at once. Clients send control frames, and small words on `/api/ws`.
const READ_BYTES: usize = 512;
/// Larger messages of a client end its socket.
const MESSAGE_BYTES_MAX: usize = 4096;
/// Bytes put together before they are written.
const WRITE_BYTES: usize = 8192;
/// The largest event must fit: an answer of 16 MiB (`worker.answer_bytes_max`), each byte escaped as `\u00XX`. What is
/// held beyond one event is bounded by [`BATCH_BYTES_MAX`].
const WRITE_BYTES_MAX: usize = 128 << 20;
/// Events are put together up to this much, then they must have left before more are taken.
pub(super) const BATCH_BYTES_MAX: usize = 16 << 10;
/// Pings that may go unanswered.
const PINGS_MISSED_MAX: u32 = 2;
/// Time for a close frame to leave and be answered.
const CLOSE_WAIT: Duration = Duration::from_secs(5);

/// Sets every bound of a socket; the defaults of the library have none for writes.
pub(super) fn bound(upgrade: WebSocketUpgrade) -> WebSocketUpgrade {
    upgrade
        .read_buffer_size(READ_BYTES)
        .write_buffer_size(WRITE_BYTES)
        .max_write_buffer_size(WRITE_BYTES_MAX)
        .max_message_size(MESSAGE_BYTES_MAX)
        .max_frame_size(MESSAGE_BYTES_MAX)
}

/// One client's socket.
pub(super) struct Line {
    socket: WebSocket,
    has_unflushed: bool,
    ping_at: Pin<Box<Sleep>>,
    ping_every: Duration,
    pings_missed: u32,
    has_comments: bool,
}

/// What came of listening.
#[derive(Debug)]
pub(super) enum Heard {
    /// The client sent a text.
    Text(Utf8Bytes),
    /// What was written has left: there is room for more.
    Flushed,
    /// The socket is over.
    End(End),
}

impl Line {
    /// `has_comments`: the client wants a text frame `: ping` beside each ping.
    pub(super) fn new(socket: WebSocket, ping_every: Duration, has_comments: bool) -> Self {
        let ping_at = Box::pin(sleep(spread(ping_every, 0.1, 1.0)));
        Self { socket, has_unflushed: false, ping_at, ping_every, pings_missed: 0, has_comments }
    }

    /// Whether everything written has left.
    pub(super) fn is_flushed(&self) -> bool {
        !self.has_unflushed
    }

    /// Whether the client wants comments.
    pub(super) fn takes_comments(&self) -> bool {
        self.has_comments
    }

    /// Puts a text frame behind what is not flushed yet. [`Line::hear`] flushes.
    pub(super) fn write(&mut self, text: Utf8Bytes) -> Result<(), End> {
        self.put(Message::Text(text))
    }

    /// Reads, flushes and pings until something is to be done. Cancel-safe.
    pub(super) async fn hear(&mut self) -> Heard {
        std::future::poll_fn(|context| self.poll_hear(context)).await
    }

    fn poll_hear(&mut self, context: &mut Context<'_>) -> Poll<Heard> {
        loop {
            while let Poll::Ready(received) = Pin::new(&mut self.socket).poll_next(context) {
                match received {
                    Some(Ok(Message::Text(text))) => return Poll::Ready(Heard::Text(text)),
                    Some(Ok(Message::Ping(_) | Message::Pong(_))) => self.pings_missed = 0,
                    Some(Ok(Message::Binary(_))) => return Poll::Ready(Heard::End(End::Malformed)),
                    // The answer to its close leaves with the next poll, which ends the stream.
                    Some(Ok(Message::Close(_))) => {}
                    Some(Err(_)) | None => return Poll::Ready(Heard::End(End::Left)),
                }
            }
            if self.has_unflushed
                && let Poll::Ready(flushed) = Pin::new(&mut self.socket).poll_flush(context)
            {
                self.has_unflushed = false;
                return Poll::Ready(flushed.map_or(Heard::End(End::Left), |()| Heard::Flushed));
            }
            ready!(self.ping_at.as_mut().poll(context));
            if self.pings_missed >= PINGS_MISSED_MAX {
                return Poll::Ready(Heard::End(End::Left));
            }
            self.pings_missed += 1;
            self.ping_at.as_mut().reset(Instant::now() + spread(self.ping_every, 0.8, 1.0));
            // What waits on a blocked socket is its keep-alive; a ping would only grow it.
            if !self.has_unflushed
                && let Err(end) = self.ping()
            {
                return Poll::Ready(Heard::End(end));
            }
        }
    }

    fn ping(&mut self) -> Result<(), End> {
        self.put(Message::Ping(bytes::Bytes::new()))?;
        if self.has_comments { self.put(Message::Text(Utf8Bytes::from_static(": ping"))) } else { Ok(()) }
    }

    /// Says goodbye, unless the client has gone, and waits a moment for its answer.
    pub(super) async fn close(mut self, end: End) {
        if end == End::Left {
            return;
        }
        let goodbye = async {
            self.socket.send(Message::Close(Some(end.close_frame()))).await?;
            while let Some(Ok(_)) = self.socket.recv().await {}
            Ok::<_, axum::Error>(())
        };
        if timeout(CLOSE_WAIT, goodbye).await.is_err() {
            tracing::debug!(?end, "a client did not answer a close frame");
        }
    }

    fn put(&mut self, message: Message) -> Result<(), End> {
        self.has_unflushed = true;
        Pin::new(&mut self.socket).start_send(message).map_err(|_| End::Left)
    }
}

#[cfg(test)]
mod tests {
    use axum::extract::FromRequestParts;
    use axum::http::Request;

    use super::*;

    #[tokio::test]
    async fn every_buffer_of_a_socket_is_bounded() {
        let mut request = Request::get("/")
            .header("connection", "upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
            .body(())
            .unwrap();
        let upgrade = hyper::upgrade::on(&mut request);
        request.extensions_mut().insert(upgrade);
        let mut parts = request.into_parts().0;
        let upgrade = bound(WebSocketUpgrade::from_request_parts(&mut parts, &()).await.unwrap());
        let config = format!("{upgrade:?}");
        for set in [
            "read_buffer_size: 512",
            "write_buffer_size: 8192",
            "max_write_buffer_size: 134217728",
            "max_message_size: Some(4096)",
            "max_frame_size: Some(4096)",
        ] {
            assert!(config.contains(set), "{set} in {config}");
        }
    }
}
