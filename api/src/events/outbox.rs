//! What waits for one reader, bounded in bytes. The hub puts words in, the reader's task takes them out.
//!
//! Law 12: at most `events.reader_bytes_max` and one event wait. A reader that lets more pile up has overrun: its words
//! are dropped, it is told so, and it resumes by its cursor. Nobody else notices.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::close::End;
use super::frame::Frame;

/// An empty queue keeps room for so many words.
const IDLE_WORDS_MAX: usize = 16;

/// Names one subscription of a process.
pub(super) type Ticket = u64;

/// What the hub tells a reader.
#[derive(Clone, Debug)]
pub(super) enum Word {
    /// The next event.
    Event(Arc<Frame>),
    /// The end as MySQL has it, with what must precede it; its last frame is terminal.
    Rebuilt(Arc<[Arc<Frame>]>),
    /// Nothing more comes.
    End(End),
}

/// The queue of one reader, over all its subscriptions.
#[derive(Debug)]
pub(super) struct Outbox {
    state: Mutex<State>,
    filled: Notify,
    bytes_max: usize,
}

#[derive(Debug, Default)]
struct State {
    words: VecDeque<(Ticket, Word)>,
    bytes: usize,
    has_overrun: bool,
}

/// The reader was too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Overrun;

impl Outbox {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { state: Mutex::default(), filled: Notify::new(), bytes_max }
    }

    /// Adds a word; returns false once the reader has overrun: then it needs no more words.
    pub(super) fn push(&self, ticket: Ticket, word: Word) -> bool {
        let mut state = self.lock();
        if state.has_overrun {
            return false;
        }
        // One event may stand above the bound: the largest event must reach a reader that keeps up.
        if state.bytes >= self.bytes_max {
            *state = State { has_overrun: true, ..State::default() };
        } else {
            state.bytes += word.bytes();
            state.words.push_back((ticket, word));
        }
        let is_taken = !state.has_overrun;
        drop(state);
        self.filled.notify_one();
        is_taken
    }

    /// The next word, if one waits.
    pub(super) fn try_take(&self) -> Result<Option<(Ticket, Word)>, Overrun> {
        let mut state = self.lock();
        if state.has_overrun {
            return Err(Overrun);
        }
        let taken = state.words.pop_front();
        if let Some((_, word)) = &taken {
            state.bytes -= word.bytes();
            if state.words.is_empty() && state.words.capacity() > IDLE_WORDS_MAX {
                // An idle reader keeps no memory of its last burst.
                state.words = VecDeque::new();
            }
        }
        Ok(taken)
    }

    /// The next word. Cancel-safe. One task takes.
    pub(super) async fn take(&self) -> Result<(Ticket, Word), Overrun> {
        loop {
            if let Some(taken) = self.try_take()? {
                return Ok(taken);
            }
            self.filled.notified().await;
        }
    }

    /// Waits until the reader has overrun. Cancel-safe.
    pub(super) async fn overrun(&self) {
        while !self.lock().has_overrun {
            self.filled.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Word {
    fn bytes(&self) -> usize {
        match self {
            Self::Event(frame) => frame.text.len(),
            Self::Rebuilt(frames) => frames.iter().map(|frame| frame.text.len()).sum(),
            Self::End(_) => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use penstock_protocol::EventId;

    use super::*;

    fn event(bytes: usize) -> Word {
        Word::Event(Frame::new(&format!(r#"{{"type":"{}"}}"#, "X".repeat(bytes)), EventId::default(), 1))
    }

    #[tokio::test]
    async fn a_reader_overruns_by_bytes_and_is_told() {
        let outbox = Outbox::new(1000);
        assert!(outbox.push(1, event(2000)), "one event may be larger than the bound");
        assert!(!outbox.push(1, event(1)));
        assert!(!outbox.push(1, event(1)));
        assert_eq!(outbox.take().await.unwrap_err(), Overrun);
    }

    #[tokio::test]
    async fn taking_makes_room() {
        let outbox = Outbox::new(1000);
        for _ in 0..100 {
            assert!(outbox.push(7, event(900)));
            assert_eq!(outbox.take().await.unwrap().0, 7);
        }
        assert!(outbox.try_take().unwrap().is_none());
    }
}
