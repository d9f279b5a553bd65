//! What a look at an entry comes to: fire, leave fires out, or wait. Pure.

use super::cron::Cron;

/// What is to be done about the fire at the cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// It lies ahead.
    Wait,
    /// It is fired.
    Fire,
    /// It is missed, with those after it: the cursor goes on to this fire; `None` = there is none.
    GoOn(Option<u64>),
}

/// The facts of a look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    /// The fire at the cursor.
    pub(crate) cursor_ms: u64,
    /// The moment.
    pub(crate) now_ms: u64,
    /// It was begun before: then it is no misfire, however late.
    pub(crate) is_begun: bool,
    /// Lateness that is none.
    pub(crate) misfire_after_ms: u64,
    /// Late fires that are made up for, the latest ones.
    pub(crate) misfire_max: usize,
}

/// Decides about the fire at the cursor.
pub(crate) fn plan(cron: &Cron, look: &Look) -> Plan {
    let late_ms = look.now_ms.saturating_sub(look.cursor_ms);
    if look.cursor_ms > look.now_ms {
        return Plan::Wait;
    }
    if look.is_begun || late_ms <= look.misfire_after_ms {
        return Plan::Fire;
    }
    // What is not late goes on as usual, whatever the policy says of what is.
    let punctual_ms = look.now_ms - look.misfire_after_ms;
    let made_up = match look.misfire_max {
        0 => Vec::new(),
        most => cron.latest(look.cursor_ms, punctual_ms - 1, most),
    };
    match made_up.first() {
        Some(first) if *first <= look.cursor_ms => Plan::Fire,
        Some(first) => Plan::GoOn(Some(*first)),
        None => Plan::GoOn(cron.next(punctual_ms - 1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: u64 = 60_000;

    /// Walks an entry that fires each minute from its cursor to the moment; returns the minutes that were fired.
    fn walk(cursor: u64, now: u64, misfire_max: usize) -> Vec<u64> {
        let cron = Cron::parse("* * * * *", "UTC").unwrap();
        let (mut cursor_ms, mut fired) = (cursor * MINUTE, Vec::new());
        loop {
            let look =
                Look { cursor_ms, now_ms: now * MINUTE, is_begun: false, misfire_after_ms: MINUTE / 2, misfire_max };
            match plan(&cron, &look) {
                Plan::Wait => return fired,
                Plan::Fire => {
                    fired.push(cursor_ms / MINUTE);
                    cursor_ms = cron.next(cursor_ms).unwrap();
                }
                Plan::GoOn(next) => {
                    assert!(next.unwrap() > cursor_ms, "it goes on");
                    cursor_ms = next.unwrap();
                }
            }
        }
    }

    #[test]
    fn each_policy_makes_up_for_what_it_says() {
        assert_eq!(walk(100, 100, 0), [100], "punctual");
        assert_eq!(walk(101, 100, 9), [0; 0], "ahead");
        assert_eq!(walk(10, 100, 0), [100], "skip: the late ones are left out");
        assert_eq!(walk(10, 100, 1), [99, 100], "once: the latest of the late ones");
        assert_eq!(walk(10, 100, 3), [97, 98, 99, 100], "all, up to three");
        assert_eq!(walk(97, 100, 50), [97, 98, 99, 100], "all there are");
    }

    #[test]
    fn a_fire_that_was_begun_is_no_misfire() {
        let cron = Cron::parse("* * * * *", "UTC").unwrap();
        let look =
            Look { cursor_ms: MINUTE, now_ms: 60 * MINUTE, is_begun: true, misfire_after_ms: 1000, misfire_max: 0 };
        assert_eq!(plan(&cron, &look), Plan::Fire);
        assert!(matches!(plan(&cron, &Look { is_begun: false, ..look }), Plan::GoOn(_)));
    }
}
