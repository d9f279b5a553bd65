//! A model provider that is not one: a real HTTP server that speaks the dialects of OpenAI, Anthropic and Google, behaves as
//! each request asks, and counts what it received and which connections its callers closed.
//!
//! Routes: `POST /v1/chat/completions`, `POST /v1/messages`, `POST /v1beta/models/{model}:streamGenerateContent` (each
//! streaming and not), `GET /v1/models`, `GET /fake/stats`, `GET /fake/calls`, `POST /fake/script`, `POST /fake/reset`.
//!
//! A **behaviour** is a list of items parted by commas or spaces: a preset name, which starts over, or `key=value`.
//! It is put together from these layers, the later ones changing what the earlier set:
//! 1. the model name (`steady`, `first_ms=200,gap_ms=20,chunks=5`, `some-name,status=429`: unknown bare words are only a name),
//! 2. the first rule of the script that matches ([`Script`]),
//! 3. `[[fake: …]]` in the last user message,
//! 4. the header `x-fake-behaviour`.
//!
//! `… then …` gives steps: the n-th call with the same tag (or, without a tag, the same last user message) gets the n-th
//! step, further calls the last one. The *tag* of a call is its header `x-request-tag`, else `x-client-request-id`.
//!
//! | key | meaning |
//! |---|---|
//! | `first_byte_ms` | before the response's head |
//! | `first_ms` | from the request to the first token |
//! | `gap_ms`, `chunks` | between chunks; how many text chunks |
//! | `total_ms` | whole call: sets the gap so that the end comes then |
//! | `chunk_bytes` | least size of a chunk's text |
//! | `reasoning`, `tools` | reasoning chunks before the text; tool calls instead of text, in the shape `indexed`, `interleaved`, `no_id`, `index_0`, `no_index`, `object`, `truncated` |
//! | `usage`, `cached` | `last` (own chunk without choices, if asked for), `finish`, `choice`, `each`, `none`; cached input tokens. Anthropic tells it in its own two places, Google with the finish; `none` and Google's `each` hold there too |
//! | `finish`, `done` | finish reason in OpenAI's words (`none`: no such chunk); `done=0`: no end mark |
//! | `open` | `1`: the connection stays open after the end |
//! | `json` | `1`: a stream request is answered by one JSON object |
//! | `framing`, `space`, `bom`, `blank` | `lf`, `crlf`, `cr`; `space=0`: `data:` without a space; `bom=1`; `blank=0`: no blank line after the last event |
//! | `keepalive_ms` | comments at this interval whenever it waits |
//! | `only` | `comments` or `roles`: nothing else ever comes, at the gap (or 50 ms) |
//! | `stall` | `byte` (never answers), `head` (nothing after the head), or a number: after so many chunks |
//! | `cut`, `eof` | after so many chunks: the connection breaks; the body ends as if all were well |
//! | `cut_bytes` | the connection breaks after so many bytes of body |
//! | `garbage`, `error` | after so many chunks: a frame that is no JSON; an error object |
//! | `status`, `shape`, `code` | answers this status with a body as the dialect or as `openai`, `anthropic`, `google`, `google_array`, `vllm`, `openrouter`, `html`, `empty` writes it, and this error code |
//! | `retry_after`, `retry_after_ms` | these headers with the status |
//!
//! The text answers what was asked, so that tests can check content and history: first `[<n> messages] <last user
//! message>`, then ` word-1`, ` word-2` and so on.

mod answer;
mod behaviour;
mod choose;
mod failure;
mod pace;
mod record;
mod script;
mod server;
mod wire;

pub use answer::expected_text;
pub use behaviour::BehaviourError;
pub use record::{ClosedCall, ReceivedCall, Stats};
pub use script::{Repeat, Rule, Script, ScriptError};
pub use server::FakeProvider;
