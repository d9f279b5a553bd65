//! One model call, streamed into the task's events.

use std::pin::pin;

use penstock_gateway::{CallScope, Gateway, GatewayError, ModelChunk, ModelRequest, Origin};
use penstock_protocol::Event;
use serde_json::json;

use super::{Account, Output};
use crate::claim::{Lease, Stop};

/// The answer of one call, as far as it came.
#[derive(Debug)]
pub(crate) struct Answer {
    /// Id under which its text was streamed.
    pub(crate) message_id: String,
    /// All text.
    pub(crate) text: String,
    /// Where it comes from.
    pub(crate) origin: Origin,
    /// Whether TEXT_MESSAGE_START was sent and TEXT_MESSAGE_END was not.
    is_text_open: bool,
    /// Id of the open reasoning span.
    open_reasoning: Option<String>,
}

/// How a call ended before its whole answer was there.
#[derive(Debug)]
pub(crate) enum Interrupted {
    /// The attempt must stop.
    Stop(Stop),
    /// The call failed.
    Failed(GatewayError),
    /// The answer is longer than `worker.answer_bytes_max`.
    TooLong,
}

/// What the calls of one attempt have in common.
pub(crate) struct Turn<'a> {
    pub(crate) gateway: &'a Gateway,
    pub(crate) scope: CallScope,
    pub(crate) lease: &'a Lease,
    pub(crate) answer_bytes_max: usize,
}

impl Turn<'_> {
    /// Calls the model and streams its answer. `answer` holds what came, whatever the end: the call is dropped, and so
    /// its connection closed, when the attempt must stop.
    pub(crate) async fn call(
        &self,
        request: &ModelRequest,
        output: &mut Output<'_>,
        account: &mut Account,
        answer: &mut Answer,
    ) -> Result<(), Interrupted> {
        let mut stopped = pin!(self.lease.stopped());
        let mut stream = tokio::select! {
            biased;
            why = &mut stopped => return Err(Interrupted::Stop(why)),
            stream = self.gateway.stream(request, &self.scope) => stream.map_err(Interrupted::Failed)?,
        };
        answer.origin = stream.origin();
        match answer.origin {
            Origin::Model => {
                if let Some(switch) = account.served(&stream) {
                    output.push(switch);
                }
            }
            other => output.push(Event::Custom {
                name: "penstock.answer_origin".to_owned(),
                value: json!({ "origin": other.as_str(), "message_id": answer.message_id }),
            }),
        }
        let ended = loop {
            let chunk = tokio::select! {
                biased;
                why = &mut stopped => break Err(Interrupted::Stop(why)),
                chunk = stream.next() => chunk,
                () = output.due() => {
                    output.flush().await.map_err(Interrupted::Stop)?;
                    continue;
                }
            };
            match chunk {
                Some(Ok(ModelChunk::Text(delta))) => {
                    if answer.text.len() + delta.len() > self.answer_bytes_max {
                        break Err(Interrupted::TooLong);
                    }
                    answer.text(delta, output).await.map_err(Interrupted::Stop)?;
                }
                Some(Ok(ModelChunk::Reasoning(delta))) => {
                    answer.reasoning(delta, output).await.map_err(Interrupted::Stop)?;
                }
                // No tool is offered to the model, so a call of one has nobody to answer it. Usage is taken at the end.
                Some(Ok(
                    ModelChunk::ReasoningBlock(_)
                    | ModelChunk::ToolCallStart { .. }
                    | ModelChunk::ToolCallArguments { .. }
                    | ModelChunk::ToolCall(_)
                    | ModelChunk::Usage(_)
                    | ModelChunk::Finish { .. },
                )) => {}
                Some(Err(failed)) => break Err(Interrupted::Failed(GatewayError::Failed(failed))),
                None => break Ok(()),
            }
        };
        if let Some(usage) = stream.usage() {
            account.add(usage);
        }
        if ended.is_ok() {
            answer.close(output);
        }
        ended
    }
}

impl Answer {
    /// An empty answer whose text will be streamed under `message_id`.
    pub(crate) fn new(message_id: String) -> Self {
        Self { message_id, text: String::new(), origin: Origin::Model, is_text_open: false, open_reasoning: None }
    }

    async fn text(&mut self, delta: String, output: &mut Output<'_>) -> Result<(), Stop> {
        self.close_reasoning(output);
        if !self.is_text_open {
            self.is_text_open = true;
            output.push(Event::TextMessageStart { message_id: self.message_id.clone(), role: "assistant".to_owned() });
        }
        self.text.push_str(&delta);
        output.text(&self.message_id, delta).await
    }

    async fn reasoning(&mut self, delta: String, output: &mut Output<'_>) -> Result<(), Stop> {
        let id = match &self.open_reasoning {
            Some(id) => id.clone(),
            None => {
                let id = format!("{}-reasoning", self.message_id);
                output.push(Event::ReasoningStart { message_id: id.clone() });
                output.push(Event::ReasoningMessageStart { message_id: id.clone(), role: "reasoning".to_owned() });
                self.open_reasoning = Some(id.clone());
                id
            }
        };
        output.reasoning(&id, delta).await
    }

    /// Ends whatever is open, so that the run may end or go on.
    pub(crate) fn close(&mut self, output: &mut Output<'_>) {
        self.close_reasoning(output);
        if std::mem::take(&mut self.is_text_open) {
            output.push(Event::TextMessageEnd { message_id: self.message_id.clone() });
        }
    }

    fn close_reasoning(&mut self, output: &mut Output<'_>) {
        if let Some(id) = self.open_reasoning.take() {
            output.push(Event::ReasoningMessageEnd { message_id: id.clone() });
            output.push(Event::ReasoningEnd { message_id: id });
        }
    }
}
