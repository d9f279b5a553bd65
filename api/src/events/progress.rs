//! Where one reader stands in a stream, and what the next stored event means to it. Pure.
//!
//! Law 7: only the exact next event passes. The dense number decides, whether events come from a page, a bell or a read
//! after a lost connection; so replay and live are one rule and neither can double nor drop an event.

use std::sync::Arc;

use penstock_protocol::EventId;
use penstock_protocol::event::is_terminal_json;
use penstock_queue::StoredEvent;

use super::close::End;
use super::ending::{Standing, is_rebuilt_end, start_of_unstarted};
use super::frame::Frame;
use super::open_items::OpenItems;

/// Position of a reader that reads pages.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    place: Place,
    /// Known when the reader has read from the beginning.
    open: Option<OpenItems>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first event; `prelude_seen` events of a prelude were seen.
    Start { prelude_seen: u64 },
    /// A client's cursor, not yet found in the stream.
    Cursor(EventId),
    /// Behind this event.
    At { id: EventId, seq: u64 },
}

/// What an event means.
#[derive(Debug)]
pub(super) enum Step {
    /// It is the next one; the first frame, if any, must precede it.
    Pass(Option<Arc<Frame>>, Arc<Frame>),
    /// The reader has it.
    Old,
    /// Nothing more comes.
    End(End),
    /// Events are missing: from here on only the end can be told truly.
    Hole(Standing),
}

impl Progress {
    /// A reader that begins, or comes back with the cursor `after`.
    pub(super) fn new(after: Option<EventId>) -> Self {
        match after {
            Some(EventId { attempt: 0, n }) => {
                Self { place: Place::Start { prelude_seen: n }, open: Some(OpenItems::default()) }
            }
            Some(id) => Self { place: Place::Cursor(id), open: None },
            None => Self::new(Some(EventId::default())),
        }
    }

    /// The reader ended before it asked: its cursor is that of an end made up from MySQL.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.place, Place::Cursor(id) if is_rebuilt_end(id))
    }

    /// The id to read after. A cursor is read from its own event on: finding it there proves that nothing is missing.
    pub(super) fn read_after(&self) -> EventId {
        match self.place {
            Place::Start { .. } => EventId::default(),
            Place::Cursor(EventId { attempt, n: 0 }) => EventId { attempt: attempt.saturating_sub(1), n: u64::MAX },
            Place::Cursor(EventId { attempt, n }) => EventId { attempt, n: n - 1 },
            Place::At { id, .. } => id,
        }
    }

    /// The last event that the reader has, and its number: the beginning is number 0.
    pub(super) fn last(&self) -> (EventId, u64) {
        match self.place {
            Place::Start { .. } => (EventId::default(), 0),
            Place::Cursor(id) => (id, 0),
            Place::At { id, seq } => (id, seq),
        }
    }

    /// How many events of a prelude the reader has.
    pub(super) fn prelude_seen(&self) -> u64 {
        match self.place {
            Place::Start { prelude_seen } => prelude_seen,
            Place::Cursor(_) | Place::At { .. } => 0,
        }
    }

    /// The same position, whatever of a prelude was seen: that differs between readers who share a watch.
    pub(super) fn shared(&self) -> Self {
        match self.place {
            Place::Start { .. } => Self { place: Place::Start { prelude_seen: 0 }, open: self.open.clone() },
            Place::Cursor(_) | Place::At { .. } => self.clone(),
        }
    }

    /// Takes over what another reader at the same position knows.
    pub(super) fn learn(&mut self, other: &Self) {
        if self.open.is_none() && self.last() == other.last() {
            self.open.clone_from(&other.open);
        }
    }

    /// Whether a client's cursor was not found yet.
    pub(super) fn is_unproved(&self) -> bool {
        matches!(self.place, Place::Cursor(_))
    }

    pub(super) fn open(&self) -> Option<OpenItems> {
        self.open.clone()
    }

    /// Takes the next event of a page.
    pub(super) fn take(&mut self, stored: &StoredEvent) -> Step {
        let (last_id, last_seq) = match self.place {
            Place::Start { .. } => (EventId::default(), 0),
            Place::At { id, seq } => (id, seq),
            Place::Cursor(cursor) if cursor == stored.id => {
                self.place = Place::At { id: cursor, seq: stored.seq };
                return if is_over(&stored.event) { Step::End(End::Done) } else { Step::Old };
            }
            Place::Cursor(_) => return Step::End(End::CursorGone),
        };
        if stored.id <= last_id {
            return Step::Old;
        }
        if stored.seq != last_seq + 1 {
            return self.hole();
        }
        if let Some(open) = &mut self.open {
            open.apply(&stored.event);
        }
        let before = match self.place {
            Place::Start { prelude_seen: 0 } => start_of_unstarted(&stored.event),
            _ => None,
        };
        self.place = Place::At { id: stored.id, seq: stored.seq };
        Step::Pass(before, Frame::new(&stored.event, stored.id, stored.seq))
    }

    /// What is left to the reader when events are missing.
    fn hole(&self) -> Step {
        let last = match self.place {
            Place::At { id, seq } => Some((id, seq)),
            Place::Start { .. } | Place::Cursor(_) => None,
        };
        if last.is_some() && self.open.is_none() {
            return Step::End(End::CursorGone);
        }
        Step::Hole(Standing { last, open: self.open.clone(), has_hole: true, prelude_seen: self.prelude_seen() })
    }
}

/// Whether nothing follows an event. A run that closed with an interrupt goes on once a person has answered.
fn is_over(event: &str) -> bool {
    is_terminal_json(event) && !event.contains(r#""outcome":{"type":"interrupt""#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(attempt: u64, n: u64, seq: u64, event: &str) -> StoredEvent {
        StoredEvent { id: EventId { attempt, n }, seq, event: event.to_owned() }
    }

    const CONTENT: &str = r#"{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}"#;

    #[test]
    fn only_the_exact_next_event_passes() {
        let mut progress = Progress::new(None);
        assert!(matches!(progress.take(&stored(1, 1, 1, CONTENT)), Step::Pass(None, frame) if frame.seq == 1));
        assert!(matches!(progress.take(&stored(1, 1, 1, CONTENT)), Step::Old));
        assert!(matches!(progress.take(&stored(2, 0, 2, CONTENT)), Step::Pass(..)));
        assert!(matches!(progress.take(&stored(2, 2, 4, CONTENT)), Step::Hole(standing) if standing.has_hole));
    }

    #[test]
    fn a_cursor_is_proved_by_its_own_event() {
        let mut progress = Progress::new(Some(EventId { attempt: 2, n: 0 }));
        assert_eq!(progress.read_after(), EventId { attempt: 1, n: u64::MAX });
        assert!(matches!(progress.take(&stored(2, 0, 7, CONTENT)), Step::Old));
        assert!(matches!(progress.take(&stored(2, 1, 8, CONTENT)), Step::Pass(..)));
        assert!(matches!(progress.take(&stored(2, 3, 10, CONTENT)), Step::End(End::CursorGone)));

        let mut gone = Progress::new(Some(EventId { attempt: 1, n: 9 }));
        assert!(matches!(gone.take(&stored(2, 1, 1, CONTENT)), Step::End(End::CursorGone)));
    }

    #[test]
    fn a_reader_that_has_the_end_is_done_but_an_interrupt_goes_on() {
        let mut progress = Progress::new(Some(EventId { attempt: 1, n: 9 }));
        assert!(matches!(
            progress.take(&stored(1, 9, 9, r#"{"type":"RUN_ERROR","message":""}"#)),
            Step::End(End::Done)
        ));
        let mut progress = Progress::new(Some(EventId { attempt: 1, n: 9 }));
        let interrupt =
            r#"{"type":"RUN_FINISHED","threadId":"t","runId":"r","outcome":{"type":"interrupt","interrupts":[]}}"#;
        assert!(matches!(progress.take(&stored(1, 9, 9, interrupt)), Step::Old));
    }
}
