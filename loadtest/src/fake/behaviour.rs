//! One behaviour, parsed from its text. The grammar is described at the module above.

use std::time::Duration;

/// How one call is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Behaviour {
    pub(super) first_byte: Duration,
    pub(super) first: Duration,
    pub(super) gap: Duration,
    pub(super) chunks: u32,
    pub(super) total: Option<Duration>,
    pub(super) chunk_bytes: usize,
    pub(super) reasoning: u32,
    pub(super) tools: Option<ToolShape>,
    pub(super) usage: UsageAt,
    pub(super) cached_tokens: Option<u64>,
    pub(super) finish: Option<String>,
    pub(super) has_done: bool,
    pub(super) stays_open: bool,
    pub(super) is_json: bool,
    pub(super) line_end: &'static str,
    pub(super) has_space: bool,
    pub(super) has_bom: bool,
    pub(super) has_last_blank: bool,
    pub(super) keep_alive: Option<Duration>,
    pub(super) only: Option<Only>,
    pub(super) stall: Option<Stall>,
    pub(super) cut_chunks: Option<u32>,
    pub(super) cut_bytes: Option<usize>,
    pub(super) eof_chunks: Option<u32>,
    pub(super) garbage_chunks: Option<u32>,
    pub(super) error_chunks: Option<u32>,
    pub(super) status: Option<u16>,
    /// None: the dialect's own.
    pub(super) shape: Option<ErrorShape>,
    pub(super) code: Option<String>,
    pub(super) retry_after: Option<String>,
    pub(super) retry_after_ms: Option<String>,
}

/// How tool calls come over the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ToolShape {
    Indexed,
    Interleaved,
    NoId,
    Index0,
    NoIndex,
    Object,
    Truncated,
}

/// Where usage stands in a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsageAt {
    Last,
    Finish,
    Choice,
    Each,
    None,
}

/// What comes instead of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Only {
    Comments,
    Roles,
}

/// Where a call stops for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stall {
    Byte,
    Head,
    Chunks(u32),
}

/// Whose way of writing an error body is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ErrorShape {
    Openai,
    Anthropic,
    Google,
    GoogleArray,
    Vllm,
    Openrouter,
    Html,
    Empty,
}

/// An item that is no part of the grammar.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{item}` is not a preset, and not a key with a value that it takes")]
pub struct BehaviourError {
    /// The item.
    pub item: String,
}

/// The presets: name and text.
pub(super) const PRESETS: [(&str, &str); 4] = [
    ("instant", "chunks=4"),
    ("steady", "first_ms=50,gap_ms=20,chunks=20"),
    ("slow-3s", "chunks=30,total_ms=3000"),
    ("slow-30s", "chunks=60,total_ms=30000"),
];

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            first_byte: Duration::ZERO,
            first: Duration::ZERO,
            gap: Duration::ZERO,
            chunks: 4,
            total: None,
            chunk_bytes: 0,
            reasoning: 0,
            tools: None,
            usage: UsageAt::Last,
            cached_tokens: None,
            finish: None,
            has_done: true,
            stays_open: false,
            is_json: false,
            line_end: "\n",
            has_space: true,
            has_bom: false,
            has_last_blank: true,
            keep_alive: None,
            only: None,
            stall: None,
            cut_chunks: None,
            cut_bytes: None,
            eof_chunks: None,
            garbage_chunks: None,
            error_chunks: None,
            status: None,
            shape: None,
            code: None,
            retry_after: None,
            retry_after_ms: None,
        }
    }
}

impl Behaviour {
    /// Changes the behaviour by each item of `text`; fails at an item that is not of the grammar.
    pub(super) fn apply(&mut self, text: &str) -> Result<(), BehaviourError> {
        items(text).try_for_each(|item| self.apply_item(item))
    }

    /// Like [`Behaviour::apply`] for a model name, in which bare words may be anything.
    pub(super) fn apply_model(&mut self, model: &str) -> Result<(), BehaviourError> {
        items(model).try_for_each(|item| match self.apply_item(item) {
            Err(_) if !item.contains('=') => Ok(()),
            result => result,
        })
    }

    /// Time between two of `pieces` chunks.
    pub(super) fn gap_of_chunks(&self, pieces: u32) -> Duration {
        match self.total {
            Some(total) if pieces > 0 => total.saturating_sub(self.first) / pieces,
            _ => self.gap,
        }
    }

    fn apply_item(&mut self, item: &str) -> Result<(), BehaviourError> {
        let applied = match item.split_once('=') {
            Some((key, value)) => self.set(key, value),
            None => {
                let preset = PRESETS.iter().find(|(name, _)| *name == item);
                preset.map(|(_, text)| {
                    *self = Self::default();
                    items(text).for_each(|item| drop(self.apply_item(item)));
                })
            }
        };
        applied.ok_or_else(|| BehaviourError { item: item.to_owned() })
    }

    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "first_byte_ms" => self.first_byte = ms(value)?,
            "first_ms" => self.first = ms(value)?,
            "gap_ms" => self.gap = ms(value)?,
            "total_ms" => self.total = Some(ms(value)?),
            "keepalive_ms" => self.keep_alive = Some(ms(value)?),
            "chunks" => self.chunks = value.parse().ok()?,
            "chunk_bytes" => self.chunk_bytes = value.parse().ok().filter(|bytes| *bytes <= 1 << 20)?,
            "reasoning" => self.reasoning = value.parse().ok()?,
            "tools" => self.tools = Some(named(value, &TOOL_SHAPES)?),
            "usage" => self.usage = named(value, &USAGES)?,
            "cached" => self.cached_tokens = Some(value.parse().ok()?),
            "finish" => self.finish = Some(value.to_owned()),
            "done" => self.has_done = flag(value)?,
            "open" => self.stays_open = flag(value)?,
            "json" => self.is_json = flag(value)?,
            "framing" => self.line_end = named(value, &[("lf", "\n"), ("crlf", "\r\n"), ("cr", "\r")])?,
            "space" => self.has_space = flag(value)?,
            "bom" => self.has_bom = flag(value)?,
            "blank" => self.has_last_blank = flag(value)?,
            "only" => self.only = Some(named(value, &[("comments", Only::Comments), ("roles", Only::Roles)])?),
            "stall" => {
                let known = named(value, &[("byte", Stall::Byte), ("head", Stall::Head)]);
                self.stall = Some(known.or_else(|| value.parse().ok().map(Stall::Chunks))?);
            }
            "cut" => self.cut_chunks = Some(value.parse().ok()?),
            "cut_bytes" => self.cut_bytes = Some(value.parse().ok()?),
            "eof" => self.eof_chunks = Some(value.parse().ok()?),
            "garbage" => self.garbage_chunks = Some(value.parse().ok()?),
            "error" => self.error_chunks = Some(value.parse().ok()?),
            "status" => self.status = Some(value.parse().ok().filter(|status| (200..600).contains(status))?),
            "shape" => self.shape = Some(named(value, &ERROR_SHAPES)?),
            "code" => self.code = Some(value.to_owned()),
            "retry_after" => self.retry_after = Some(value.to_owned()),
            "retry_after_ms" => self.retry_after_ms = Some(value.to_owned()),
            _ => return None,
        }
        Some(())
    }
}

const TOOL_SHAPES: [(&str, ToolShape); 7] = [
    ("indexed", ToolShape::Indexed),
    ("interleaved", ToolShape::Interleaved),
    ("no_id", ToolShape::NoId),
    ("index_0", ToolShape::Index0),
    ("no_index", ToolShape::NoIndex),
    ("object", ToolShape::Object),
    ("truncated", ToolShape::Truncated),
];

const USAGES: [(&str, UsageAt); 5] = [
    ("last", UsageAt::Last),
    ("finish", UsageAt::Finish),
    ("choice", UsageAt::Choice),
    ("each", UsageAt::Each),
    ("none", UsageAt::None),
];

const ERROR_SHAPES: [(&str, ErrorShape); 8] = [
    ("openai", ErrorShape::Openai),
    ("anthropic", ErrorShape::Anthropic),
    ("google", ErrorShape::Google),
    ("google_array", ErrorShape::GoogleArray),
    ("vllm", ErrorShape::Vllm),
    ("openrouter", ErrorShape::Openrouter),
    ("html", ErrorShape::Html),
    ("empty", ErrorShape::Empty),
];

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c == ',' || c.is_whitespace()).filter(|item| !item.is_empty())
}

/// At most a day, so that no sum of times overflows.
fn ms(value: &str) -> Option<Duration> {
    value.parse().ok().filter(|ms| *ms <= 86_400_000).map(Duration::from_millis)
}

fn flag(value: &str) -> Option<bool> {
    named(value, &[("0", false), ("1", true)])
}

fn named<T: Copy>(value: &str, names: &[(&str, T)]) -> Option<T> {
    names.iter().find(|(name, _)| *name == value).map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Behaviour, BehaviourError> {
        let mut behaviour = Behaviour::default();
        behaviour.apply(text).map(|()| behaviour)
    }

    #[test]
    fn items_are_parted_by_commas_or_spaces() {
        let behaviour = parsed("first_ms=200, gap_ms=20 chunks=5").unwrap();
        assert_eq!(behaviour.first, Duration::from_millis(200));
        assert_eq!((behaviour.gap, behaviour.chunks), (Duration::from_millis(20), 5));
    }

    #[test]
    fn a_preset_starts_over_and_is_changed_by_what_follows() {
        let behaviour = parsed("status=500,slow-3s,chunks=3").unwrap();
        assert_eq!((behaviour.status, behaviour.chunks), (None, 3));
        assert_eq!(behaviour.gap_of_chunks(3), Duration::from_secs(1));
    }

    #[test]
    fn every_preset_is_of_the_grammar() {
        for (name, text) in PRESETS {
            assert_eq!(parsed(name), parsed(text));
        }
    }

    #[test]
    fn an_unknown_item_is_refused_but_a_model_may_have_a_name() {
        for text in ["instnat", "chunks=many", "speed=9", "status=99", "framing=lfcr"] {
            assert_eq!(parsed(text), Err(BehaviourError { item: text.into() }));
        }
        let mut behaviour = Behaviour::default();
        behaviour.apply_model("some-model,chunks=2").unwrap();
        assert_eq!(behaviour.chunks, 2);
        assert!(behaviour.apply_model("some-model,chunk=2").is_err());
    }
}
