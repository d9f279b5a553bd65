//! What was received, what was finished, and which calls their callers closed. All lists are bounded.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use penstock_protocol::clock::wall_ms;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Most closed calls kept; beyond, the oldest go. The counters go on.
const CLOSED_MAX: usize = 10_000;
/// Most received calls kept, and most bytes of their bodies.
const CALLS_MAX: usize = 1_000;
const CALLS_BYTES_MAX: usize = 16 << 20;
/// Most models counted apart.
const MODELS_MAX: usize = 1_000;

/// `GET /fake/stats`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stats {
    /// Connections accepted.
    pub connections: u64,
    /// Calls received.
    pub calls: u64,
    /// The same by model name.
    pub by_model: BTreeMap<String, u64>,
    /// Calls being answered now.
    pub in_flight: u64,
    /// Most at once.
    pub in_flight_max: u64,
    /// Calls answered to the end that their behaviour meant for them, errors and cuts included.
    pub completed: u64,
    /// Calls whose caller closed the connection before.
    pub closed_by_caller: u64,
    /// The latest of those.
    pub closed: VecDeque<ClosedCall>,
}

/// One call that its caller closed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedCall {
    /// Number of the call, from 1.
    pub call: u64,
    /// Tag of the call.
    pub tag: Option<String>,
    /// Milliseconds since the server's start.
    pub at_ms: u64,
    /// The same moment by the wall clock, for comparison with other processes of this machine.
    pub wall_ms: u64,
    /// Text chunks handed to the connection before.
    pub chunks: u32,
    /// Bytes of body handed to the connection before.
    pub bytes: u64,
}

/// One entry of `GET /fake/calls`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReceivedCall {
    /// Number of the call, from 1.
    pub call: u64,
    /// Tag of the call.
    pub tag: Option<String>,
    /// Milliseconds since the server's start.
    pub at_ms: u64,
    /// The same moment by the wall clock.
    pub wall_ms: u64,
    /// The body, byte for byte.
    pub body: Box<RawValue>,
}

/// The books of one server.
#[derive(Debug)]
pub(super) struct Recorder {
    started: Instant,
    books: Mutex<Books>,
}

#[derive(Debug, Default)]
struct Books {
    stats: Stats,
    last_call: u64,
    calls: VecDeque<Kept>,
    calls_bytes: usize,
}

#[derive(Debug)]
struct Kept {
    call: u64,
    tag: Option<Arc<str>>,
    at: Duration,
    wall_ms: u64,
    body: Bytes,
}

/// A call being answered. Dropped without [`Call::complete`], its caller has closed it.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) number: u64,
    pub(super) chunks: u32,
    pub(super) bytes: u64,
    recorder: Arc<Recorder>,
    tag: Option<Arc<str>>,
    is_complete: bool,
}

impl Recorder {
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), books: Mutex::default() }
    }

    /// Enters a connection in the books.
    pub(super) fn connect(&self) {
        self.books().stats.connections += 1;
    }

    /// Enters a call in the books.
    pub(super) fn receive(self: &Arc<Self>, model: &str, tag: Option<&str>, body: Bytes) -> Call {
        let tag: Option<Arc<str>> = tag.map(Arc::from);
        let mut books = self.books();
        books.last_call += 1;
        let number = books.last_call;
        books.stats.calls += 1;
        books.stats.in_flight += 1;
        books.stats.in_flight_max = books.stats.in_flight_max.max(books.stats.in_flight);
        let models = &mut books.stats.by_model;
        if let Some(count) = models.get_mut(model) {
            *count += 1;
        } else {
            let name = if models.len() < MODELS_MAX { model } else { "(others)" };
            *models.entry(name.to_owned()).or_insert(0) += 1;
        }
        books.calls_bytes += body.len();
        let at = self.started.elapsed();
        books.calls.push_back(Kept { call: number, tag: tag.clone(), at, wall_ms: wall_ms(), body });
        while books.calls.len() > CALLS_MAX || books.calls_bytes > CALLS_BYTES_MAX {
            let oldest = books.calls.pop_front();
            books.calls_bytes -= oldest.map_or(0, |call| call.body.len());
        }
        drop(books);
        Call { number, chunks: 0, bytes: 0, recorder: Arc::clone(self), tag, is_complete: false }
    }

    pub(super) fn stats(&self) -> Stats {
        self.books().stats.clone()
    }

    /// The last `count` calls, oldest first. A body that is not JSON was never entered.
    pub(super) fn calls(&self, count: usize) -> Vec<ReceivedCall> {
        let books = self.books();
        let skipped = books.calls.len().saturating_sub(count);
        let kept = books.calls.iter().skip(skipped);
        kept.filter_map(|call| {
            Some(ReceivedCall {
                call: call.call,
                tag: call.tag.as_deref().map(str::to_owned),
                at_ms: ms(call.at),
                wall_ms: call.wall_ms,
                body: serde_json::from_slice(&call.body).ok()?,
            })
        })
        .collect()
    }

    /// Empties the books. Calls in flight stay in flight.
    pub(super) fn reset(&self) {
        let mut books = self.books();
        let in_flight = books.stats.in_flight;
        books.stats = Stats { in_flight, in_flight_max: in_flight, ..Stats::default() };
        books.calls.clear();
        books.calls_bytes = 0;
    }

    fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Call {
    /// The call was answered as meant; what the caller closes now is no longer part of it.
    pub(super) fn complete(&mut self) {
        if !std::mem::replace(&mut self.is_complete, true) {
            let mut books = self.recorder.books();
            books.stats.in_flight -= 1;
            books.stats.completed += 1;
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if self.is_complete {
            return;
        }
        let closed = ClosedCall {
            call: self.number,
            tag: self.tag.as_deref().map(str::to_owned),
            at_ms: ms(self.recorder.started.elapsed()),
            wall_ms: wall_ms(),
            chunks: self.chunks,
            bytes: self.bytes,
        };
        let mut books = self.recorder.books();
        books.stats.in_flight -= 1;
        books.stats.closed_by_caller += 1;
        books.stats.closed.push_back(closed);
        if books.stats.closed.len() > CLOSED_MAX {
            books.stats.closed.pop_front();
        }
    }
}

fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
