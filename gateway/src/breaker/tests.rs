use proptest::prelude::*;

use super::*;

const ERROR: Report = Report::Failure(Fault::Error);
const TIMEOUT: Report = Report::Failure(Fault::Timeout);

/// A breaker and its clock.
struct Bench {
    breaker: Breaker,
    now: Instant,
}

impl Bench {
    fn new(settings: BreakerSettings) -> Self {
        let now = Instant::now();
        Self { breaker: Breaker::new(settings, now), now }
    }

    fn wait(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }

    fn acquire(&mut self) -> Permit {
        self.breaker.acquire(self.now).unwrap()
    }

    fn finish(&mut self, permit: Permit, report: Report) {
        self.breaker.finish(permit, report, self.now);
    }

    fn call(&mut self, report: Report) {
        let permit = self.acquire();
        self.finish(permit, report);
    }

    fn calls(&mut self, count: u32, report: Report) {
        (0..count).for_each(|_| self.call(report));
    }

    fn state(&mut self) -> BreakerState {
        self.breaker.snapshot(self.now).state
    }

    /// Seconds until it is due.
    fn refused_s(&mut self) -> u64 {
        self.breaker.acquire(self.now).unwrap_err().until.duration_since(self.now).as_secs()
    }

    /// Tripped by failures in a row, and just due.
    fn due() -> Self {
        let mut bench = Self::new(BreakerSettings::default());
        bench.calls(5, ERROR);
        bench.wait(30);
        bench
    }
}

#[test]
fn the_fifth_failure_in_a_row_trips_it_and_not_the_fourth() {
    let mut bench = Bench::new(BreakerSettings::default());
    bench.calls(4, ERROR);
    assert_eq!(bench.state(), BreakerState::Closed);
    bench.call(Report::Success);
    bench.calls(4, ERROR);
    assert_eq!(bench.state(), BreakerState::Closed, "a success ended the run");
    bench.call(TIMEOUT);
    assert_eq!((bench.state(), bench.refused_s()), (BreakerState::Tripped, 30));
}

#[test]
fn neutral_reports_never_move_it() {
    let mut bench = Bench::new(BreakerSettings::default());
    bench.calls(4, ERROR);
    bench.calls(1_000, Report::Neutral);
    assert_eq!((bench.state(), bench.breaker.snapshot(bench.now).run_count), (BreakerState::Closed, 4));
    bench.call(ERROR);
    assert_eq!(bench.state(), BreakerState::Tripped, "nor do they end a run");
}

#[test]
fn a_call_that_began_before_the_runs_first_failure_does_not_end_the_run() {
    let mut bench = Bench::new(BreakerSettings::default());
    let old: Vec<_> = (0..100).map(|_| bench.acquire()).collect();
    bench.call(ERROR);
    for permit in old {
        bench.finish(permit, Report::Success);
    }
    bench.calls(3, ERROR);
    assert_eq!(bench.state(), BreakerState::Closed);
    bench.call(ERROR);
    assert_eq!(bench.state(), BreakerState::Tripped, "old streams that end well hide no outage");
}

#[test]
fn failures_of_calls_under_way_when_it_tripped_are_stale() {
    let mut bench = Bench::new(BreakerSettings::default());
    let old: Vec<_> = (0..20).map(|_| bench.acquire()).collect();
    bench.calls(5, ERROR);
    bench.wait(29);
    for permit in old {
        assert!(!bench.breaker.still(&permit, bench.now), "asked again before the send, it is not to be sent");
        bench.finish(permit, ERROR);
    }
    assert_eq!(bench.refused_s(), 1, "the trip is not prolonged");
}

#[test]
fn a_due_breaker_lets_exactly_one_undecided_probe_pass() {
    let mut bench = Bench::due();
    let probe = bench.acquire();
    for _ in 0..10 {
        assert_eq!(bench.refused_s(), 0, "the probe may decide at any moment");
    }
    bench.breaker.first_token(&probe);
    assert_eq!(bench.state(), BreakerState::OnTrial);
    let _others: Vec<_> = (0..10).map(|_| bench.acquire()).collect();
}

#[test]
fn a_probe_that_says_nothing_frees_its_place_at_once() {
    let mut bench = Bench::due();
    for _ in 0..3 {
        bench.call(Report::Neutral);
        assert_eq!(bench.state(), BreakerState::HalfOpen);
    }
    let probe = bench.acquire();
    bench.finish(probe, ERROR);
    assert_eq!(bench.state(), BreakerState::Tripped);
}

#[test]
fn an_old_neutral_report_does_not_free_a_newer_probes_place() {
    let mut bench = Bench::new(BreakerSettings::default());
    let old = bench.acquire();
    bench.calls(5, ERROR);
    bench.wait(30);
    let _probe = bench.acquire();
    bench.finish(old, Report::Neutral);
    assert!(bench.breaker.acquire(bench.now).is_err());
}

#[test]
fn failed_probes_double_the_cool_down_up_to_its_bound_and_a_clean_end_resets_it() {
    let mut bench = Bench::due();
    for seconds in [60, 120, 240, 480, 480] {
        bench.call(ERROR);
        assert_eq!(bench.refused_s(), seconds);
        bench.wait(seconds);
    }
    let probe = bench.acquire();
    bench.breaker.first_token(&probe);
    bench.finish(probe, Report::Success);
    assert_eq!(bench.state(), BreakerState::Closed);
    bench.calls(5, ERROR);
    assert_eq!(bench.refused_s(), 30);
}

#[test]
fn on_trial_one_failure_trips_it_again_for_longer() {
    for is_own in [true, false] {
        let mut bench = Bench::due();
        let probe = bench.acquire();
        bench.breaker.first_token(&probe);
        let failing = if is_own { probe } else { bench.acquire() };
        bench.finish(failing, ERROR);
        assert_eq!((bench.state(), bench.refused_s()), (BreakerState::Tripped, 60), "own: {is_own}");
    }
}

#[test]
fn a_probe_that_is_decided_but_not_the_last_needed_still_trips_it_when_it_breaks() {
    let mut bench = Bench::new(BreakerSettings { successes_to_close: 3, ..BreakerSettings::default() });
    bench.calls(5, ERROR);
    bench.wait(30);
    let probe = bench.acquire();
    bench.breaker.first_token(&probe);
    bench.breaker.first_token(&probe);
    assert_eq!(bench.state(), BreakerState::HalfOpen, "one first token counts once");
    let second = bench.acquire();
    bench.finish(second, Report::Success);
    bench.finish(probe, ERROR);
    assert_eq!((bench.state(), bench.refused_s()), (BreakerState::Tripped, 60));
}

#[test]
fn rates_are_judged_on_failures_and_kinds_apart() {
    let rate = RateSettings { timeouts_percent: 50, errors_percent: 80, ..RateSettings::default() };
    let settings = BreakerSettings { failures: 0, rate, ..BreakerSettings::default() };
    let mut bench = Bench::new(settings);
    (0..9).for_each(|_| {
        bench.call(ERROR);
        bench.call(TIMEOUT);
    });
    bench.call(TIMEOUT);
    bench.call(Report::Success);
    assert_eq!(bench.state(), BreakerState::Closed, "a success completes no verdict");
    bench.call(ERROR);
    assert_eq!(bench.state(), BreakerState::Closed, "10 of 21 timed out, 10 of 21 erred");
    bench.call(TIMEOUT);
    assert_eq!(bench.state(), BreakerState::Tripped, "11 of 22 timed out");
}

#[test]
fn the_rate_forgets_what_is_older_than_its_window() {
    let rate = RateSettings { failures_percent: 50, ..RateSettings::default() };
    let mut bench = Bench::new(BreakerSettings { failures: 0, rate, ..BreakerSettings::default() });
    bench.calls(19, ERROR);
    bench.wait(66);
    bench.calls(19, ERROR);
    assert_eq!(bench.state(), BreakerState::Closed);
    bench.call(ERROR);
    assert_eq!(bench.state(), BreakerState::Tripped);
}

#[test]
fn parameters_are_hot() {
    let mut bench = Bench::new(BreakerSettings::default());
    bench.calls(3, ERROR);
    bench.breaker.set(BreakerSettings { failures: 4, ..BreakerSettings::default() });
    bench.call(ERROR);
    assert_eq!(bench.state(), BreakerState::Tripped);
}

#[test]
fn an_operators_hold_wins_and_ends_by_itself() {
    let mut bench = Bench::new(BreakerSettings::default());
    let until = bench.now + Duration::from_secs(10);
    let waiting = bench.acquire();
    bench.breaker.force(Some(Forced { is_tripped: true, until }));
    assert_eq!(bench.refused_s(), 10);
    assert!(!bench.breaker.still(&waiting, bench.now));
    bench.wait(10);
    bench.calls(5, ERROR);
    assert_eq!(bench.state(), BreakerState::Tripped);
    let until = bench.now + Duration::from_secs(10);
    bench.breaker.force(Some(Forced { is_tripped: false, until }));
    bench.calls(100, ERROR);
    assert!(bench.breaker.snapshot(bench.now).is_forced);
    bench.wait(10);
    assert_eq!(bench.refused_s(), 20, "its own state was kept");
    bench.breaker.force(Some(Forced { is_tripped: false, until: bench.now + Duration::from_secs(1) }));
    bench.breaker.force(None);
    assert_eq!(bench.refused_s(), 20, "let go");
}

#[test]
fn a_trip_of_another_process_is_taken_over_within_the_bound() {
    let mut bench = Bench::new(BreakerSettings::default());
    let until = bench.now + Duration::from_secs(20);
    bench.breaker.trip_until(until, bench.now);
    assert_eq!(bench.refused_s(), 20);
    bench.breaker.trip_until(bench.now + Duration::from_secs(5), bench.now);
    assert_eq!(bench.refused_s(), 20, "a shorter one shortens nothing");
    bench.breaker.trip_until(bench.now + Duration::from_secs(100_000), bench.now);
    assert_eq!(bench.refused_s(), 480);
}

/// One step of the random walk. Numbers choose among the permits that are out.
#[derive(Clone, Debug)]
enum Step {
    Acquire,
    Finish(usize, Report),
    FirstToken(usize),
    Drop(usize),
    Wait(u64),
    Recover,
}

fn step() -> impl Strategy<Value = Step> {
    let report = prop_oneof![Just(Report::Success), Just(ERROR), Just(TIMEOUT), Just(Report::Neutral)];
    prop_oneof![
        8 => Just(Step::Acquire),
        6 => (any::<usize>(), report).prop_map(|(which, report)| Step::Finish(which, report)),
        3 => any::<usize>().prop_map(Step::FirstToken),
        1 => any::<usize>().prop_map(Step::Drop),
        2 => (0_u64..2_000).prop_map(Step::Wait),
        1 => (0_u64..900_000).prop_map(Step::Wait),
        1 => (0_u32..200).prop_map(|n| if n == 0 { Step::Recover } else { Step::Acquire }),
    ]
}

fn settings() -> impl Strategy<Value = BreakerSettings> {
    let rate =
        RateSettings { failures_percent: 50, timeouts_percent: 30, errors_percent: 40, ..RateSettings::default() };
    let plain = BreakerSettings::default();
    let three = BreakerSettings { successes_to_close: 3, ..plain };
    prop_oneof![
        Just(plain),
        Just(three),
        Just(BreakerSettings { rate, ..plain }),
        Just(BreakerSettings { failures: 0, rate, ..plain }),
        Just(BreakerSettings { rate, ..three }),
    ]
}

/// What must hold after whatever happened.
struct Walk {
    bench: Bench,
    /// Permits that are out.
    out: Vec<Permit>,
    settings: BreakerSettings,
}

impl Walk {
    fn undecided(&self) -> Option<u64> {
        match self.bench.breaker.state {
            State::HalfOpen { undecided, .. } => undecided,
            _ => None,
        }
    }

    fn take(&mut self, which: usize) -> Option<Permit> {
        (!self.out.is_empty()).then(|| self.out.swap_remove(which % self.out.len()))
    }

    fn step(&mut self, step: &Step) -> Result<(), TestCaseError> {
        let now = self.bench.now;
        match *step {
            Step::Acquire => {
                let undecided = self.undecided();
                let is_tripped = matches!(self.bench.breaker.state, State::Tripped { until } if now < until);
                match self.bench.breaker.acquire(now) {
                    Ok(permit) => {
                        prop_assert!(!is_tripped, "a permit while tripped");
                        prop_assert!(undecided.is_none(), "a permit beside an undecided probe");
                        self.out.push(permit);
                    }
                    Err(refused) => {
                        prop_assert!(is_tripped || undecided.is_some(), "refused without a reason");
                        prop_assert!(refused.until >= now);
                    }
                }
            }
            Step::Finish(which, report) => {
                let Some(permit) = self.take(which) else { return Ok(()) };
                self.finish(permit, report)?;
            }
            Step::Drop(which) => {
                let Some(permit) = self.take(which) else { return Ok(()) };
                self.finish(permit, Report::Neutral)?;
            }
            Step::FirstToken(which) => {
                if let Some(permit) = self.out.get(which % self.out.len().max(1)) {
                    let (before, number) = (self.bench.breaker.state, permit.number);
                    let is_undecided = self.undecided() == Some(number);
                    self.bench.breaker.first_token(permit);
                    prop_assert!(is_undecided || before == self.bench.breaker.state, "only a probe is decided");
                }
            }
            Step::Wait(ms) => self.bench.now += Duration::from_millis(ms),
            Step::Recover => self.recover()?,
        }
        let cool_down = self.bench.breaker.cool_down;
        prop_assert!((self.settings.cool_down..=self.settings.cool_down_max).contains(&cool_down));
        if let Some(probe) = self.undecided() {
            prop_assert!(self.out.iter().any(|permit| permit.number == probe), "a probe that is gone holds its place");
        }
        Ok(())
    }

    fn finish(&mut self, permit: Permit, report: Report) -> Result<(), TestCaseError> {
        let before = self.bench.breaker.state;
        let is_trials_own = matches!(before, State::Closed { trial: Some(probe), .. } if probe == permit.number);
        let is_stale = permit.epoch != self.bench.breaker.epoch && !is_trials_own;
        let is_undecided = self.undecided() == Some(permit.number);
        self.bench.breaker.finish(permit, report, self.bench.now);
        let after = self.bench.breaker.state;
        if is_stale {
            prop_assert_eq!(before, after, "a stale report moved it");
        } else if report == Report::Neutral {
            let expected = match before {
                State::HalfOpen { success_count, .. } if is_undecided => {
                    State::HalfOpen { undecided: None, success_count }
                }
                other => other,
            };
            prop_assert_eq!(expected, after, "a neutral report moves the place only");
        } else if report == Report::Success {
            prop_assert!(!matches!(after, State::Tripped { .. }), "a success tripped it");
        }
        Ok(())
    }

    /// From wherever it stands: nobody reports, the longest trip passes, good calls close it.
    fn recover(&mut self) -> Result<(), TestCaseError> {
        for permit in std::mem::take(&mut self.out) {
            self.finish(permit, Report::Neutral)?;
        }
        self.bench.now += self.settings.cool_down_max;
        for _ in 0..=self.settings.successes_to_close {
            let permit = self.bench.breaker.acquire(self.bench.now);
            prop_assert!(permit.is_ok(), "due, and nobody out, but refused");
            if let Ok(permit) = permit {
                self.finish(permit, Report::Success)?;
            }
        }
        prop_assert_eq!(self.bench.state(), BreakerState::Closed);
        Ok(())
    }
}

proptest! {
    // 100 walks of 1 000 steps.
    #![proptest_config(ProptestConfig { cases: 100, max_shrink_iters: 20_000, ..ProptestConfig::default() })]
    #[test]
    fn no_order_of_events_breaks_the_machine(
        settings in settings(),
        steps in prop::collection::vec(step(), 1_000),
    ) {
        let mut walk = Walk { bench: Bench::new(settings), out: Vec::new(), settings };
        for step in &steps {
            walk.step(step)?;
        }
        walk.recover()?;
    }
}
