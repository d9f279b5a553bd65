//! The twin of `take.lua` and `settle.lua` in this process: the fallback while Redis is silent, and the model that tests
//! hold the scripts against. Pure: the time is an argument.
//!
//! Law 8 as there: all or none, a refused take writes level and time, debt only by settlement or by one large call. It has
//! no line: of one process only the head asks.

use std::collections::BTreeMap;

use super::day::{HOUR_MS, Period};
use super::limits::as_f64;
use super::{BucketRule, Change, Cost, DayRule, Dimension, Rules};

/// Levels that differ by less are equal.
const CLOSE: f64 = 1e-6;
const WAIT_MS_MAX: f64 = 86_400_000.0;

/// Buckets and day counters of one exit.
#[derive(Clone, Debug, Default)]
pub(crate) struct Local {
    buckets: [Option<Level>; Dimension::ALL.len()],
    /// By dimension: start of a slot → used.
    days: BTreeMap<&'static str, BTreeMap<u64, u64>>,
}

#[derive(Clone, Copy, Debug)]
struct Level {
    level: f64,
    at_ms: u64,
}

/// What became of a take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// Everything is debited; day counters in the slot that begins at `slot_ms`.
    Granted {
        /// Start of the slot, in Redis ms; 0 without day counters.
        slot_ms: u64,
    },
    /// Nothing is debited; it would fit after so long, if nobody else came.
    Wait {
        /// At least 1.
        wait_ms: u64,
        /// The bucket that is shortest; `None`: others are first.
        short: Option<Dimension>,
    },
    /// A day counter is used up for so long.
    Exhausted {
        /// Until its period ends, or the last 24 hours have room.
        wait_ms: u64,
        /// The counter.
        dimension: Dimension,
    },
}

impl Local {
    /// Takes `cost` from everything in `rules`, or nothing.
    pub(crate) fn take(&mut self, rules: &Rules, cost: &Cost, now_ms: u64) -> Judgement {
        let period = Period::of(rules.day_reset, now_ms);
        let slot_ms = slot_ms(period, now_ms);
        let exhausted = rules
            .days
            .iter()
            .map(|rule| (self.day_wait_ms(rule, cost, period, slot_ms, now_ms), rule.dimension))
            // Of equal waits the first counts, as in the script.
            .fold((0, Dimension::Requests), |longest, day| if day.0 > longest.0 { day } else { longest });
        let mut is_granted = exhausted.0 == 0;
        let (mut wait_ms, mut short) = (0.0, None);
        for rule in &rules.buckets {
            let level = self.refill(rule, now_ms);
            let needed = as_f64(cost.of(rule.dimension)).min(rule.burst);
            if level + CLOSE < needed {
                is_granted = false;
                let refilled_ms = ((needed - level) * as_f64(rule.period_ms) / rule.refill).ceil();
                if refilled_ms > wait_ms {
                    (wait_ms, short) = (refilled_ms, Some(rule.dimension));
                }
            }
        }
        if exhausted.0 > 0 {
            return Judgement::Exhausted { wait_ms: exhausted.0, dimension: exhausted.1 };
        }
        if !is_granted {
            return Judgement::Wait { wait_ms: whole_ms(wait_ms.clamp(1.0, WAIT_MS_MAX)), short };
        }
        for rule in &rules.buckets {
            if let Some(bucket) = &mut self.buckets[rule.dimension as usize] {
                bucket.level -= as_f64(cost.of(rule.dimension));
            }
        }
        for rule in &rules.days {
            *self.days.entry(rule.dimension.field()).or_default().entry(slot_ms).or_default() +=
                cost.of(rule.dimension);
        }
        Judgement::Granted { slot_ms: if rules.days.is_empty() { 0 } else { slot_ms } }
    }

    /// Corrects a take of the slot `slot_ms` by what the call really used.
    pub(crate) fn settle(&mut self, rules: &Rules, change: &Change, slot_ms: u64, now_ms: u64) {
        for rule in &rules.buckets {
            let level = match self.buckets[rule.dimension as usize] {
                Some(_) => self.refill(rule, now_ms),
                None => rule.burst,
            };
            let level = (level - signed_f64(change.of(rule.dimension))).min(rule.burst);
            self.buckets[rule.dimension as usize] = Some(Level { level, at_ms: now_ms });
        }
        for rule in &rules.days {
            let slots = self.days.get_mut(rule.dimension.field());
            if let Some(used) = slots.and_then(|slots| slots.get_mut(&slot_ms)) {
                *used = used.saturating_add_signed(change.of(rule.dimension));
            }
        }
    }

    /// Takes over what Redis answered: `levels` and `uses` in the order of the rules, for this process's `share`.
    pub(crate) fn see(&mut self, rules: &Rules, levels: &[i64], uses: &[u64], share: f64, now_ms: u64) {
        for (rule, level) in rules.buckets.iter().zip(levels) {
            self.buckets[rule.dimension as usize] = Some(Level { level: signed_f64(*level) * share, at_ms: now_ms });
        }
        let slot_ms = slot_ms(Period::of(rules.day_reset, now_ms), now_ms);
        for (rule, used) in rules.days.iter().zip(uses) {
            self.days.insert(rule.dimension.field(), BTreeMap::from([(slot_ms, *used)]));
        }
    }

    /// The level of a bucket as it was last written.
    #[cfg(test)]
    pub(crate) fn level(&self, dimension: Dimension) -> Option<f64> {
        self.buckets[dimension as usize].map(|bucket| bucket.level)
    }

    /// What a day counter holds, all slots together.
    #[cfg(test)]
    pub(crate) fn used(&self, dimension: Dimension) -> u64 {
        self.days.get(dimension.field()).map_or(0, |slots| slots.values().sum())
    }

    fn refill(&mut self, rule: &BucketRule, now_ms: u64) -> f64 {
        let bucket = &mut self.buckets[rule.dimension as usize];
        let level = match *bucket {
            Some(Level { level, at_ms }) => {
                // A stamp in the future (the clock went back) counts as now: no credit, no freeze.
                let elapsed_ms = now_ms.saturating_sub(at_ms);
                (level + as_f64(elapsed_ms) * rule.refill / as_f64(rule.period_ms)).min(rule.burst)
            }
            None if rule.starts_full => rule.burst,
            None => 0.0,
        };
        *bucket = Some(Level { level, at_ms: now_ms });
        level
    }

    /// Time until `cost` fits into a day counter; 0: it fits now.
    fn day_wait_ms(&mut self, rule: &DayRule, cost: &Cost, period: Period, slot_ms: u64, now_ms: u64) -> u64 {
        let is_rolling = period == Period::default();
        let slots = self.days.entry(rule.dimension.field()).or_default();
        let oldest = if is_rolling { slot_ms.saturating_sub(24 * HOUR_MS) } else { slot_ms };
        slots.retain(|start, _| *start >= oldest);
        let used: u64 = slots.values().sum();
        let cost = cost.of(rule.dimension).min(rule.limit);
        if used + cost <= rule.limit {
            return 0;
        }
        if !is_rolling {
            return period.to_ms - now_ms;
        }
        let (mut left, mut wait_ms) = (used, 0);
        for (start, count) in slots {
            left -= *count;
            wait_ms = (*start + 25 * HOUR_MS).saturating_sub(now_ms).max(1);
            if left + cost <= rule.limit {
                break;
            }
        }
        wait_ms
    }
}

/// The slot of a day counter in which a take of now is counted.
fn slot_ms(period: Period, now_ms: u64) -> u64 {
    if period == Period::default() { now_ms - now_ms % HOUR_MS } else { period.from_ms }
}

#[expect(clippy::cast_precision_loss, reason = "costs stay below 2^53")]
fn signed_f64(number: i64) -> f64 {
    number as f64
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped to a day by the caller")]
fn whole_ms(wait_ms: f64) -> u64 {
    wait_ms as u64
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use penstock_config::DayReset;

    use super::super::Limits;
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn rules(limits: &Limits) -> Rules {
        Rules::of([limits, &Limits::default(), &Limits::default()])
    }

    fn tokens(tokens: u64) -> Cost {
        Cost { input_tokens: tokens, ..Cost::default() }
    }

    #[test]
    fn all_or_none_is_debited() {
        let rules = rules(&Limits { rpm: 600, tpm: 6_000, ..Limits::default() });
        let mut local = Local::default();
        assert!(matches!(local.take(&rules, &tokens(250), NOW), Judgement::Granted { .. }));
        let Judgement::Wait { wait_ms, short } = local.take(&rules, &tokens(100), NOW) else {
            panic!("300 − 250 < 100")
        };
        assert_eq!(short, Some(Dimension::Tokens));
        // 50 tokens at 5 700 a minute.
        assert_eq!(wait_ms, 527);
        assert_eq!(local.level(Dimension::Requests), Some(29.0), "the refused take cost no request");
        assert!(matches!(local.take(&rules, &tokens(100), NOW + wait_ms), Judgement::Granted { .. }));
    }

    #[test]
    fn a_call_larger_than_the_burst_passes_and_is_repaid_by_refill_alone() {
        let rules = rules(&Limits { tpm: 6_000, ..Limits::default() });
        let mut local = Local::default();
        assert!(matches!(local.take(&rules, &tokens(3_000), NOW), Judgement::Granted { .. }));
        assert_eq!(local.level(Dimension::Tokens), Some(-2_700.0));
        let Judgement::Wait { wait_ms, .. } = local.take(&rules, &tokens(1), NOW) else { panic!("in debt") };
        assert!(wait_ms > 28_000, "{wait_ms}");
    }

    #[test]
    fn a_bucket_that_starts_empty_fills_though_every_take_is_refused() {
        let rules = rules(&Limits { rpm: 60, starts_full: Some(false), ..Limits::default() });
        let mut local = Local::default();
        assert!(matches!(local.take(&rules, &tokens(0), NOW), Judgement::Wait { .. }));
        assert!(matches!(local.take(&rules, &tokens(0), NOW + 2_000), Judgement::Granted { .. }));
    }

    #[test]
    fn settlement_may_go_below_zero_and_never_above_the_burst() {
        let rules = rules(&Limits { tpm: 6_000, ..Limits::default() });
        let mut local = Local::default();
        let taken = tokens(100);
        local.settle(&rules, &Change::to_real(&taken, 1_000, 0), 0, NOW);
        assert_eq!(local.level(Dimension::Tokens), Some(-600.0), "unknown counts as full");
        local.settle(&rules, &Change::to_real(&tokens(50_000), 0, 0), 0, NOW);
        assert_eq!(local.level(Dimension::Tokens), Some(300.0));
    }

    #[test]
    fn a_burst_below_one_request_is_pure_pacing() {
        let rules = rules(&Limits { rpm: 60, burst: Some(Duration::from_millis(100)), ..Limits::default() });
        let mut local = Local::default();
        let (mut now, mut granted) = (NOW, 0);
        while now < NOW + 60_000 {
            match local.take(&rules, &tokens(0), now) {
                Judgement::Granted { .. } => granted += 1,
                Judgement::Wait { wait_ms, .. } => now += wait_ms,
                Judgement::Exhausted { .. } => panic!("no day is limited"),
            }
        }
        assert!((59..=60).contains(&granted), "{granted}");
    }

    #[test]
    fn a_used_up_day_says_until_when() {
        let reset = Some(DayReset::Midnight { offset_minutes: 0 });
        let rules = rules(&Limits { rpd: 2, day_reset: reset, ..Limits::default() });
        let mut local = Local::default();
        for _ in 0..2 {
            assert!(matches!(local.take(&rules, &tokens(0), NOW), Judgement::Granted { .. }));
        }
        let Judgement::Exhausted { wait_ms, dimension } = local.take(&rules, &tokens(0), NOW) else {
            panic!("used up")
        };
        assert_eq!(dimension, Dimension::Requests);
        assert!(matches!(local.take(&rules, &tokens(0), NOW + wait_ms - 1), Judgement::Exhausted { wait_ms: 1, .. }));
        assert!(matches!(local.take(&rules, &tokens(0), NOW + wait_ms), Judgement::Granted { .. }));
    }

    #[test]
    fn no_24_hours_exceed_a_rolling_day() {
        let rules = rules(&Limits { rpd: 10, ..Limits::default() });
        let mut local = Local::default();
        let mut granted = Vec::new();
        for minutes in (0..4 * 24 * 60).step_by(7) {
            let now = NOW + minutes * 60_000;
            if matches!(local.take(&rules, &tokens(0), now), Judgement::Granted { .. }) {
                granted.push(now);
            }
        }
        for at in &granted {
            let inside = granted.iter().filter(|other| (*at..*at + 24 * HOUR_MS).contains(other)).count();
            assert!(inside <= 10, "{inside}");
        }
        assert!(granted.len() >= 30, "{}", granted.len());
    }
}
