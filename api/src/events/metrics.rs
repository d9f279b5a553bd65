//! What the relay counts (law 14).

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use penstock_telemetry::latency_histogram;

use super::close::End;

/// Counters of the relay.
#[derive(Clone, Debug)]
pub(super) struct EventMetrics {
    readers_open: Family<RouteLabels, Gauge>,
    ends: Family<EndLabels, Counter>,
    pub(super) bells: Counter,
    pub(super) relayed: Counter,
    pub(super) gaps_read: Counter,
    pub(super) bells_lost: Counter,
    pub(super) overruns: Counter,
    pub(super) rebuilt: Counter,
    pub(super) watches: Gauge,
    pub(super) turn_seconds: Histogram,
}

/// The way in which a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Way {
    /// One task on a WebSocket.
    Socket,
    /// Many tasks on a WebSocket.
    Many,
    /// Server-sent events.
    Sse,
    /// The AG-UI route.
    Agui,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RouteLabels {
    way: Way,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct EndLabels {
    end: End,
}

impl EncodeLabelValue for Way {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        let text = match self {
            Self::Socket => "socket",
            Self::Many => "many",
            Self::Sse => "sse",
            Self::Agui => "agui",
        };
        EncodeLabelValue::encode(&text, encoder)
    }
}

impl EventMetrics {
    pub(super) fn new() -> Self {
        Self {
            readers_open: Family::default(),
            ends: Family::default(),
            bells: Counter::default(),
            relayed: Counter::default(),
            gaps_read: Counter::default(),
            bells_lost: Counter::default(),
            overruns: Counter::default(),
            rebuilt: Counter::default(),
            watches: Gauge::default(),
            turn_seconds: latency_histogram(),
        }
    }

    pub(super) fn register(&self, to: &mut Registry) {
        let own = self.clone();
        to.register("event_readers_open", "Open sockets and event streams", own.readers_open);
        to.register("event_reader_ends", "Readers that ended, by reason", own.ends);
        to.register("event_watches", "Tasks watched", own.watches);
        to.register("event_bells", "Rings heard of watched tasks", own.bells);
        to.register("events_relayed", "Events passed on, once a task whatever its readers", own.relayed);
        to.register("event_gaps_read", "Streams read because a bell did not fit", own.gaps_read);
        to.register("event_bells_lost", "Times the bell was subscribed anew", own.bells_lost);
        to.register("event_overruns", "Readers that were too slow", own.overruns);
        to.register("event_ends_rebuilt", "Readers ended from the row in MySQL", own.rebuilt);
        to.register("event_bell_turn_seconds", "Time from taking bells to having passed them on", own.turn_seconds);
    }

    pub(super) fn opened(&self, way: Way) {
        self.readers_open.get_or_create(&RouteLabels { way }).inc();
    }

    pub(super) fn closed(&self, way: Way) {
        self.readers_open.get_or_create(&RouteLabels { way }).dec();
    }

    pub(super) fn ended(&self, end: End) {
        self.ends.get_or_create(&EndLabels { end }).inc();
    }
}
