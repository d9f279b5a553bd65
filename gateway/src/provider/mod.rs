//! Wire dialects, one folder each: how a request is written and how an answer and an error are read.

pub(crate) mod openai;
