//! An answer as its caller reads it, wherever it comes from: a model, the cache, or the setting for when nobody answers.

use std::collections::VecDeque;

use penstock_protocol::TokenUsage;

use crate::cache::{Kept, Recording};
use crate::error::CallFailed;
use crate::settings::Exit;
use crate::stream::{Fallback, LiveStream};
use crate::tenant::TenantLease;
use crate::{FinishReason, ModelChunk};

/// Provider and model under which a fallback answer is told.
const NOBODY: (&str, &str) = ("penstock", "fallback-answer");

/// An answer, arriving.
pub struct ModelStream {
    source: Source,
    recording: Option<Recording>,
    /// Held until the answer is over.
    lease: Option<TenantLease>,
}

enum Source {
    Live(Box<LiveStream>),
    Kept { exit: Exit, chunks: VecDeque<ModelChunk>, origin: Origin },
}

/// Where an answer comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A model has just given it.
    Model,
    /// A model gave it before, to the same question of the same tenant.
    Cache,
    /// No model answered; it is the caller's own text for that case.
    FallbackAnswer,
}

impl Origin {
    /// The name in events and results.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Cache => "cache",
            Self::FallbackAnswer => "fallback_answer",
        }
    }
}

impl ModelStream {
    pub(crate) fn live(live: LiveStream, recording: Option<Recording>, lease: Option<TenantLease>) -> Self {
        Self { source: Source::Live(Box::new(live)), recording, lease }
    }

    pub(crate) fn kept(kept: Kept) -> Self {
        let Kept { exit, chunks } = kept;
        let chunks = chunks.iter().cloned().collect();
        Self { source: Source::Kept { exit, chunks, origin: Origin::Cache }, recording: None, lease: None }
    }

    pub(crate) fn fallback_answer(text: &str) -> Self {
        let exit = Exit { provider: NOBODY.0.to_owned(), model: NOBODY.1.to_owned() };
        let chunks = [ModelChunk::Text(text.to_owned()), ModelChunk::Finish { reason: FinishReason::Stop }];
        Self {
            source: Source::Kept { exit, chunks: chunks.into(), origin: Origin::FallbackAnswer },
            recording: None,
            lease: None,
        }
    }

    /// Where the answer comes from.
    #[must_use]
    pub fn origin(&self) -> Origin {
        match &self.source {
            Source::Live(_) => Origin::Model,
            Source::Kept { origin, .. } => *origin,
        }
    }

    /// Name of the provider that serves, or served when the answer was kept.
    #[must_use]
    pub fn provider(&self) -> &str {
        match &self.source {
            Source::Live(live) => live.provider(),
            Source::Kept { exit, .. } => &exit.provider,
        }
    }

    /// The vendor's name of the model that serves, or served.
    #[must_use]
    pub fn model(&self) -> &str {
        match &self.source {
            Source::Live(live) => live.model(),
            Source::Kept { exit, .. } => &exit.model,
        }
    }

    /// Provider and model; what the model says for its own eyes belongs there.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match &self.source {
            Source::Live(live) => live.exit(),
            Source::Kept { exit, .. } => exit.clone(),
        }
    }

    /// Whether another hop than the first serves.
    #[must_use]
    pub fn fallback(&self) -> Option<&Fallback> {
        match &self.source {
            Source::Live(live) => live.fallback(),
            Source::Kept { .. } => None,
        }
    }

    /// Attempts sent until one gave its first token; none for an answer that was kept.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        match &self.source {
            Source::Live(live) => live.attempts(),
            Source::Kept { .. } => 0,
        }
    }

    /// What the vendor has counted so far; after a failure, of what was received. An answer that was kept costs nothing.
    #[must_use]
    pub fn usage(&self) -> Option<TokenUsage> {
        match &self.source {
            Source::Live(live) => live.usage(),
            Source::Kept { .. } => None,
        }
    }

    /// The next step of the answer; `None` after its end or its error.
    ///
    /// Cancel-safe: dropped while it waits, nothing is lost.
    ///
    /// # Errors
    /// When the answer broke off. What came before it has been given out and cannot be taken back, so nothing is
    /// retried here.
    pub async fn next(&mut self) -> Option<Result<ModelChunk, CallFailed>> {
        let live = match &mut self.source {
            Source::Live(live) => live,
            Source::Kept { chunks, .. } => return chunks.pop_front().map(Ok),
        };
        let step = live.next().await;
        if let Some(recording) = self.recording.take() {
            self.recording = match &step {
                Some(Ok(chunk)) => recording.take(chunk),
                Some(Err(_)) | None => None,
            };
        }
        if !matches!(&step, Some(Ok(chunk)) if !matches!(chunk, ModelChunk::Finish { .. })) {
            self.lease = None;
        }
        step
    }
}
