//! One typed call per script, and the keys of one exit.

use redis::{Cmd, FromRedisValue, Value, cmd};

use super::day::Period;
use super::library::LIBRARY;
use super::link::LinkError;
use super::local::Judgement;
use super::{Change, Cost, Dimension, Rules};

/// Keys of one provider and model; one hash tag, so that a script may touch all of them.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    buckets: String,
    line: String,
    day_requests: String,
    day_tokens: String,
}

impl Keys {
    /// The keys of calls that take tokens.
    pub(crate) fn of_calls(deployment: &str, provider: &str, model: &str) -> Self {
        Self::new(deployment, provider, model, ["levels", "line", "day_requests", "day_tokens"])
    }

    /// The keys of calls that pass without: they have buckets of their own where a setting bounds them.
    pub(crate) fn of_passes(deployment: &str, provider: &str, model: &str) -> Self {
        Self::new(deployment, provider, model, ["pass_levels", "pass_line", "pass_day_requests", "pass_day_tokens"])
    }

    fn new(deployment: &str, provider: &str, model: &str, names: [&str; 4]) -> Self {
        let [buckets, line, day_requests, day_tokens] =
            names.map(|name| format!("{{{deployment}:bucket:{provider}/{model}}}:{name}"));
        Self { buckets, line, day_requests, day_tokens }
    }

    fn day(&self, dimension: Dimension) -> &str {
        if dimension == Dimension::Tokens { &self.day_tokens } else { &self.day_requests }
    }
}

/// What a take asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask<'a> {
    /// Of this process; its ticket in the line has this name.
    pub(crate) process: &'a str,
    /// How long the caller has waited already.
    pub(crate) age_ms: u64,
    pub(crate) cost: &'a Cost,
    /// The time by this process's reckoning; it only chooses the day, and Redis refuses a wrong one.
    pub(crate) now_ms: u64,
    /// Time for the script instead of its own; tests only.
    pub(crate) virtual_ms: u64,
}

/// What a take answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// `None`: the day was wrong; ask again with the time of Redis.
    pub(crate) judgement: Option<Judgement>,
    /// Time of Redis.
    pub(crate) now_ms: u64,
    /// Levels in the order of the rules; after them the uses of day counters.
    pub(crate) levels: Vec<i64>,
    pub(crate) uses: Vec<u64>,
}

pub(crate) fn take(keys: &Keys, rules: &Rules, ask: &Ask<'_>) -> Cmd {
    let mut take = call(&LIBRARY.take, 2 + rules.days.len(), &keys.buckets);
    take.arg(&keys.line);
    for rule in &rules.days {
        take.arg(keys.day(rule.dimension));
    }
    take.arg(ask.virtual_ms).arg(ask.process).arg(ask.age_ms).arg(rules.buckets.len());
    for rule in &rules.buckets {
        take.arg(rule.dimension.field()).arg(rule.burst).arg(rule.refill).arg(rule.period_ms);
        take.arg(ask.cost.of(rule.dimension)).arg(u8::from(rule.starts_full));
    }
    let period = Period::of(rules.day_reset, ask.now_ms);
    for rule in &rules.days {
        take.arg(rule.dimension.field()).arg(rule.limit).arg(ask.cost.of(rule.dimension));
        take.arg(period.from_ms).arg(period.to_ms);
    }
    take
}

pub(crate) fn settle(keys: &Keys, rules: &Rules, change: &Change, slot_ms: u64, virtual_ms: u64) -> Cmd {
    let mut settle = call(&LIBRARY.settle, 1 + rules.days.len(), &keys.buckets);
    for rule in &rules.days {
        settle.arg(keys.day(rule.dimension));
    }
    settle.arg(virtual_ms).arg(rules.buckets.len());
    for rule in &rules.buckets {
        settle.arg(rule.dimension.field()).arg(rule.burst).arg(rule.refill).arg(rule.period_ms);
        settle.arg(change.of(rule.dimension)).arg(1);
    }
    for rule in &rules.days {
        settle.arg(slot_ms).arg(change.of(rule.dimension));
    }
    settle
}

/// Removes the ticket of a head that waits no longer.
pub(crate) fn leave(keys: &Keys, process: &str) -> Cmd {
    let mut leave = cmd("HDEL");
    leave.arg(&keys.line).arg(process);
    leave
}

pub(crate) fn take_answer(rules: &Rules, value: Value) -> Result<Answer, LinkError> {
    let bad = || LinkError::Answer("take");
    let Value::Array(parts) = value else { return Err(bad()) };
    let mut parts = parts.into_iter();
    let mut next = || parts.next().ok_or_else(bad);
    let verdict = i64::from_redis_value(next()?).map_err(|_| bad())?;
    let wait_ms = u64::from_redis_value(next()?).map_err(|_| bad())?;
    let why = String::from_redis_value(next()?).map_err(|_| bad())?;
    let now_ms = u64::from_redis_value(next()?).map_err(|_| bad())?;
    let slot_ms = u64::from_redis_value(next()?).map_err(|_| bad())?;
    let short = Dimension::of_field(&why);
    let judgement = match verdict {
        1 => Some(Judgement::Granted { slot_ms }),
        0 => Some(Judgement::Wait { wait_ms, short }),
        -1 => Some(Judgement::Exhausted { wait_ms, dimension: short.ok_or_else(bad)? }),
        -2 => None,
        _ => return Err(bad()),
    };
    let numbers: Vec<i64> = parts.map(i64::from_redis_value).collect::<Result<_, _>>().map_err(|_| bad())?;
    let (levels, uses) = numbers.split_at(numbers.len().min(rules.buckets.len()));
    let uses = uses.iter().map(|used| u64::try_from(*used).unwrap_or(0)).collect();
    Ok(Answer { judgement, now_ms, levels: levels.to_vec(), uses })
}

/// Levels after a settlement.
pub(crate) fn settle_answer(value: Value) -> Result<(u64, Vec<i64>), LinkError> {
    let numbers: Vec<i64> = FromRedisValue::from_redis_value(value).map_err(|_| LinkError::Answer("settle"))?;
    let Some((now_ms, levels)) = numbers.split_first() else { return Err(LinkError::Answer("settle")) };
    Ok((u64::try_from(*now_ms).unwrap_or(0), levels.to_vec()))
}

fn call(function: &str, keys_count: usize, first_key: &str) -> Cmd {
    let mut call = cmd("FCALL");
    call.arg(function).arg(keys_count).arg(first_key);
    call
}
