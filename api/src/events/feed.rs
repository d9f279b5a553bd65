//! What one reader reads: a socket or a stream of server-sent events, with one task or many.
//!
//! A subscription enters its watch, reads pages at the reader's own pace, and joins once it has all that was heard of.
//! From then on the hub fills the outbox. Both ways go through [`super::progress`], so the seam shows nowhere.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use penstock_protocol::{EventId, TaskKey};
use penstock_queue::StoredEvent;
use tokio::time::{Instant, sleep};

use super::close::End;
use super::frame::Frame;
use super::hub::{Hub, Inner, PAGE_EVENTS};
use super::outbox::{Outbox, Overrun, Ticket, Word};
use super::progress::{Progress, Step};
use super::watch::{Follower, Heard};

/// Subscriptions of one reader that read a page at once: bounds the memory of a reader with many tasks.
const ENTERING_AT_ONCE: usize = 8;
/// Pause after Redis did not answer; doubled up to the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// One reader's subscriptions.
pub(super) struct Feed {
    hub: Arc<Inner>,
    outbox: Arc<Outbox>,
    subscriptions: HashMap<Ticket, Subscription>,
    entering: VecDeque<Ticket>,
    ready: VecDeque<(Ticket, Delivery)>,
    reading: Option<BoxFuture<'static, Vec<Read>>>,
}

/// What a reader gets.
#[derive(Debug)]
pub(super) enum Delivery {
    /// The next event of a task.
    Event(Arc<Frame>),
    /// The end of a subscription; after `Slow`, of all of them.
    End(End),
}

struct Subscription {
    key: TaskKey,
    since: Instant,
    /// `None` once the hub serves it.
    progress: Option<Progress>,
}

/// A page, with what had been heard when its reading began.
struct Read {
    ticket: Ticket,
    heard: Heard,
    page: Vec<StoredEvent>,
}

impl Feed {
    pub(super) fn new(hub: &Hub) -> Self {
        let hub = Arc::clone(hub.inner());
        Self {
            outbox: Arc::new(Outbox::new(hub.settings.reader_bytes_max)),
            hub,
            subscriptions: HashMap::new(),
            entering: VecDeque::new(),
            ready: VecDeque::new(),
            reading: None,
        }
    }

    /// Subscribes to a task, from its beginning or after a cursor. The same task twice is two subscriptions.
    pub(super) fn subscribe(&mut self, key: TaskKey, after: Option<EventId>) -> Ticket {
        let ticket = self.hub.enter(key);
        let progress = Progress::new(after);
        if progress.is_over() {
            self.ready.push_back((ticket, Delivery::End(End::Done)));
        } else {
            self.entering.push_back(ticket);
        }
        self.subscriptions.insert(ticket, Subscription { key, since: Instant::now(), progress: Some(progress) });
        ticket
    }

    /// Ends a subscription; what waits of it is not delivered.
    pub(super) fn unsubscribe(&mut self, ticket: Ticket) {
        if let Some(subscription) = self.subscriptions.remove(&ticket) {
            self.hub.leave(subscription.key, ticket, subscription.progress.is_none());
        }
    }

    /// The next delivery; waits for ever without a subscription. Cancel-safe.
    ///
    /// A reader that has no room for more waits here too, and hears only that it was too slow.
    pub(super) async fn next(&mut self, has_room: bool) -> (Ticket, Delivery) {
        if !has_room {
            self.outbox.overrun().await;
            return (Ticket::MAX, Delivery::End(End::Slow));
        }
        loop {
            if let Some(delivery) = self.try_next() {
                return delivery;
            }
            self.read_on();
            tokio::select! {
                biased;
                reads = finished(&mut self.reading) => reads.into_iter().for_each(|read| self.page(read)),
                word = self.outbox.take() => self.word(word),
            }
        }
    }

    /// The next delivery, if one is there already.
    pub(super) fn try_next(&mut self) -> Option<(Ticket, Delivery)> {
        loop {
            while let Some((ticket, delivery)) = self.ready.pop_front() {
                if !self.subscriptions.contains_key(&ticket) {
                    continue;
                }
                if matches!(delivery, Delivery::End(_)) {
                    self.unsubscribe(ticket);
                }
                return Some((ticket, delivery));
            }
            match self.outbox.try_take() {
                Ok(None) => return None,
                Ok(Some(word)) => self.word(Ok(word)),
                Err(overrun) => self.word(Err(overrun)),
            }
            if self.ready.is_empty() {
                return None;
            }
        }
    }

    /// Waits until every subscription was read once; what came of it is still to be delivered. Cancel-safe.
    pub(super) async fn opened(&mut self) {
        while !self.entering.is_empty() || self.reading.is_some() {
            if !self.ready.is_empty() {
                return;
            }
            self.read_on();
            let reads = finished(&mut self.reading).await;
            reads.into_iter().for_each(|read| self.page(read));
        }
    }

    /// The end that comes before any event, if one does.
    pub(super) fn ends_at_once(&self) -> Option<End> {
        match self.ready.front() {
            Some((_, Delivery::End(end))) => Some(*end),
            _ => None,
        }
    }

    /// Starts to read pages for those that enter, if none are being read.
    fn read_on(&mut self) {
        if self.reading.is_some() || self.entering.is_empty() {
            return;
        }
        let mut turn = Vec::new();
        while turn.len() < ENTERING_AT_ONCE
            && let Some(ticket) = self.entering.pop_front()
        {
            let Some(subscription) = self.subscriptions.get(&ticket) else { continue };
            let Some(progress) = &subscription.progress else { continue };
            turn.push((ticket, (subscription.key, progress.read_after())));
        }
        if !turn.is_empty() {
            self.reading = Some(Box::pin(read(Arc::clone(&self.hub), turn)));
        }
    }

    /// Takes a page of one that enters.
    fn page(&mut self, read: Read) {
        let Read { ticket, heard, page } = read;
        let Some(subscription) = self.subscriptions.get_mut(&ticket) else { return };
        let (key, since) = (subscription.key, subscription.since);
        let Some(progress) = &mut subscription.progress else { return };
        for stored in &page {
            match progress.take(stored) {
                Step::Old => {}
                Step::Pass(before, frame) => {
                    let is_terminal = frame.is_terminal;
                    self.ready.extend(before.map(|before| (ticket, Delivery::Event(before))));
                    self.ready.push_back((ticket, Delivery::Event(frame)));
                    if is_terminal {
                        self.ready.push_back((ticket, Delivery::End(End::Done)));
                        return;
                    }
                }
                Step::End(end) => {
                    self.ready.push_back((ticket, Delivery::End(end)));
                    return;
                }
                Step::Hole(standing) => {
                    subscription.progress = None;
                    self.hub.wait(key, ticket, Arc::clone(&self.outbox), standing);
                    return;
                }
            }
        }
        if page.len() == PAGE_EVENTS {
            self.entering.push_back(ticket);
            return;
        }
        // The stream does not hold the cursor's event, and nothing behind it: what was between cannot be known.
        if progress.is_unproved() {
            self.ready.push_back((ticket, Delivery::End(End::CursorGone)));
            return;
        }
        let has_nothing = progress.last().1 == 0;
        match self.hub.join(key, Follower::new(ticket, Arc::clone(&self.outbox), since), progress, heard) {
            Ok(()) => {
                subscription.progress = None;
                // It may have ended and its stream be gone; or there may be no such task.
                if has_nothing {
                    self.hub.suspect(key);
                }
            }
            Err(_) => self.entering.push_back(ticket),
        }
    }

    fn word(&mut self, word: Result<(Ticket, Word), Overrun>) {
        match word {
            Ok((ticket, Word::Event(frame))) => {
                let is_terminal = frame.is_terminal;
                self.ready.push_back((ticket, Delivery::Event(frame)));
                if is_terminal {
                    self.ready.push_back((ticket, Delivery::End(End::Done)));
                }
            }
            Ok((ticket, Word::Rebuilt(frames))) => {
                self.ready.extend(frames.iter().map(|frame| (ticket, Delivery::Event(Arc::clone(frame)))));
                self.ready.push_back((ticket, Delivery::End(End::Done)));
            }
            Ok((ticket, Word::End(end))) => self.ready.push_back((ticket, Delivery::End(end))),
            Err(Overrun) => {
                self.ready.clear();
                self.ready.extend(self.subscriptions.keys().map(|ticket| (*ticket, Delivery::End(End::Slow))));
            }
        }
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        for (ticket, subscription) in self.subscriptions.drain() {
            self.hub.leave(subscription.key, ticket, subscription.progress.is_none());
        }
    }
}

/// Reads a page each, again until Redis answers: the reader is pinged meanwhile and may leave at any time.
async fn read(hub: Arc<Inner>, turn: Vec<(Ticket, (TaskKey, EventId))>) -> Vec<Read> {
    let (tickets, cursors): (Vec<_>, Vec<_>) = turn.into_iter().unzip();
    let mut pause = PAUSE_MIN;
    loop {
        let heard = hub.heard(&cursors);
        match hub.queue.read_many_events(&cursors, PAGE_EVENTS).await {
            Ok(pages) => {
                let reads = tickets.into_iter().zip(heard).zip(pages);
                return reads.map(|((ticket, heard), page)| Read { ticket, heard, page }).collect();
            }
            Err(error) => tracing::debug!(%error, "a stream could not be read, trying again"),
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Waits for the read under way, for ever if there is none. Cancel-safe.
async fn finished(reading: &mut Option<BoxFuture<'static, Vec<Read>>>) -> Vec<Read> {
    let reads = match reading {
        Some(read) => read.await,
        None => std::future::pending().await,
    };
    *reading = None;
    reads
}
