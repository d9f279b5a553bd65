//! Tool calls, put together from the fragments of a stream.
//!
//! Vendors disagree about the fragments: calls keyed by `index` and interleaved, `index` missing or 0 for all, ids
//! missing or repeated, arguments as text in pieces or as one object. All give the same calls here, and the same steps on
//! the way: start (with id and name), pieces of arguments, the whole call. Arguments are the model's own words: they are
//! not checked, and of an answer cut by its length they may be half.

use std::borrow::Cow;
use std::collections::VecDeque;

use crate::{Fields, ModelChunk};

/// Most calls of one answer; further ones are dropped. Vendors stop at 128.
const CALLS_MAX: usize = 128;

/// One tool call that the model asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// Id under which the result is returned to the model; minted here if the vendor gave none.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments as JSON text, as the model wrote them; `{}` if it wrote none.
    pub arguments: String,
    /// What proves the call to its vendor, in the vendor's own members (`thoughtSignature`, `extra_content`).
    pub marks: Fields,
}

/// A piece of a tool call, as a dialect read it. Empty text: not told.
#[derive(Debug, Default)]
pub(crate) struct Piece<'a> {
    pub(crate) index: Option<u32>,
    pub(crate) id: Cow<'a, str>,
    pub(crate) name: Cow<'a, str>,
    pub(crate) arguments: Cow<'a, str>,
    pub(crate) marks: Fields,
}

/// The calls of one answer, growing.
#[derive(Debug, Default)]
pub(crate) struct ToolCalls {
    calls: Vec<Growing>,
}

#[derive(Debug)]
struct Growing {
    index: Option<u32>,
    call: ToolCall,
    /// The vendor gave no id before the name, so that one was minted.
    is_minted: bool,
    /// Whether its start was told.
    is_told: bool,
}

impl ToolCalls {
    /// Adds one piece, to the call that it continues or as a new call, and tells what it brings.
    pub(crate) fn push(&mut self, piece: Piece<'_>, told: &mut VecDeque<ModelChunk>) {
        let position = match self.continued(&piece) {
            Some(position) => position,
            None if self.calls.len() == CALLS_MAX => return,
            None => {
                self.calls.push(Growing {
                    index: piece.index,
                    call: ToolCall::default(),
                    is_minted: false,
                    is_told: false,
                });
                self.calls.len() - 1
            }
        };
        let growing = &mut self.calls[position];
        let call = &mut growing.call;
        if call.id.is_empty() {
            call.id = piece.id.into_owned();
        }
        if call.name.is_empty() {
            call.name = piece.name.into_owned();
        }
        for (name, value) in piece.marks.iter() {
            call.marks.set_raw(name, value.to_owned());
        }
        call.arguments.push_str(&piece.arguments);
        if growing.is_told {
            tell_arguments(position, &piece.arguments, told);
        } else if !growing.call.name.is_empty() {
            growing.tell_start(position, told);
        }
    }

    /// Whether a piece has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether the arguments of every call are whole JSON.
    pub(crate) fn are_whole(&self) -> bool {
        self.calls.iter().all(|growing| growing.call.arguments.is_empty() || is_whole(&growing.call.arguments))
    }

    /// Tells the whole calls, in the order in which they began.
    pub(crate) fn finish(&mut self, told: &mut VecDeque<ModelChunk>) {
        for (position, mut growing) in std::mem::take(&mut self.calls).into_iter().enumerate() {
            if !growing.is_told {
                growing.tell_start(position, told);
            }
            if growing.call.arguments.is_empty() {
                growing.call.arguments.push_str("{}");
                tell_arguments(position, "{}", told);
            }
            told.push_back(ModelChunk::ToolCall(growing.call));
        }
    }

    /// The call that a piece continues: the newest with its index, unless the piece plainly begins another.
    fn continued(&self, piece: &Piece<'_>) -> Option<usize> {
        let (id, name) = (&*piece.id, &*piece.name);
        let position = match piece.index {
            Some(_) => self.calls.iter().rposition(|growing| growing.index == piece.index)?,
            None if !id.is_empty() => return self.calls.iter().rposition(|growing| growing.call.id == id),
            None => self.calls.len().checked_sub(1)?,
        };
        let Growing { call, is_minted, .. } = &self.calls[position];
        let is_another = if !id.is_empty() && !call.id.is_empty() && !is_minted {
            id != call.id
        } else {
            // Without ids, a name marks a beginning once the call before is whole; some repeat the name on each piece.
            !name.is_empty() && !call.name.is_empty() && (name != call.name || is_whole(&call.arguments))
        };
        (!is_another).then_some(position)
    }
}

impl Growing {
    fn tell_start(&mut self, position: usize, told: &mut VecDeque<ModelChunk>) {
        self.is_told = true;
        if self.call.id.is_empty() {
            self.is_minted = true;
            self.call.id = format!("call_{}", uuid::Uuid::new_v4().simple());
        }
        let (id, name) = (self.call.id.clone(), self.call.name.clone());
        told.push_back(ModelChunk::ToolCallStart { index: number(position), id, name });
        tell_arguments(position, &self.call.arguments, told);
    }
}

fn tell_arguments(position: usize, delta: &str, told: &mut VecDeque<ModelChunk>) {
    let index = number(position);
    match told.back_mut() {
        _ if delta.is_empty() => {}
        Some(ModelChunk::ToolCallArguments { index: open, delta: held }) if *open == index => held.push_str(delta),
        _ => told.push_back(ModelChunk::ToolCallArguments { index, delta: delta.to_owned() }),
    }
}

/// At most [`CALLS_MAX`].
fn number(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

fn is_whole(json: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(json).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::openai::WireCall;

    fn piece(json: &str) -> Piece<'_> {
        serde_json::from_str::<WireCall<'_>>(json).unwrap().piece()
    }

    /// The whole calls of fragments, whose steps on the way must say the same.
    fn assemble(fragments: &[&str]) -> Vec<ToolCall> {
        let (mut calls, mut told) = (ToolCalls::default(), VecDeque::new());
        for fragment in fragments {
            calls.push(piece(fragment), &mut told);
        }
        calls.finish(&mut told);
        let (mut grown, mut whole) = (Vec::<ToolCall>::new(), Vec::new());
        for chunk in told {
            match chunk {
                ModelChunk::ToolCallStart { index, id, name } => {
                    assert_eq!(index as usize, grown.len(), "calls start in their order");
                    grown.push(ToolCall { id, name, ..ToolCall::default() });
                }
                ModelChunk::ToolCallArguments { index, delta } => grown[index as usize].arguments.push_str(&delta),
                ModelChunk::ToolCall(call) => whole.push(call),
                other => panic!("{other:?}"),
            }
        }
        let unmarked: Vec<_> = whole.iter().map(|call| ToolCall { marks: Fields::new(), ..call.clone() }).collect();
        assert_eq!(grown, unmarked, "{fragments:?}");
        whole
    }

    /// Two calls, as every shape below must give them.
    fn assert_two(shape: &str, fragments: &[&str]) {
        let calls = assemble(fragments);
        let seen: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
        assert_eq!(seen, [("add", r#"{"a":1}"#), ("now", r#"{"z":"UTC"}"#)], "{shape}");
        assert!(calls.iter().all(|call| !call.id.is_empty()), "{shape}");
        assert_ne!(calls[0].id, calls[1].id, "{shape}");
    }

    #[test]
    fn eight_shapes_give_the_same_calls() {
        assert_two(
            "id and name first, then pieces by index",
            &[
                r#"{"index":0,"id":"x","type":"function","function":{"name":"add","arguments":""}}"#,
                r#"{"index":0,"function":{"arguments":"{\"a\""}}"#,
                r#"{"index":0,"function":{"arguments":":1}"}}"#,
                r#"{"index":1,"id":"y","type":"function","function":{"name":"now","arguments":""}}"#,
                r#"{"index":1,"function":{"arguments":"{\"z\":\"UTC\"}"}}"#,
            ],
        );
        assert_two(
            "interleaved",
            &[
                r#"{"index":0,"id":"x","function":{"name":"add","arguments":"{\"a\""}}"#,
                r#"{"index":1,"id":"y","function":{"name":"now","arguments":"{\"z\""}}"#,
                r#"{"index":0,"function":{"arguments":":1}"}}"#,
                r#"{"index":1,"function":{"arguments":":\"UTC\"}"}}"#,
            ],
        );
        assert_two(
            "no id",
            &[
                r#"{"index":0,"function":{"name":"add","arguments":"{\"a\":1}"}}"#,
                r#"{"index":1,"function":{"name":"now","arguments":"{\"z\":\"UTC\"}"}}"#,
            ],
        );
        assert_two(
            "index 0 for all, with ids",
            &[
                r#"{"index":0,"id":"x","function":{"name":"add","arguments":"{\"a\":1}"}}"#,
                r#"{"index":0,"id":"y","function":{"name":"now","arguments":"{\"z\":\"UTC\"}"}}"#,
            ],
        );
        assert_two(
            "index 0 for all, no ids",
            &[
                r#"{"index":0,"function":{"name":"add","arguments":"{\"a\":1}"}}"#,
                r#"{"index":0,"function":{"name":"now","arguments":"{\"z\":\"UTC\"}"}}"#,
            ],
        );
        assert_two(
            "no index",
            &[
                r#"{"id":"x","function":{"name":"add","arguments":"{\"a\":"}}"#,
                r#"{"function":{"arguments":"1}"}}"#,
                r#"{"id":"y","function":{"name":"now","arguments":"{\"z\":\"UTC\"}"}}"#,
            ],
        );
        assert_two(
            "arguments as an object",
            &[
                r#"{"index":0,"id":"x","function":{"name":"add","arguments":{"a":1}}}"#,
                r#"{"index":0,"id":"y","function":{"name":"now","arguments":{"z":"UTC"}}}"#,
            ],
        );
        assert_two(
            "id and name on every piece, null arguments first",
            &[
                r#"{"index":0,"id":"x","function":{"name":"add","arguments":null}}"#,
                r#"{"index":0,"id":"x","function":{"name":"add","arguments":"{\"a\":"}}"#,
                r#"{"index":0,"id":"x","function":{"name":"add","arguments":"1}"}}"#,
                r#"{"index":1,"id":"y","function":{"name":"now","arguments":"{\"z\":\"UTC\"}"}}"#,
            ],
        );
    }

    #[test]
    fn the_same_tool_twice_without_ids_is_two_calls() {
        let piece = r#"{"index":0,"function":{"name":"now","arguments":"{}"}}"#;
        assert_eq!(assemble(&[piece, piece]).len(), 2);
    }

    #[test]
    fn a_call_without_arguments_has_an_empty_object() {
        assert_eq!(assemble(&[r#"{"index":0,"id":"x","function":{"name":"now"}}"#])[0].arguments, "{}");
    }

    #[test]
    fn half_arguments_are_kept_and_known() {
        let cut = r#"{"index":0,"id":"x","function":{"name":"a","arguments":"{\"a"}}"#;
        let mut calls = ToolCalls::default();
        calls.push(piece(cut), &mut VecDeque::new());
        assert!(!calls.are_whole());
        assert_eq!(assemble(&[cut])[0].arguments, "{\"a");
    }

    #[test]
    fn a_call_starts_as_soon_as_its_name_is_known_and_a_late_id_changes_nothing() {
        let (mut calls, mut told) = (ToolCalls::default(), VecDeque::new());
        calls.push(piece(r#"{"index":0,"function":{"arguments":"{\"a\""}}"#), &mut told);
        assert!(told.is_empty(), "no name yet");
        calls.push(piece(r#"{"index":0,"function":{"name":"f","arguments":":1"}}"#), &mut told);
        let Some(ModelChunk::ToolCallStart { id, .. }) = told.pop_front() else { panic!("{told:?}") };
        assert_eq!(told, [ModelChunk::ToolCallArguments { index: 0, delta: r#"{"a":1"#.into() }]);
        calls.push(piece(r#"{"index":0,"id":"late","function":{"arguments":"}"}}"#), &mut told);
        calls.finish(&mut told);
        let Some(ModelChunk::ToolCall(call)) = told.pop_back() else { panic!("{told:?}") };
        assert_eq!((call.id, call.arguments.as_str()), (id, r#"{"a":1}"#));
    }

    #[test]
    fn marks_of_a_call_are_kept() {
        let calls = assemble(&[
            r#"{"index":0,"id":"x","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"s"}}}"#,
        ]);
        assert_eq!(calls[0].marks.get("extra_content").unwrap().get(), r#"{"google":{"thought_signature":"s"}}"#);
    }

    #[test]
    fn calls_beyond_the_bound_are_dropped() {
        let (mut calls, mut told) = (ToolCalls::default(), VecDeque::new());
        for index in 0..300 {
            calls.push(Piece { index: Some(index), ..Piece::default() }, &mut told);
        }
        calls.finish(&mut told);
        assert_eq!(told.iter().filter(|chunk| matches!(chunk, ModelChunk::ToolCall(_))).count(), CALLS_MAX);
    }
}
