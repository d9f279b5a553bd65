//! The body of a streamed answer, made while it is sent: each frame when its time has come.
//!
//! The connection drops the body when its caller is gone, also while it sleeps; so there is nothing to poll for a close.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream};
use tokio::time::{Instant, sleep, sleep_until};

use super::answer::Answer;
use super::behaviour::{Behaviour, Only, Stall, ToolShape, UsageAt};
use super::failure::error_frame;
use super::record::Call;
use super::wire::{Dialect, Event, Frames, Piece, ToolPiece, reasoning_text, tool_pieces};

/// Between the last bytes and a cut, so that the bytes leave before.
const BEFORE_CUT: Duration = Duration::from_millis(1);
/// Interval of `only`, where no gap is given.
const ONLY_GAP: Duration = Duration::from_millis(50);
/// Frames whose time has come leave together, up to this size.
const WRITE_BYTES_MAX: usize = 64 * 1024;

/// Long enough for a state that only its caller's close ends.
const FOR_EVER: Duration = Duration::from_secs(86_400);

/// The body of `behaviour`, for a call received at `started`.
pub(super) fn paced(
    behaviour: Behaviour,
    answer: Answer,
    frames: Frames,
    call: Call,
    started: Instant,
) -> impl Stream<Item = io::Result<Bytes>> {
    let sender = Sender::new(behaviour, answer, frames, call, started);
    stream::unfold(sender, |mut sender| async move { sender.next().await.map(|bytes| (bytes, sender)) })
}

struct Sender {
    behaviour: Behaviour,
    answer: Answer,
    frames: Frames,
    call: Call,
    started: Instant,
    tools: VecDeque<ToolPiece>,
    /// Reasoning, text and tool chunks.
    pieces_count: u32,
    gap: Duration,
    next_piece: u32,
    buffer: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Before,
    Pieces,
    Tail,
    Cut,
    Silent,
    Over,
}

impl Sender {
    fn new(behaviour: Behaviour, answer: Answer, frames: Frames, call: Call, started: Instant) -> Self {
        let tools: VecDeque<_> = behaviour.tools.map(tool_pieces).unwrap_or_default().into();
        let text_count = if tools.is_empty() { behaviour.chunks } else { u32::try_from(tools.len()).unwrap_or(0) };
        let pieces_count = behaviour.reasoning.saturating_add(text_count);
        let gap = behaviour.gap_of_chunks(pieces_count);
        let state = State::Before;
        Self {
            behaviour,
            answer,
            frames,
            call,
            started,
            tools,
            pieces_count,
            gap,
            next_piece: 0,
            buffer: vec![],
            state,
        }
    }

    /// The next bytes: everything whose time has come. `None`: the body is over.
    async fn next(&mut self) -> Option<io::Result<Bytes>> {
        loop {
            if self.buffer.len() >= WRITE_BYTES_MAX {
                return Some(Ok(self.flush()));
            }
            let due = self.due();
            if due > Instant::now() {
                if !self.buffer.is_empty() {
                    return Some(Ok(self.flush()));
                }
                if let Some(comment) = self.wait(due).await {
                    return Some(Ok(comment));
                }
            }
            match self.state {
                State::Before => self.before(),
                State::Pieces => self.piece(),
                State::Tail => self.tail(),
                State::Cut | State::Over if !self.buffer.is_empty() => return Some(Ok(self.flush())),
                State::Cut => {
                    sleep(BEFORE_CUT).await;
                    self.call.complete();
                    self.state = State::Over;
                    return Some(Err(io::Error::other("the behaviour cuts here")));
                }
                State::Silent => {}
                State::Over => return None,
            }
            self.cut_bytes();
        }
    }

    /// When the next step is due.
    fn due(&self) -> Instant {
        let begin = self.started + self.behaviour.first;
        match self.state {
            State::Pieces if self.behaviour.only.is_some() => begin + self.only_gap() * self.next_piece,
            State::Pieces => begin + self.gap * self.next_piece,
            State::Tail => begin + self.behaviour.total.map_or(Duration::ZERO, |_| self.gap * self.pieces_count),
            State::Silent => Instant::now() + FOR_EVER,
            State::Before | State::Cut | State::Over => self.started,
        }
    }

    /// Sleeps until `due`, or until the next comment, which it returns.
    async fn wait(&mut self, due: Instant) -> Option<Bytes> {
        let comment = self.behaviour.keep_alive.map(|every| Instant::now() + every);
        match comment.filter(|comment| *comment < due) {
            Some(comment) => {
                sleep_until(comment).await;
                self.push_line(": keep-alive");
                self.push_line("");
                Some(self.flush())
            }
            None => {
                sleep_until(due).await;
                None
            }
        }
    }

    fn before(&mut self) {
        if self.behaviour.has_bom {
            self.buffer.extend_from_slice("\u{feff}".as_bytes());
        }
        self.state = if self.behaviour.stall == Some(Stall::Head) { State::Silent } else { State::Pieces };
    }

    fn piece(&mut self) {
        let index = self.next_piece;
        match self.behaviour.only {
            Some(Only::Comments) => {
                self.push_line(": keep-alive");
                self.push_line("");
                self.next_piece += 1;
                return;
            }
            Some(Only::Roles) => {
                if self.next_piece == 0 {
                    self.push_start();
                }
                let frame = self.frames.nothing();
                self.push_event(&frame);
                self.next_piece += 1;
                return;
            }
            None => {}
        }
        if self.misbehaves(index) {
            return;
        }
        if index == self.pieces_count {
            self.state = State::Tail;
            return;
        }
        if index == 0 {
            self.push_start();
        }
        let piece = if index < self.behaviour.reasoning {
            Piece::Reasoning(reasoning_text(index))
        } else if let Some(tool) = self.tools.pop_front() {
            Piece::Tool(tool)
        } else {
            Piece::Text(self.answer.chunk(&self.behaviour, index - self.behaviour.reasoning))
        };
        let counts = self.answer.counts(&self.behaviour, index + 1);
        let usage = (self.behaviour.usage == UsageAt::Each).then_some(&counts);
        for event in self.frames.piece(piece, usage) {
            self.push_event(&event);
        }
        self.next_piece += 1;
        self.call.chunks += 1;
    }

    /// What the behaviour does wrong after `index` chunks, if anything.
    fn misbehaves(&mut self, index: u32) -> bool {
        let here = |at: Option<u32>| at == Some(index);
        if self.behaviour.stall == Some(Stall::Chunks(index)) {
            self.state = State::Silent;
        } else if here(self.behaviour.cut_chunks) {
            self.state = State::Cut;
        } else if here(self.behaviour.eof_chunks) {
            self.call.complete();
            self.state = State::Over;
        } else if here(self.behaviour.garbage_chunks) {
            self.push_event(&Event { name: None, data: "{\"choices\":[{\"delta\":{\"conte".to_owned() });
            self.state = State::Tail;
        } else if here(self.behaviour.error_chunks) {
            let dialect = self.frames.dialect();
            let name = (dialect == Dialect::Anthropic).then_some("error");
            self.push_event(&Event { name, data: error_frame(&self.behaviour, dialect) });
            self.call.complete();
            self.state = State::Over;
        } else {
            return false;
        }
        true
    }

    fn tail(&mut self) {
        let tools_finish = match self.behaviour.tools {
            Some(ToolShape::Truncated) => Some("length"),
            Some(_) => Some("tool_calls"),
            None => None,
        };
        let finish = self.behaviour.finish.clone().unwrap_or_else(|| tools_finish.unwrap_or("stop").to_owned());
        let counts = self.answer.counts(&self.behaviour, self.pieces_count);
        for event in self.frames.tail(&finish, &self.behaviour, &counts) {
            self.push_event(&event);
        }
        if !self.behaviour.has_last_blank {
            let blank = self.behaviour.line_end.len();
            self.buffer.truncate(self.buffer.len().saturating_sub(blank));
        }
        self.state = if self.behaviour.stays_open { State::Silent } else { State::Over };
        // With a cut at a byte the last word is not spoken yet.
        if self.behaviour.cut_bytes.is_none() {
            self.call.complete();
        }
    }

    /// Cuts the body where `cut_bytes` says so.
    fn cut_bytes(&mut self) {
        let Some(at) = self.behaviour.cut_bytes else { return };
        let sent = usize::try_from(self.call.bytes).unwrap_or(usize::MAX);
        let room = at.saturating_sub(sent);
        if self.state != State::Cut && (self.buffer.len() >= room || self.state == State::Over) {
            self.buffer.truncate(room);
            self.state = State::Cut;
        }
    }

    fn only_gap(&self) -> Duration {
        if self.gap.is_zero() { ONLY_GAP } else { self.gap }
    }

    fn push_start(&mut self) {
        let counts = self.answer.counts(&self.behaviour, 0);
        for event in self.frames.start(&counts) {
            self.push_event(&event);
        }
    }

    fn push_event(&mut self, event: &Event) {
        let space = if self.behaviour.has_space { " " } else { "" };
        self.buffer.reserve(event.data.len() + 64);
        if let Some(name) = event.name {
            self.buffer.extend_from_slice(b"event:");
            self.buffer.extend_from_slice(space.as_bytes());
            self.push_line(name);
        }
        self.buffer.extend_from_slice(b"data:");
        self.buffer.extend_from_slice(space.as_bytes());
        self.push_line(&event.data);
        self.push_line("");
    }

    fn push_line(&mut self, line: &str) {
        self.buffer.extend_from_slice(line.as_bytes());
        self.buffer.extend_from_slice(self.behaviour.line_end.as_bytes());
    }

    fn flush(&mut self) -> Bytes {
        let bytes = Bytes::from(std::mem::take(&mut self.buffer));
        self.call.bytes += u64::try_from(bytes.len()).unwrap_or(0);
        bytes
    }
}
