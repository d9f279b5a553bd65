//! One watched task: its readers, and what a bell or a page of its stream means to them. Pure but for the outboxes.
//!
//! Readers *enter* (they read pages by themselves), then *join* once they have all that was heard of. From then on the
//! hub passes each event to all of them, framed once. A reader that lost events only *waits* for the end.
//! Law 7: the order enter, read, join leaves no moment in which an event is missed, and the dense number of each
//! follower lets none pass twice.

use std::sync::Arc;
use std::time::Duration;

use penstock_protocol::EventId;
use penstock_protocol::event::is_terminal_json;
use penstock_queue::{Bell, StoredEvent};
use penstock_store::TaskRow;
use tokio::time::Instant;

use super::close::End;
use super::ending::{Standing, rebuilt};
use super::frame::Frame;
use super::outbox::{Outbox, Ticket, Word};
use super::progress::{Progress, Step};

/// How long the end that a row states may take to be published before readers get it from the row.
const PUBLISH_GRACE: Duration = Duration::from_secs(1);

/// One watched task.
#[derive(Debug)]
pub(super) struct Watch {
    followers: Vec<Follower>,
    waiting: Vec<Waiting>,
    /// Readers that still read pages.
    entering: usize,
    /// Where the followers stand; meaningless while there are none.
    at: Progress,
    heard: Heard,
    /// Last sign of life, or last look.
    touched: Instant,
    /// Whether an event or the row was ever seen.
    is_known: bool,
    /// When the row was first seen ended while the stream had no end.
    ended_at: Option<Instant>,
}

/// What was heard of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Heard {
    /// The highest id.
    rung: EventId,
    /// How often bells may have been missed.
    losses: u64,
}

/// A reader that gets each event.
#[derive(Debug)]
pub(super) struct Follower {
    ticket: Ticket,
    outbox: Arc<Outbox>,
    /// When it began to wait for a task that may not exist yet.
    since: Instant,
    /// The last event that it has.
    last: (EventId, u64),
    prelude_seen: u64,
}

/// A reader that gets the end only, with what must precede it.
#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    outbox: Arc<Outbox>,
    standing: Standing,
}

/// What the hub has to do about a watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Todo {
    /// Events passed on to followers.
    pub(super) passed: u64,
    /// Read the stream: a gap, or an event too large for the bell.
    pub(super) read: bool,
    /// Look at the row: somebody waits for the end, and it is near.
    pub(super) look: bool,
    /// Readers that overran.
    pub(super) slow: u64,
}

impl Watch {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            followers: Vec::new(),
            waiting: Vec::new(),
            entering: 0,
            at: Progress::new(None),
            heard: Heard::default(),
            touched: now,
            is_known: false,
            ended_at: None,
        }
    }

    pub(super) fn enter(&mut self) {
        self.entering += 1;
    }

    /// A reader gave up before it joined.
    pub(super) fn give_up(&mut self) {
        self.entering = self.entering.saturating_sub(1);
    }

    /// What was heard of so far; a read that begins now shows all of it.
    pub(super) fn heard(&self) -> Heard {
        self.heard
    }

    /// Bells may have been missed.
    pub(super) fn lost_bells(&mut self) {
        self.heard.losses += 1;
    }

    /// Lets a reader follow that read up to `progress`, by a read that began when `heard` had been heard.
    ///
    /// Errors: more was heard of since; read on.
    pub(super) fn join(&mut self, mut follower: Follower, progress: &Progress, heard: Heard) -> Result<(), Follower> {
        follower.last = progress.last();
        follower.prelude_seen = progress.prelude_seen();
        // Others follow from the same event or an earlier one: whatever comes after it reaches them, and so this one.
        let is_covered = !self.followers.is_empty() && follower.last.0 >= self.at.last().0;
        let is_complete = self.heard.losses == heard.losses && self.heard.rung <= heard.rung.max(follower.last.0);
        if !is_covered && !is_complete {
            return Err(follower);
        }
        if self.followers.is_empty() {
            self.at = progress.shared();
        } else {
            self.at.learn(progress);
        }
        self.heard.rung = self.heard.rung.max(follower.last.0);
        self.is_known |= follower.last.1 > 0;
        self.give_up();
        self.followers.push(follower);
        Ok(())
    }

    /// Lets an entered reader wait for the end only.
    pub(super) fn wait(&mut self, ticket: Ticket, outbox: Arc<Outbox>, standing: Standing) {
        self.give_up();
        self.waiting.push(Waiting { ticket, outbox, standing });
    }

    /// Forgets a reader that has joined or waits.
    pub(super) fn leave(&mut self, ticket: Ticket) {
        self.followers.retain(|follower| follower.ticket != ticket);
        self.waiting.retain(|waiting| waiting.ticket != ticket);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.followers.is_empty() && self.waiting.is_empty() && self.entering == 0
    }

    pub(super) fn has_followers(&self) -> bool {
        !self.followers.is_empty()
    }

    /// Whether anybody is served by the hub.
    pub(super) fn is_served(&self) -> bool {
        !self.followers.is_empty() || !self.waiting.is_empty()
    }

    /// Whether nothing was heard since `silence`.
    pub(super) fn is_silent(&self, silence: Duration, now: Instant) -> bool {
        self.is_served() && now.duration_since(self.touched) >= silence
    }

    /// Whether a reader has waited `patience` for a task that nothing is known of.
    pub(super) fn is_in_doubt(&self, patience: Duration, now: Instant) -> bool {
        !self.is_known && self.followers.iter().any(|follower| now.duration_since(follower.since) >= patience)
    }

    pub(super) fn is_known(&self) -> bool {
        self.is_known
    }

    /// Where a read for the followers begins.
    pub(super) fn read_after(&self) -> EventId {
        self.at.read_after()
    }

    /// Hears a bell.
    pub(super) fn ring(&mut self, bell: Bell, now: Instant) -> Todo {
        self.touched = now;
        self.is_known = true;
        self.heard.rung = self.heard.rung.max(bell.id);
        let is_end = bell.event.as_deref().is_none_or(is_terminal_json);
        let mut todo = Todo { look: is_end && !self.waiting.is_empty(), ..Todo::default() };
        let (last_id, last_seq) = self.at.last();
        if self.followers.is_empty() || bell.id <= last_id {
            return todo;
        }
        match bell.event {
            Some(event) if bell.seq == last_seq + 1 => {
                self.take(&StoredEvent { id: bell.id, seq: bell.seq, event }, &mut todo);
            }
            _ => todo.read = true,
        }
        todo
    }

    /// Takes a page read after [`Watch::read_after`], now or earlier; `is_full`: there may be more.
    pub(super) fn page(&mut self, page: &[StoredEvent], is_full: bool, now: Instant) -> Todo {
        let mut todo = Todo { read: is_full, ..Todo::default() };
        if !page.is_empty() {
            self.touched = now;
            self.is_known = true;
        }
        for stored in page {
            self.heard.rung = self.heard.rung.max(stored.id);
            if self.followers.is_empty() {
                break;
            }
            self.take(stored, &mut todo);
        }
        let has_end = page.last().is_some_and(|stored| is_terminal_json(&stored.event));
        todo.look |= has_end && !self.waiting.is_empty();
        todo.read &= !self.followers.is_empty();
        todo
    }

    /// Notes that the row exists and has not ended.
    pub(super) fn is_alive(&mut self, now: Instant) {
        self.is_known = true;
        self.touched = now;
        self.ended_at = None;
    }

    /// There is no row: ends the readers whose patience is over, and those that wait for an end that nobody knows.
    pub(super) fn is_unknown(&mut self, patience: Duration, now: Instant) {
        self.touched = now;
        for waiting in self.waiting.drain(..) {
            waiting.outbox.push(waiting.ticket, Word::End(End::CursorGone));
        }
        if self.is_known {
            return;
        }
        self.followers.retain(|follower| {
            let is_over = now.duration_since(follower.since) >= patience;
            if is_over {
                follower.outbox.push(follower.ticket, Word::End(End::Unknown));
            }
            !is_over
        });
    }

    /// The row has ended, and the stream, read since, has no end for the readers that are left: ends them from the row.
    ///
    /// Followers in the middle of a run get a grace, counted from the row's end and from the last event, for the end that
    /// is about to be published. Returns how many readers were ended.
    pub(super) fn has_ended(&mut self, row: &TaskRow, now: Instant) -> usize {
        self.is_known = true;
        let since = self.touched.max(*self.ended_at.get_or_insert(now));
        if self.at.last().1 == 0 || now.duration_since(since) >= PUBLISH_GRACE {
            for follower in std::mem::take(&mut self.followers) {
                self.strand(follower, false);
            }
        }
        let ended = std::mem::take(&mut self.waiting);
        for waiting in &ended {
            let word = rebuilt(row, &waiting.standing).map_or(Word::End(End::CursorGone), Word::Rebuilt);
            waiting.outbox.push(waiting.ticket, word);
        }
        ended.len()
    }

    fn take(&mut self, stored: &StoredEvent, todo: &mut Todo) {
        match self.at.take(stored) {
            Step::Old => {}
            Step::Pass(before, frame) => {
                let missed = |follower: &mut Follower| frame.seq > follower.last.1 + 1;
                let stranded: Vec<_> = self.followers.extract_if(.., missed).collect();
                self.followers.retain_mut(|follower| follower.pass(before.as_ref(), &frame, todo));
                todo.passed += 1;
                for follower in stranded {
                    self.strand(follower, true);
                }
                todo.look |= frame.is_terminal && !self.waiting.is_empty();
            }
            // Followers stand behind a read that proved their cursor, so an end means what a hole means.
            Step::Hole(_) | Step::End(_) => {
                for follower in std::mem::take(&mut self.followers) {
                    self.strand(follower, true);
                }
                todo.look |= is_terminal_json(&stored.event) && !self.waiting.is_empty();
            }
        }
    }

    /// Lets a follower wait for the end only; one that would miss events unnoticed loses its cursor.
    fn strand(&mut self, follower: Follower, has_hole: bool) {
        let last = (follower.last.1 > 0).then_some(follower.last);
        let open = if follower.last == self.at.last() { self.at.open() } else { None };
        if has_hole && last.is_some() && open.is_none() {
            follower.outbox.push(follower.ticket, Word::End(End::CursorGone));
            return;
        }
        let standing = Standing { last, open, has_hole, prelude_seen: follower.prelude_seen };
        self.waiting.push(Waiting { ticket: follower.ticket, outbox: follower.outbox, standing });
    }
}

impl Follower {
    /// A reader that is about to join.
    pub(super) fn new(ticket: Ticket, outbox: Arc<Outbox>, since: Instant) -> Self {
        Self { ticket, outbox, since, last: (EventId::default(), 0), prelude_seen: 0 }
    }

    /// Passes the next event on, or skips one that it has; false once the follower is done.
    fn pass(&mut self, before: Option<&Arc<Frame>>, frame: &Arc<Frame>, todo: &mut Todo) -> bool {
        if frame.seq <= self.last.1 {
            return true;
        }
        if let Some(before) = before.filter(|_| self.prelude_seen == 0) {
            self.outbox.push(self.ticket, Word::Event(Arc::clone(before)));
        }
        let is_taken = self.outbox.push(self.ticket, Word::Event(Arc::clone(frame)));
        self.last = (frame.id, frame.seq);
        todo.slow += u64::from(!is_taken);
        is_taken && !frame.is_terminal
    }
}

#[cfg(test)]
mod tests;
