//! The bell: one channel per shard that says which task has a new event, and carries it where it is small.
//!
//! A reader whose cursor is exactly the id before may use the event; any gap is read from the stream.

use penstock_protocol::{EventId, TaskKey};

use crate::subscription::{Signal, Subscription};
use crate::{Queue, QueueError};

/// Larger events are left out of the bell; the scripts know the same number.
const BELL_BYTES_MAX: usize = 4096;

/// One ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bell {
    /// Tenant and id.
    pub key: TaskKey,
    /// Id of the event.
    pub id: EventId,
    /// Its number over the whole stream.
    pub seq: u64,
    /// The event, unless it is large.
    pub event: Option<String>,
}

/// What a subscriber hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BellSignal {
    /// An event was written.
    Bell(Bell),
    /// The subscription was lost and is there again: rings may be missing, so read every watched stream once.
    Reconnected,
}

/// The bell of a shard, on a connection of its own.
pub struct Bells {
    subscription: Subscription,
}

impl std::fmt::Debug for Bells {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bells")
    }
}

impl Queue {
    /// Subscribes to the bell. From its return on no ring is missed without a `Reconnected`.
    pub async fn bells(&self) -> Result<Bells, QueueError> {
        let limit = self.settings().connect_timeout;
        let subscription = Subscription::open(self.client().clone(), self.shard().bell(), limit)
            .await
            .map_err(|cause| QueueError::of("subscribe", cause))?;
        Ok(Bells { subscription })
    }
}

impl Bells {
    /// The next signal. Never ends: a broken connection is made anew. Cancel-safe.
    pub async fn next(&mut self) -> BellSignal {
        loop {
            match self.subscription.next().await {
                Signal::Reconnected => return BellSignal::Reconnected,
                Signal::Message(text) => {
                    if let Some(bell) = parse(&text) {
                        return BellSignal::Bell(bell);
                    }
                    tracing::warn!("a bell was not understood");
                }
            }
        }
    }
}

pub(crate) fn bell_text(member: &str, id: EventId, seq: u64, event: &str) -> String {
    if event.len() <= BELL_BYTES_MAX { format!("{member} {id} {seq} {event}") } else { format!("{member} {id} {seq}") }
}

fn parse(text: &str) -> Option<Bell> {
    let mut parts = text.splitn(4, ' ');
    Some(Bell {
        key: parts.next()?.parse().ok()?,
        id: parts.next()?.parse().ok()?,
        seq: parts.next()?.parse().ok()?,
        event: parts.next().map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use penstock_protocol::{TaskId, TenantNo};

    use super::*;

    #[test]
    fn a_bell_carries_a_small_event_and_names_a_large_one() {
        let key = TaskKey::new(TenantNo(1), TaskId::mint());
        let id = EventId { attempt: 1, n: 3 };
        let small = parse(&bell_text(&key.to_string(), id, 4, r#"{"type":"X","a":"b c"}"#)).unwrap();
        assert_eq!(small, Bell { key, id, seq: 4, event: Some(r#"{"type":"X","a":"b c"}"#.to_owned()) });
        let large = parse(&bell_text(&key.to_string(), id, 4, &"x".repeat(BELL_BYTES_MAX + 1))).unwrap();
        assert_eq!(large.event, None);
        assert!(parse("nonsense").is_none());
    }
}
