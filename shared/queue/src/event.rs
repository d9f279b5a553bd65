//! Reading the events of tasks. The stream is the only truth; the bell only says that it is worth looking.

use penstock_protocol::{EventId, TaskKey};
use redis::{Value, pipe};

use crate::{Queue, QueueError};

/// One event as stored, without a cursor in its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    /// Its id, the reader's cursor.
    pub id: EventId,
    /// Its number over the whole stream, from 1 without a gap. A stream whose first event is not number 1, or whose
    /// next number does not follow the reader's, has lost its beginning (flush): the reader needs a prelude.
    pub seq: u64,
    /// Event JSON.
    pub event: String,
}

impl Queue {
    /// At most `count` events after `after`, in order; `EventId::default()` reads from the beginning.
    ///
    /// Empty where there is no stream. Never read from the last id: on a sealed stream it is the largest there is.
    pub async fn read_events(
        &self,
        key: TaskKey,
        after: EventId,
        count: usize,
    ) -> Result<Vec<StoredEvent>, QueueError> {
        Ok(self.read_many_events(&[(key, after)], count).await?.pop().unwrap_or_default())
    }

    /// The same for many tasks in one round trip, answered in the order given.
    pub async fn read_many_events(
        &self,
        cursors: &[(TaskKey, EventId)],
        count: usize,
    ) -> Result<Vec<Vec<StoredEvent>>, QueueError> {
        if cursors.is_empty() {
            return Ok(Vec::new());
        }
        let mut commands = pipe();
        for (key, after) in cursors {
            commands.cmd("XRANGE").arg(self.shard().events(*key)).arg(format!("({after}")).arg("+");
            commands.arg("COUNT").arg(count);
        }
        let answers = self.commands("xrange", &commands).await?;
        answers.into_iter().map(|answer| self.stored(answer)).collect()
    }

    fn stored(&self, answer: Value) -> Result<Vec<StoredEvent>, QueueError> {
        let answer = answer.extract_error().map_err(|cause| QueueError::of("xrange", cause))?;
        let entries: Vec<(String, Vec<String>)> = self.answer("xrange", answer)?;
        entries
            .into_iter()
            .map(|(id, mut fields)| {
                let parsed = id.parse().ok().zip(fields.get(1).and_then(|seq| seq.parse().ok()));
                match (parsed, fields.len()) {
                    (Some((id, seq)), 4) => Ok(StoredEvent { id, seq, event: fields.swap_remove(3) }),
                    _ => Err(QueueError::Answer { call: "xrange", answer: format!("entry {id}") }),
                }
            })
            .collect()
    }
}
