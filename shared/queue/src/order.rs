//! Words to one worker: so far only that a task it runs was cancelled. A lost word comes with the next beat.

use penstock_protocol::TaskKey;

use crate::subscription::{Signal, Subscription};
use crate::{Queue, QueueError, WorkerId};

/// A word to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Stop this attempt: its caller cancelled the task.
    Cancel {
        /// Tenant and id.
        key: TaskKey,
        /// The attempt.
        attempt: u32,
    },
}

/// What a worker hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OrderSignal {
    /// A word.
    Order(Order),
    /// The subscription was lost and is there again: beat at once, it tells what was missed.
    Reconnected,
}

/// The words to one worker, on a connection of its own.
pub struct Orders {
    subscription: Subscription,
}

impl std::fmt::Debug for Orders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Orders")
    }
}

impl Queue {
    /// Subscribes to the words to `worker`.
    pub async fn orders(&self, worker: &WorkerId) -> Result<Orders, QueueError> {
        let limit = self.settings().connect_timeout;
        let subscription = Subscription::open(self.client().clone(), self.shard().orders(worker), limit)
            .await
            .map_err(|cause| QueueError::of("subscribe", cause))?;
        Ok(Orders { subscription })
    }
}

impl Orders {
    /// The next signal. Never ends. Cancel-safe.
    pub async fn next(&mut self) -> OrderSignal {
        loop {
            match self.subscription.next().await {
                Signal::Reconnected => return OrderSignal::Reconnected,
                Signal::Message(text) => {
                    if let Some(order) = parse(&text) {
                        return OrderSignal::Order(order);
                    }
                }
            }
        }
    }
}

fn parse(text: &str) -> Option<Order> {
    let mut parts = text.strip_prefix("cancel ")?.split(' ');
    Some(Order::Cancel { key: parts.next()?.parse().ok()?, attempt: parts.next()?.parse().ok()? })
}
