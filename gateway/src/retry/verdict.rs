//! The verdict table: what an outcome means for trying again. Pure; one test a row.

use crate::Outcome;

/// Whether the same exit is tried again, inside the bounds of attempts and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Again {
    /// No: the answer would be the same, or part of one was already given out.
    No,
    /// At most one more time, however many attempts a hop has.
    Once,
    /// Until the hop's attempts are used up.
    Yes,
    /// When the vendor said, or after the gate's push-back.
    AfterHint,
}

/// Column "same hop again".
pub(crate) fn same_hop_again(outcome: Outcome) -> Again {
    match outcome {
        Outcome::Connect | Outcome::Server => Again::Yes,
        Outcome::FirstToken | Outcome::Undecodable | Outcome::Empty => Again::Once,
        Outcome::RateLimited => Again::AfterHint,
        Outcome::CleanEnd
        | Outcome::Broken
        | Outcome::PlanExhausted
        | Outcome::Denied
        | Outcome::Refused
        | Outcome::Total
        | Outcome::Deadline
        | Outcome::NoPermit
        | Outcome::Dropped => Again::No,
    }
}

impl Outcome {
    /// Whether the whole call, made anew by a later attempt of the task, may end better.
    ///
    /// Not after the total time: with the same limit it would meet it again.
    #[must_use]
    pub fn is_transient(self) -> bool {
        matches!(
            self,
            Self::Connect
                | Self::Server
                | Self::FirstToken
                | Self::Broken
                | Self::Undecodable
                | Self::Empty
                | Self::RateLimited
                | Self::NoPermit
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One row: outcome, same hop again, whole call again by the task.
    fn row(outcome: Outcome, again: Again, is_transient: bool) {
        assert_eq!(same_hop_again(outcome), again, "{outcome:?}");
        assert_eq!(outcome.is_transient(), is_transient, "{outcome:?}");
    }

    #[test]
    fn a_clean_end_asks_for_nothing() {
        row(Outcome::CleanEnd, Again::No, false);
    }

    #[test]
    fn a_failed_connect_is_tried_again() {
        row(Outcome::Connect, Again::Yes, true);
    }

    #[test]
    fn a_server_error_before_the_first_token_is_tried_again() {
        row(Outcome::Server, Again::Yes, true);
    }

    #[test]
    fn a_missed_first_token_is_tried_once_more() {
        row(Outcome::FirstToken, Again::Once, true);
    }

    #[test]
    fn what_breaks_after_the_first_token_is_left_to_the_task() {
        row(Outcome::Broken, Again::No, true);
    }

    #[test]
    fn an_undecodable_answer_is_tried_once_more() {
        row(Outcome::Undecodable, Again::Once, true);
    }

    #[test]
    fn an_empty_answer_is_tried_once_more() {
        row(Outcome::Empty, Again::Once, true);
    }

    #[test]
    fn a_rate_limit_is_waited_out() {
        row(Outcome::RateLimited, Again::AfterHint, true);
    }

    #[test]
    fn an_exhausted_plan_is_final_here() {
        row(Outcome::PlanExhausted, Again::No, false);
    }

    #[test]
    fn a_denied_key_or_model_is_final_here() {
        row(Outcome::Denied, Again::No, false);
    }

    #[test]
    fn a_refused_request_is_final() {
        row(Outcome::Refused, Again::No, false);
    }

    #[test]
    fn a_call_that_met_its_total_time_is_not_repeated() {
        row(Outcome::Total, Again::No, false);
    }

    #[test]
    fn a_passed_deadline_is_final() {
        row(Outcome::Deadline, Again::No, false);
    }

    #[test]
    fn a_call_without_a_permit_was_never_sent_and_may_come_back() {
        row(Outcome::NoPermit, Again::No, true);
    }

    #[test]
    fn a_dropped_call_is_nobodys() {
        row(Outcome::Dropped, Again::No, false);
    }
}
