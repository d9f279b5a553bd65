//! Events of a running attempt: no script, one pipeline of `XADD NOMKSTREAM` and the bell.
//!
//! Law 5: the id is `<attempt>-<n>`, so Redis refuses an attempt that was fenced, and everything after the seal.
//! Law 7: `n` and the dense number are given by the writer when an event is sent, without a gap.

use penstock_protocol::{EventId, TaskKey};
use redis::{Value, cmd, pipe};

use crate::bell::bell_text;
use crate::{Queue, QueueError};

/// Events of one attempt, in order.
#[derive(Clone, Debug)]
pub struct Emission<'a> {
    /// Tenant and id.
    pub key: TaskKey,
    /// The attempt that writes.
    pub attempt: u32,
    /// `n` of the first event, from 2: `start` wrote number 1.
    pub first_n: u64,
    /// Dense number of the first event.
    pub first_seq: u64,
    /// Events as JSON.
    pub events: &'a [String],
}

/// What became of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EmitVerdict {
    /// All are in the stream, by this call or by the same call before, whose answer was lost.
    Written,
    /// Another attempt has the task, or it ended: write nothing more.
    Fenced,
    /// The stream is gone (flush): adopt the task, then emit these events again.
    Gone,
}

impl Queue {
    /// Appends events and rings. May be repeated with the same numbers after an error.
    pub async fn emit(&self, emission: &Emission<'_>) -> Result<EmitVerdict, QueueError> {
        let events = self.shard().events(emission.key);
        let (member, channel) = (emission.key.to_string(), self.shard().bell());
        let mut commands = pipe();
        commands.ignore_errors();
        let numbered = emission.events.iter().zip(emission.first_n..).zip(emission.first_seq..);
        for ((event, n), seq) in numbered {
            let id = EventId { attempt: u64::from(emission.attempt), n };
            commands.cmd("XADD").arg(&events).arg("NOMKSTREAM").arg(id.to_string());
            commands.arg("s").arg(seq).arg("e").arg(event);
            commands.cmd("PUBLISH").arg(&channel).arg(bell_text(&member, id, seq, event));
        }
        let answers = self.commands("emit", &commands).await?;
        let mut is_refused = false;
        for answer in answers.iter().step_by(2) {
            match answer {
                Value::Nil => return Ok(EmitVerdict::Gone),
                Value::ServerError(error) if error.details().is_some_and(is_id_refusal) => is_refused = true,
                Value::ServerError(error) => match QueueError::of("emit", error.clone().into()) {
                    QueueError::MemoryFull(_) => {
                        is_refused = match self.emit_without_memory(emission, &events).await? {
                            0 => false,
                            2 => return Ok(EmitVerdict::Gone),
                            _ => true,
                        };
                        break;
                    }
                    error => return Err(error),
                },
                _ => {}
            }
        }
        if !is_refused {
            return Ok(EmitVerdict::Written);
        }
        // Refused: fenced, or this very event is there since a call whose answer was lost.
        let last_n = emission.first_n + (emission.events.len() as u64).saturating_sub(1);
        match self.last_id(&events).await? {
            None => Ok(EmitVerdict::Gone),
            Some(last) if last.attempt == u64::from(emission.attempt) && last.n >= last_n => Ok(EmitVerdict::Written),
            Some(_) => Ok(EmitVerdict::Fenced),
        }
    }

    /// A running task ends, and says all before it, however full Redis is.
    async fn emit_without_memory(&self, emission: &Emission<'_>, events: &str) -> Result<u8, QueueError> {
        let mut verb = self
            .verb("emit", Some(events))
            .arg(emission.key.to_string())
            .arg(emission.attempt)
            .arg(emission.first_n)
            .arg(emission.first_seq);
        for event in emission.events {
            verb = verb.arg(event);
        }
        self.call(&verb).await
    }

    /// Highest id that a stream ever gave.
    async fn last_id(&self, events: &str) -> Result<Option<EventId>, QueueError> {
        let info = match self.command("xinfo", cmd("XINFO").arg("STREAM").arg(events)).await {
            Err(QueueError::Refused { cause, .. })
                if cause.detail().is_some_and(|text| text.contains("no such key")) =>
            {
                return Ok(None);
            }
            other => other?,
        };
        let fields: Vec<Value> = self.answer("xinfo", info)?;
        for pair in fields.chunks_exact(2) {
            if let [Value::BulkString(name), Value::BulkString(id)] = pair
                && name == b"last-generated-id"
            {
                return Ok(String::from_utf8_lossy(id).parse().ok());
            }
        }
        Err(QueueError::Answer { call: "xinfo", answer: "no last-generated-id".to_owned() })
    }
}

/// Redis refuses an id that is not above the last one, and every id once the largest was given.
fn is_id_refusal(details: &str) -> bool {
    details.contains("equal or smaller") || details.contains("exhausted the last possible ID")
}
