//! Where a waiting task stands, told to its readers as comments: `: waiting {"reason":"in_line","position":12,…}`.
//!
//! A comment is no event: AG-UI begins with RUN_STARTED, and nothing comes before it. It is sent when something changed, at
//! most every `events.standing_every_ms`, until the first event comes; and a process asks Redis at most
//! `events.standings_per_second_max` times a second, whoever waits. A reader whose turn does not come is told later.

use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use penstock_protocol::TaskKey;
use serde::Serialize;
use tokio::time::{Instant, Sleep, sleep};

use super::jitter::spread;
use crate::app::App;
use crate::task::{WaitReason, Waiting};

/// How far turns may be given ahead of their time.
const AHEAD_MAX: Duration = Duration::from_millis(100);

/// Turns to ask Redis, evenly spread.
#[derive(Debug)]
pub(super) struct Turns {
    next: Mutex<Instant>,
}

/// One reader's view of where its task stands.
pub(super) struct Standing {
    app: App,
    key: TaskKey,
    ask_at: Pin<Box<Sleep>>,
    told: Option<Waiting>,
}

/// What a comment says.
#[derive(Serialize)]
struct Told {
    reason: WaitReason,
    position: Option<u64>,
    estimated_wait_ms: Option<u64>,
}

impl Turns {
    pub(super) fn new() -> Self {
        Self { next: Mutex::new(Instant::now()) }
    }

    /// Takes a turn, if one is free: `per_second` of them are.
    fn take(&self, per_second: u32) -> bool {
        if per_second == 0 {
            return false;
        }
        let (now, mut next) = (Instant::now(), self.next.lock().unwrap_or_else(PoisonError::into_inner));
        if *next > now + AHEAD_MAX {
            return false;
        }
        *next = (*next).max(now) + Duration::from_secs(1) / per_second;
        true
    }
}

impl Standing {
    pub(super) fn new(app: &App, key: TaskKey) -> Self {
        let every = app.settings.now().events.standing_every;
        Self { app: app.clone(), key, ask_at: Box::pin(sleep(spread(every, 0.1, 0.3))), told: None }
    }

    /// What there is to tell, without the colon that makes it a comment.
    ///
    /// Cancel-safe: dropped while Redis is asked, it asks again after a while.
    pub(super) async fn next(&mut self) -> String {
        loop {
            self.ask_at.as_mut().await;
            let settings = self.app.settings.now();
            self.ask_at.as_mut().reset(Instant::now() + spread(settings.events.standing_every, 0.8, 1.0));
            if !self.app.hub.inner().turns.take(settings.events.standings_per_second_max) {
                continue;
            }
            let Ok(position) = self.app.queue.position(self.key).await else { continue };
            let now = Waiting::at(position);
            // A task that is not known may come yet, and one that starts will say so itself.
            let says_nothing = matches!(now.reason, WaitReason::NotQueuedYet | WaitReason::Starting);
            if !says_nothing && self.told.replace(now) != Some(now) {
                return text(now);
            }
        }
    }
}

fn text(waiting: Waiting) -> String {
    let told = Told { reason: waiting.reason, position: waiting.position, estimated_wait_ms: waiting.wait_ms };
    // Three plain fields are always written.
    format!("waiting {}", serde_json::to_string(&told).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn turns_are_given_at_the_rate_and_not_saved_up() {
        let turns = Turns::new();
        let taken = |count: usize| (0..count).filter(|_| turns.take(100)).count();
        assert!((10..=11).contains(&taken(1000)), "what {AHEAD_MAX:?} hold, and the one of now");
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!((10..=11).contains(&taken(1000)), "an idle second earns nothing");
        assert!(!Turns::new().take(0));
    }
}
