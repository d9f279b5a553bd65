//! How many calls of the last while failed, and how: a ring of slots, so that it costs the same however many calls there are.

use std::time::Duration;

use tokio::time::Instant;

use super::{Fault, RateSettings};

/// Parts of the window; it moves on by one part at a time.
const SLOTS_COUNT: u8 = 12;

#[derive(Debug)]
pub(super) struct Window {
    origin: Instant,
    slots: [Slot; SLOTS_COUNT as usize],
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Which part of time since the origin it counts.
    number: u64,
    calls: u32,
    timeouts: u32,
    errors: u32,
}

impl Window {
    pub(super) fn new(now: Instant) -> Self {
        Self { origin: now, slots: [Slot::default(); SLOTS_COUNT as usize] }
    }

    pub(super) fn success(&mut self, length: Duration, now: Instant) {
        self.slot(length, now).calls += 1;
    }

    pub(super) fn failure(&mut self, fault: Fault, length: Duration, now: Instant) {
        let slot = self.slot(length, now);
        slot.calls += 1;
        match fault {
            Fault::Timeout => slot.timeouts += 1,
            Fault::Error => slot.errors += 1,
        }
    }

    pub(super) fn clear(&mut self) {
        self.slots = [Slot::default(); SLOTS_COUNT as usize];
    }

    /// Whether one of the shares is reached.
    pub(super) fn is_over(&self, rate: &RateSettings, now: Instant) -> bool {
        let number = self.number(rate.window, now);
        let oldest = number.saturating_sub(u64::from(SLOTS_COUNT) - 1);
        let (mut calls, mut timeouts, mut errors) = (0_u64, 0_u64, 0_u64);
        for slot in self.slots.iter().filter(|slot| (oldest..=number).contains(&slot.number)) {
            calls += u64::from(slot.calls);
            timeouts += u64::from(slot.timeouts);
            errors += u64::from(slot.errors);
        }
        let is_reached = |count: u64, percent: u32| percent > 0 && count * 100 >= calls * u64::from(percent);
        calls >= u64::from(rate.calls_min.max(1))
            && (is_reached(timeouts + errors, rate.failures_percent)
                || is_reached(timeouts, rate.timeouts_percent)
                || is_reached(errors, rate.errors_percent))
    }

    fn slot(&mut self, length: Duration, now: Instant) -> &mut Slot {
        let number = self.number(length, now);
        let place = usize::try_from(number % u64::from(SLOTS_COUNT)).unwrap_or_default();
        let slot = &mut self.slots[place];
        if slot.number != number {
            *slot = Slot { number, ..Slot::default() };
        }
        slot
    }

    fn number(&self, length: Duration, now: Instant) -> u64 {
        let part = (length / u32::from(SLOTS_COUNT)).as_nanos().max(1);
        let number = now.saturating_duration_since(self.origin).as_nanos() / part;
        u64::try_from(number).unwrap_or(u64::MAX)
    }
}
