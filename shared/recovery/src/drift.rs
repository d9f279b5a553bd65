//! What rows and queue disagreed on, by kind, with a few examples of each.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue};

/// Examples kept of one kind; the count goes on.
const EXAMPLES_MAX: usize = 10;

/// A kind of difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, EncodeLabelValue)]
pub enum DriftKind {
    /// A row that has not ended, and no record in the queue.
    RowWithoutRecord,
    /// A live record whose task has no row.
    RecordWithoutRow,
    /// A live record whose row has ended.
    RecordOfEndedRow,
    /// A counter that is not the number of what it counts.
    Counter,
    /// A thread whose turn nobody live has.
    Turn,
    /// An event stream without an end whose row has one.
    Stream,
}

impl DriftKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::RowWithoutRecord,
        Self::RecordWithoutRow,
        Self::RecordOfEndedRow,
        Self::Counter,
        Self::Turn,
        Self::Stream,
    ];

    /// What it is called to an operator.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::RowWithoutRecord => "rows that the queue does not know",
            Self::RecordWithoutRow => "records without a row",
            Self::RecordOfEndedRow => "live records of ended rows",
            Self::Counter => "wrong counters",
            Self::Turn => "threads that stand still",
            Self::Stream => "event streams without their end",
        }
    }
}

/// Label of metrics by kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(crate) struct DriftLabels {
    pub(crate) kind: DriftKind,
}

/// What one comparison found.
#[derive(Clone, Debug, Default)]
pub struct Drift {
    kinds: BTreeMap<DriftKind, Found>,
}

/// What was found of one kind.
#[derive(Clone, Debug, Default)]
pub struct Found {
    /// Differences.
    pub count: u64,
    /// Of these, how many were mended.
    pub mended: u64,
    /// The first of them, in words.
    pub examples: Vec<String>,
}

impl Drift {
    /// Notes a difference that stood.
    pub(crate) fn note(&mut self, kind: DriftKind, is_mended: bool, what: impl fmt::Display) {
        let found = self.kinds.entry(kind).or_default();
        found.count += 1;
        found.mended += u64::from(is_mended);
        if found.examples.len() < EXAMPLES_MAX {
            found.examples.push(what.to_string());
        }
    }

    /// What was found of a kind.
    #[must_use]
    pub fn of(&self, kind: DriftKind) -> Found {
        self.kinds.get(&kind).cloned().unwrap_or_default()
    }

    /// All differences.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.kinds.values().map(|found| found.count).sum()
    }

    /// Differences that still stand.
    #[must_use]
    pub fn left(&self) -> u64 {
        self.kinds.values().map(|found| found.count - found.mended).sum()
    }
}
