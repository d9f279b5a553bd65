//! Exact answers, kept in this process: the same question of the same tenant to the same chain, asked again, is answered
//! without a call.
//!
//! Law 13: the tenant is part of the key, so nobody is answered from another's questions. Only whole answers are kept, for a
//! time and within a bound of bytes (law 12); the least lately used go first. Who asks must want it
//! ([`CallScope::cache`](crate::CallScope)): the same question need not have the same answer.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use penstock_protocol::TenantNo;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use crate::provider::Dialect;
use crate::settings::{CacheSettings, Exit};
use crate::{ChatMessage, Fields, FinishReason, ModelChunk, ModelRequest};

/// What one entry costs beside its text: keys, lists, allocations.
const ENTRY_BYTES: usize = 512;

/// A question: tenant, chain and everything of the request.
pub(crate) type Question = [u8; 32];

/// The answers of one process.
#[derive(Debug)]
pub(crate) struct AnswerCache {
    held: Mutex<Held>,
}

/// An answer that was given before.
#[derive(Clone, Debug)]
pub(crate) struct Kept {
    /// Who gave it.
    pub(crate) exit: Exit,
    /// Its chunks, as they came.
    pub(crate) chunks: Arc<[ModelChunk]>,
}

#[derive(Debug, Default)]
struct Held {
    answers: HashMap<Question, Entry>,
    /// Questions by their last use.
    by_use: BTreeMap<u64, Question>,
    last_use: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    kept: Kept,
    bytes: usize,
    until: Instant,
    used: u64,
}

/// An answer being read, to be kept when it is whole.
#[derive(Debug)]
pub(crate) struct Recording {
    cache: Arc<AnswerCache>,
    settings: CacheSettings,
    question: Question,
    exit: Exit,
    chunks: Vec<ModelChunk>,
    bytes: usize,
}

/// The key of a request. `None`: it cannot be written, so it is never asked.
pub(crate) fn question(tenant: TenantNo, request: &ModelRequest) -> Option<Question> {
    let exit = Exit { provider: String::new(), model: request.chain.clone() };
    let body = Dialect::Openai.request_body(request, &exit, &Fields::new()).ok()?;
    let mut hash = Sha256::new();
    hash.update(tenant.0.to_be_bytes());
    hash.update(&body);
    // What goes only to who said it is no part of that body, and yet part of the question.
    for message in &request.messages {
        if let ChatMessage::Assistant(said) = message {
            for block in &said.reasoning {
                hash.update(block.text.as_bytes());
                hash.update([0]);
            }
        }
    }
    Some(hash.finalize().into())
}

impl AnswerCache {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { held: Mutex::default() })
    }

    /// The answer to a question, if it is kept and young enough.
    pub(crate) fn get(&self, question: &Question) -> Option<Kept> {
        let mut held = self.held();
        let held = &mut *held;
        let entry = held.answers.get_mut(question)?;
        if entry.until <= Instant::now() {
            held.remove(question);
            return None;
        }
        held.last_use += 1;
        held.by_use.remove(&entry.used);
        entry.used = held.last_use;
        held.by_use.insert(entry.used, *question);
        Some(entry.kept.clone())
    }

    /// Keeps what is about to be answered to a question.
    pub(crate) fn record(self: &Arc<Self>, question: Question, exit: Exit, settings: CacheSettings) -> Recording {
        Recording { cache: Arc::clone(self), settings, question, exit, chunks: Vec::new(), bytes: ENTRY_BYTES }
    }

    fn put(&self, question: Question, kept: Kept, bytes: usize, settings: &CacheSettings) {
        let mut held = self.held();
        held.remove(&question);
        held.last_use += 1;
        let used = held.last_use;
        held.by_use.insert(used, question);
        held.bytes += bytes;
        held.answers.insert(question, Entry { kept, bytes, until: Instant::now() + settings.keep, used });
        while held.bytes > settings.bytes_max {
            let Some(oldest) = held.by_use.first_key_value().map(|(_, question)| *question) else { break };
            held.remove(&oldest);
        }
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    fn remove(&mut self, question: &Question) {
        if let Some(entry) = self.answers.remove(question) {
            self.by_use.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }
}

impl Recording {
    /// Takes over one chunk. `None` when nothing more is to be recorded: the answer is kept, or will not be.
    pub(crate) fn take(mut self, chunk: &ModelChunk) -> Option<Self> {
        self.bytes += chunk_bytes(chunk);
        if self.bytes > self.settings.answer_bytes_max {
            return None;
        }
        match chunk {
            // A kept answer costs its next reader nothing.
            ModelChunk::Usage(_) => return Some(self),
            chunk => self.chunks.push(chunk.clone()),
        }
        match chunk {
            ModelChunk::Finish { reason: FinishReason::Stop | FinishReason::ToolCalls } => {
                let kept = Kept { exit: self.exit, chunks: self.chunks.into() };
                self.cache.put(self.question, kept, self.bytes, &self.settings);
                None
            }
            ModelChunk::Finish { .. } => None,
            _ => Some(self),
        }
    }
}

fn chunk_bytes(chunk: &ModelChunk) -> usize {
    size_of::<ModelChunk>()
        + match chunk {
            ModelChunk::Text(text) | ModelChunk::Reasoning(text) => text.len(),
            ModelChunk::ReasoningBlock(block) => block.text.len() + fields_bytes(&block.marks),
            ModelChunk::ToolCallStart { id, name, .. } => id.len() + name.len(),
            ModelChunk::ToolCallArguments { delta, .. } => delta.len(),
            ModelChunk::ToolCall(call) => {
                call.id.len() + call.name.len() + call.arguments.len() + fields_bytes(&call.marks)
            }
            ModelChunk::Usage(_) | ModelChunk::Finish { .. } => 0,
        }
}

fn fields_bytes(fields: &Fields) -> usize {
    fields.iter().map(|(name, value)| name.len() + value.get().len()).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SETTINGS: CacheSettings =
        CacheSettings { bytes_max: 4 * (ENTRY_BYTES + 400), answer_bytes_max: 4_000, keep: Duration::from_secs(60) };

    fn asked(tenant: u32, chain: &str, text: &str) -> Question {
        let request =
            ModelRequest { chain: chain.into(), messages: vec![ChatMessage::user(text)], ..ModelRequest::default() };
        question(TenantNo(tenant), &request).unwrap()
    }

    fn keep(cache: &Arc<AnswerCache>, question: Question, text: &str, reason: FinishReason) {
        let exit = Exit { provider: "p".into(), model: "m".into() };
        let recording = cache.record(question, exit, SETTINGS);
        let recording = recording.take(&ModelChunk::Text(text.into()));
        assert!(recording.and_then(|recording| recording.take(&ModelChunk::Finish { reason })).is_none());
    }

    #[test]
    fn tenants_chains_and_words_are_questions_of_their_own() {
        let one = asked(1, "a", "hi");
        assert_eq!(one, asked(1, "a", "hi"));
        for other in [asked(2, "a", "hi"), asked(1, "b", "hi"), asked(1, "a", "hi ")] {
            assert_ne!(one, other);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_is_kept_for_its_time() {
        let (cache, question) = (AnswerCache::new(), asked(1, "a", "hi"));
        assert!(cache.get(&question).is_none());
        keep(&cache, question, "yes", FinishReason::Stop);
        let kept = cache.get(&question).unwrap();
        assert_eq!(kept.chunks[0], ModelChunk::Text("yes".into()));
        assert_eq!(kept.exit.model, "m");
        tokio::time::advance(SETTINGS.keep).await;
        assert!(cache.get(&question).is_none());
        assert_eq!(cache.held().bytes, 0);
    }

    #[test]
    fn what_was_cut_is_never_kept_nor_what_is_too_large() {
        let (cache, question) = (AnswerCache::new(), asked(1, "a", "hi"));
        for reason in [FinishReason::Length, FinishReason::ContentFilter, FinishReason::Other("x".into())] {
            keep(&cache, question, "yes", reason);
        }
        keep(&cache, question, &"x".repeat(5_000), FinishReason::Stop);
        assert!(cache.get(&question).is_none());
    }

    #[test]
    fn the_least_lately_used_go_first_and_the_bound_holds() {
        let cache = AnswerCache::new();
        let questions: Vec<_> = (0..20).map(|n| asked(1, "a", &n.to_string())).collect();
        keep(&cache, questions[0], "first", FinishReason::Stop);
        for question in &questions[1..] {
            keep(&cache, *question, "more", FinishReason::Stop);
            assert!(cache.get(&questions[0]).is_some(), "used all the time");
            assert!(cache.held().bytes <= SETTINGS.bytes_max);
        }
        assert!(cache.get(&questions[1]).is_none() && cache.get(&questions[19]).is_some());
        let held = cache.held();
        assert_eq!(held.answers.len(), held.by_use.len());
    }
}
