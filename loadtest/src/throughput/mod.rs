//! How many tasks a second the whole system takes to their end, beside a bare floor doing the same for the client.
//!
//! The floor is what the shape costs with nothing in it: a door that adds to a Redis Stream, a consumer group, a
//! publish, a WebSocket. It accepts nothing durably, is fair to nobody and recovers nothing. Both are loaded by the same
//! client in the same run, in turn; the ratio is the figure to quote.

pub mod cpu;
pub mod floor;
pub mod load;
