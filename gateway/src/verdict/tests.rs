use super::*;

const ERROR: Report = Report::Failure(Fault::Error);

/// One row: its five columns, and whether the task may make the whole call again.
fn judged(outcome: Outcome, columns: (Report, Again, Next, Debit, Charge), is_transient: bool) {
    let (breaker, same_hop, next_hop, debit, budget) = columns;
    assert_eq!(verdict(outcome), Verdict { breaker, same_hop, next_hop, debit, budget }, "{outcome:?}");
    assert_eq!(outcome.is_transient(), is_transient, "{outcome:?}");
}

#[test]
fn a_clean_end_is_a_success_and_settled() {
    judged(Outcome::CleanEnd, (Report::Success, Again::No, Next::No, Debit::Settled, Charge::Usage), false);
}

#[test]
fn a_failed_connect_is_tried_again_here_and_then_elsewhere() {
    judged(Outcome::Connect, (ERROR, Again::Yes, Next::Yes, Debit::Kept, Charge::Nothing), true);
}

#[test]
fn a_server_error_before_the_first_token_is_tried_again_here_and_then_elsewhere() {
    judged(Outcome::Server, (ERROR, Again::Yes, Next::Yes, Debit::Kept, Charge::Nothing), true);
}

#[test]
fn a_missed_first_token_is_tried_once_more_and_then_elsewhere() {
    let columns = (Report::Failure(Fault::Timeout), Again::Once, Next::Yes, Debit::Kept, Charge::Nothing);
    judged(Outcome::FirstToken, columns, true);
}

#[test]
fn what_breaks_after_the_first_token_is_left_to_the_task() {
    judged(Outcome::Broken, (ERROR, Again::No, Next::No, Debit::Received, Charge::Received), true);
}

#[test]
fn an_undecodable_answer_says_nothing_about_health_and_is_tried_once_more() {
    judged(Outcome::Undecodable, (Report::Neutral, Again::Once, Next::Yes, Debit::Kept, Charge::Input), true);
}

#[test]
fn an_empty_answer_says_nothing_about_health_and_is_tried_once_more() {
    judged(Outcome::Empty, (Report::Neutral, Again::Once, Next::Yes, Debit::Kept, Charge::Input), true);
}

#[test]
fn a_rate_limit_is_waited_out_and_never_moves_the_breaker() {
    judged(Outcome::RateLimited, (Report::Neutral, Again::AfterHint, Next::Yes, Debit::Kept, Charge::Nothing), true);
}

#[test]
fn an_exhausted_plan_is_final_here_but_not_elsewhere() {
    judged(Outcome::PlanExhausted, (Report::Neutral, Again::No, Next::Yes, Debit::Kept, Charge::Nothing), false);
}

#[test]
fn a_denied_key_or_model_is_final_here_but_not_elsewhere() {
    judged(Outcome::Denied, (Report::Neutral, Again::No, Next::Yes, Debit::Kept, Charge::Nothing), false);
}

#[test]
fn a_refused_request_is_final_everywhere() {
    judged(Outcome::Refused, (Report::Neutral, Again::No, Next::No, Debit::Kept, Charge::Nothing), false);
}

#[test]
fn a_request_longer_than_the_context_goes_to_a_larger_one() {
    let columns = (Report::Neutral, Again::No, Next::LargerContext, Debit::Kept, Charge::Nothing);
    judged(Outcome::ContextTooLong, columns, false);
}

#[test]
fn a_call_that_met_its_total_time_is_slow_and_not_repeated() {
    judged(Outcome::Total, (Report::Neutral, Again::No, Next::No, Debit::Received, Charge::Received), false);
}

#[test]
fn an_attempt_cut_by_the_calls_time_box_says_nothing_about_health() {
    judged(Outcome::TimeBox, (Report::Neutral, Again::No, Next::No, Debit::Kept, Charge::Nothing), true);
}

#[test]
fn a_passed_deadline_is_final() {
    judged(Outcome::Deadline, (Report::Neutral, Again::No, Next::No, Debit::Received, Charge::Received), false);
}

#[test]
fn a_dropped_call_is_nobodys() {
    judged(Outcome::Dropped, (Report::Neutral, Again::No, Next::No, Debit::Kept, Charge::Swept), false);
}

#[test]
fn a_call_that_was_never_sent_costs_nothing_and_goes_elsewhere_at_once() {
    for outcome in [Outcome::NoPermit, Outcome::Exhausted, Outcome::Tripped, Outcome::Parked] {
        judged(outcome, (Report::Neutral, Again::No, Next::Yes, Debit::None, Charge::Unchanged), true);
    }
    let columns = (Report::Neutral, Again::No, Next::Yes, Debit::None, Charge::Unchanged);
    judged(Outcome::NotCapable, columns, false);
}

#[test]
fn a_provider_says_which_outcomes_count_but_never_a_rate_limit_or_a_cancel() {
    for outcome in Outcome::ALL {
        let is_failure = |counted: &[Outcome]| matches!(report(outcome, counted), Report::Failure(_));
        assert_eq!(is_failure(&Outcome::COUNTED), Outcome::COUNTED.contains(&outcome), "{outcome:?}");
        assert_eq!(is_failure(&Outcome::ALL), Outcome::COUNTABLE.contains(&outcome), "{outcome:?}");
        assert!(!is_failure(&[]), "{outcome:?}");
    }
}
