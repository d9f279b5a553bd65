//! The queue in Redis: key layout, one Lua verb a file (`lua/`), and one typed call per verb.
//!
//! MySQL keeps the truth. Redis orders, leases and publishes it, and can be rebuilt from it at any moment:
//! [`Queue::census`] tells when, [`Queue::wipe`] and [`Queue::open`] frame the rebuild. Every verb may be repeated, at
//! once or much later, without harm.
//!
//! Who calls what: the door `admit`, `enqueue`, `release`, `cancel`; the worker [`ReadyReader`], `start`, `raise`,
//! `emit`, `beat`, `adopt`, `finish`, `retry`, `pause`; recovery `lost`, `reap`, `close`, `tick`, `census`, `wipe`,
//! `apply`, `open`, `audit`; readers of events [`Queue::read_events`] and [`Bells`].

mod admission;
mod attempt;
mod audit;
mod bell;
mod book;
mod cancel;
mod emit;
mod enqueue;
mod error;
mod event;
mod field;
#[cfg(feature = "fixture")]
pub mod fixture;
mod gauge;
mod gone;
mod known;
mod lease;
mod library;
mod link;
mod order;
mod queue;
mod ready;
mod recovery;
mod server;
mod settings;
mod shard;
mod state;
mod streams;
mod subscription;
mod terms;
mod ticket;

pub use admission::{AdmitLimits, AdmitRequest, AdmitVerdict, Admitted, Later, Reason, Rejected, Start};
pub use attempt::{AttemptVerdict, Finish, Retry, RetryCause, StartVerdict};
pub use audit::{AuditFinding, AuditPage, AuditPart};
pub use bell::{Bell, BellSignal, Bells};
pub use book::{BookEntry, BookPage};
pub use cancel::CancelVerdict;
pub use emit::{Emission, EmitVerdict};
pub use enqueue::{EnqueueVerdict, QueuedTask};
pub use error::{ConnectError, QueueError};
pub use event::StoredEvent;
pub use gauge::{Gauges, Obstacle, Position, Standing};
pub use gone::Gone;
pub use lease::{Adoption, Beat, LeaseState};
#[doc(hidden)]
pub use library::{Library, VERBS, library_source};
pub use order::{Order, OrderSignal, Orders};
pub use queue::Queue;
pub use ready::{ReadyEntry, ReadyReader};
pub use recovery::{BookId, Census, CensusState, Fate, LostTask, ReapVerdict, RebuildToken};
pub use server::ServerState;
pub use settings::QueueSettings;
#[doc(hidden)]
pub use settings::VirtualClock;
pub use shard::{Shard, ShardError, WorkerId};
pub use state::State;
pub use streams::StreamPage;
pub use terms::{TenantTerms, Terms};
