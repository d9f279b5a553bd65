//! The conversation that a model gets: instructions, what was said before in the thread, and the input.

use penstock_config::Worker;
use penstock_gateway::{ChatMessage, Origin};
use penstock_protocol::message::{Content, Message};
use penstock_protocol::{Input, TaskId, TaskSpec, answer};
use penstock_store::{Store, StoreError, TaskRow};
use serde_json::Value;

/// A conversation, oldest message first, as both a client and a model know it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transcript {
    messages: Vec<Message>,
}

impl Transcript {
    /// Builds the conversation of a task.
    ///
    /// A text continues its thread: what ended tasks of the thread said is put before it, the latest of it that fits
    /// the settings' bounds. A list of messages is the conversation itself.
    pub(crate) async fn of(
        row: &TaskRow,
        spec: &TaskSpec,
        store: &Store,
        settings: &Worker,
    ) -> Result<Self, StoreError> {
        let messages = match &spec.input {
            Input::Messages(messages) => messages.clone(),
            Input::Text(text) => {
                let mut messages = Vec::new();
                if !spec.is_new_thread && settings.history_messages_max > 0 {
                    messages = history(row, store, settings).await?;
                }
                messages.push(user_message(row.key.task, text));
                messages
            }
        };
        Ok(Self { messages })
    }

    /// The messages in the model's terms, behind the agent's instructions.
    pub(crate) fn for_model(&self, instructions: &str) -> Vec<ChatMessage> {
        let system = (!instructions.is_empty()).then(|| ChatMessage::system(instructions));
        system.into_iter().chain(self.messages.iter().filter_map(ChatMessage::from_message)).collect()
    }

    /// The messages for MESSAGES_SNAPSHOT.
    pub(crate) fn for_client(&self) -> Vec<Value> {
        self.messages.iter().filter_map(|message| serde_json::to_value(message).ok()).collect()
    }
}

/// The result of a task: the final answer, as stored in its row and sent in RUN_FINISHED.
///
/// An answer that no model gave just now says where it comes from.
pub(crate) fn result(message_id: &str, text: &str, origin: Origin) -> Value {
    let mut result = answer(message_id, text);
    if origin != Origin::Model {
        result["origin"] = origin.as_str().into();
    }
    result
}

fn user_message(task: TaskId, text: &str) -> Message {
    Message::User { id: format!("{task}-input"), content: Content::Text(text.to_owned()) }
}

/// What was said in the thread before `row`, oldest first, bounded in messages and bytes.
async fn history(row: &TaskRow, store: &Store, settings: &Worker) -> Result<Vec<Message>, StoreError> {
    // A task holds at least a question and an answer.
    let tasks_max = settings.history_messages_max.div_ceil(2);
    let tasks = store.thread_before(row.key.tenant, row.thread, row.accepted_ms, tasks_max).await?;
    let mut newest_first = Vec::new();
    let mut bytes_left = settings.history_bytes_max;
    for task in tasks {
        let said = said_in(&task)?;
        let Some(left) = bytes_left.checked_sub(said.iter().map(text_bytes).sum()) else { break };
        bytes_left = left;
        newest_first.extend(said.into_iter().rev());
    }
    newest_first.truncate(usize::try_from(settings.history_messages_max).unwrap_or(usize::MAX));
    newest_first.reverse();
    Ok(newest_first)
}

/// What one ended task added to its thread: the newest of its input, and its answer.
fn said_in(task: &TaskRow) -> Result<Vec<Message>, StoreError> {
    let mut said = match task.spec()?.input {
        Input::Text(text) => vec![user_message(task.key.task, &text)],
        Input::Messages(mut messages) => messages.pop().into_iter().collect(),
    };
    let answer = task.result.as_ref().and_then(|result| {
        let text = result.get("text")?.as_str()?;
        let id = result.get("message_id").and_then(Value::as_str).unwrap_or("answer");
        Some(Message::Assistant { id: id.to_owned(), content: Some(text.to_owned()), tool_calls: Vec::new() })
    });
    said.extend(answer);
    Ok(said)
}

fn text_bytes(message: &Message) -> usize {
    match message {
        Message::Developer { content, .. } | Message::System { content, .. } | Message::Reasoning { content, .. } => {
            content.len()
        }
        Message::User { content, .. } | Message::Tool { content, .. } => match content {
            Content::Text(text) => text.len(),
            Content::Parts(parts) => parts.iter().map(|part| part.to_string().len()).sum(),
        },
        Message::Assistant { content, tool_calls, .. } => {
            content.as_ref().map_or(0, String::len)
                + tool_calls.iter().map(|call| call.to_string().len()).sum::<usize>()
        }
    }
}
