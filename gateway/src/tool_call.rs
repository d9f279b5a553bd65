//! Tool calls, put together from the fragments of a stream.
//!
//! Vendors disagree about the fragments: calls keyed by `index` and interleaved, `index` missing or 0 for all, ids
//! missing or repeated, arguments as text in pieces or as one object. All give the same list here. Arguments are the
//! model's own words: they are not checked, and of an answer cut by its length they may be half.

use serde::Deserialize;
use serde_json::value::RawValue;

/// Most calls of one answer; further ones are dropped. Vendors stop at 128.
const CALLS_MAX: usize = 128;

/// One tool call that the model asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolCall {
    /// Id under which the result is returned to the model; minted here if the vendor gave none.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments as JSON text, as the model wrote them; `{}` if it wrote none.
    pub arguments: String,
}

/// A piece of a tool call on the wire.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Fragment<'a> {
    index: Option<u32>,
    id: Option<String>,
    #[serde(borrow)]
    function: Option<Function<'a>>,
}

#[derive(Debug, Default, Deserialize)]
struct Function<'a> {
    name: Option<String>,
    #[serde(borrow)]
    arguments: Option<&'a RawValue>,
}

/// The calls of one answer, growing.
#[derive(Debug, Default)]
pub(crate) struct ToolCalls {
    calls: Vec<Growing>,
}

#[derive(Debug)]
struct Growing {
    index: Option<u32>,
    id: String,
    name: String,
    arguments: String,
}

impl ToolCalls {
    /// Adds one fragment, to the call that it continues or as a new call.
    pub(crate) fn push(&mut self, fragment: Fragment<'_>) {
        let id = fragment.id.unwrap_or_default();
        let function = fragment.function.unwrap_or_default();
        let name = function.name.unwrap_or_default();
        let position = match self.continued(fragment.index, &id, &name) {
            Some(position) => position,
            None if self.calls.len() == CALLS_MAX => return,
            None => {
                let index = fragment.index;
                self.calls.push(Growing { index, id: String::new(), name: String::new(), arguments: String::new() });
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[position];
        if call.id.is_empty() {
            call.id = id;
        }
        if call.name.is_empty() {
            call.name = name;
        }
        if let Some(arguments) = function.arguments {
            push_arguments(&mut call.arguments, arguments.get());
        }
    }

    /// Whether a fragment has arrived.
    pub(crate) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether the arguments of every call are whole JSON.
    pub(crate) fn are_whole(&self) -> bool {
        self.calls.iter().all(|call| call.arguments.is_empty() || is_whole(&call.arguments))
    }

    /// The calls in the order in which they began.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = ToolCall> + use<> {
        std::mem::take(&mut self.calls).into_iter().map(|call| ToolCall {
            id: if call.id.is_empty() { format!("call_{}", uuid::Uuid::new_v4().simple()) } else { call.id },
            name: call.name,
            arguments: if call.arguments.is_empty() { "{}".to_owned() } else { call.arguments },
        })
    }

    /// The call that a fragment continues: the newest with its index, unless the fragment plainly begins another.
    fn continued(&self, index: Option<u32>, id: &str, name: &str) -> Option<usize> {
        let position = match index {
            Some(_) => self.calls.iter().rposition(|call| call.index == index)?,
            None if !id.is_empty() => return self.calls.iter().rposition(|call| call.id == id),
            None => self.calls.len().checked_sub(1)?,
        };
        let call = &self.calls[position];
        let is_another = if !id.is_empty() && !call.id.is_empty() {
            id != call.id
        } else {
            // Without ids, a name marks a beginning once the call before is whole; some repeat the name on each piece.
            !name.is_empty() && !call.name.is_empty() && (name != call.name || is_whole(&call.arguments))
        };
        (!is_another).then_some(position)
    }
}

fn is_whole(json: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(json).is_ok()
}

/// Appends a piece of text; an object (some vendors send one) is taken as it stands.
fn push_arguments(arguments: &mut String, raw: &str) {
    if raw == "null" {
        return;
    }
    match serde_json::from_str::<String>(raw) {
        Ok(piece) => arguments.push_str(&piece),
        Err(_) => arguments.push_str(raw),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assemble(fragments: &[&str]) -> Vec<ToolCall> {
        let mut calls = ToolCalls::default();
        for fragment in fragments {
            calls.push(serde_json::from_str(fragment).unwrap());
        }
        calls.take().collect()
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
        let mut calls = ToolCalls::default();
        calls.push(serde_json::from_str(r#"{"index":0,"id":"x","function":{"name":"a","arguments":"{\"a"}}"#).unwrap());
        assert!(!calls.are_whole());
        assert_eq!(calls.take().next().unwrap().arguments, "{\"a");
    }

    #[test]
    fn calls_beyond_the_bound_are_dropped() {
        let mut calls = ToolCalls::default();
        for index in 0..300 {
            calls.push(Fragment { index: Some(index), ..Fragment::default() });
        }
        assert_eq!(calls.take().count(), CALLS_MAX);
    }
}
