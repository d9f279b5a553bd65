//! The yes or no of the queue, before any SQL (checks 3 to 6).
//!
//! Law 1: one script judges and registers. Law 2: a no is answered here, and no statement was sent. Law 10: Redis silent
//! for 50 ms, twice, is a no.

use std::time::Duration;

use penstock_protocol::TaskKey;
use penstock_queue::{AdmitLimits, AdmitRequest, AdmitVerdict, QueueError, Reason, Rejected};
use tokio::time::{Instant, sleep, timeout};

use super::{OnBusyThread, Submission};
use crate::app::App;
use crate::auth::Caller;
use crate::error::Problem;
use crate::metrics::Verdict;

/// Another door that is storing the same request is given this long, asked this often.
const PENDING_MAX: Duration = Duration::from_secs(2);
const PENDING_ASK_EVERY: Duration = Duration::from_millis(20);

/// Admissions under way at once. The time limit of an admission is for Redis, not for the burst's own calls before it: a
/// thousand at once would time out behind each other, be asked again, and double the work.
pub(crate) const UNDER_WAY_MAX: usize = 128;
/// Longest wait for a turn; as long, and Redis is silent or too slow.
const TURN_MAX: Duration = Duration::from_millis(500);

/// What the queue said of a request that is not rejected.
pub(super) enum Admission {
    /// It may wait; its place is held for 30 s.
    New(Admitted),
    /// It was let in before.
    Seen,
    /// Another door let it in and has not stored it in all the time it was given.
    Pending,
}

/// A request that the queue let in. Only [`admit`] makes one; it ends in an accept record or in a release.
pub(super) struct Admitted {
    pub(super) proof: penstock_queue::Admitted,
    /// By the monotonic clock: no commit may come later than 10 s after it.
    pub(super) since: Instant,
}

/// Asks the queue to let `submission` in.
///
/// Errors: 422 or 429 with the reason; 503 when Redis does not answer in time. Nothing is stored then.
pub(super) async fn admit(
    app: &App,
    caller: &Caller,
    key: TaskKey,
    submission: &Submission,
) -> Result<Admission, Problem> {
    let limits = limits(app, caller, submission);
    let user = submission.user.as_ref().map(super::UserName::as_str);
    let request = AdmitRequest { key, user, body_hash: &submission.body_hash, limits };
    let asked = Instant::now();
    loop {
        let Ok(Ok(turn)) = timeout(TURN_MAX, app.admissions.acquire()).await else {
            app.counts.admission(Verdict::NoAnswer, asked.elapsed());
            return Err(Problem::unavailable("too many requests wait for the queue; nothing was accepted"));
        };
        let since = Instant::now();
        let verdict = app.queue.admit(&request).await;
        drop(turn);
        if matches!(verdict, Ok(AdmitVerdict::Pending)) && asked.elapsed() < PENDING_MAX {
            sleep(PENDING_ASK_EVERY).await;
            continue;
        }
        app.counts.admission(name_of(&verdict), since.elapsed());
        return match verdict {
            Ok(AdmitVerdict::Admitted(proof)) => Ok(Admission::New(Admitted { proof, since })),
            Ok(AdmitVerdict::Seen) => Ok(Admission::Seen),
            Ok(AdmitVerdict::Pending) => Ok(Admission::Pending),
            Ok(AdmitVerdict::Differs) => Err(Problem::body_differs(key.task)),
            Ok(AdmitVerdict::Rejected(rejected)) => Err(problem_of(rejected, &limits)),
            Err(error) => Err(no_answer(&error)),
        };
    }
}

fn limits(app: &App, caller: &Caller, submission: &Submission) -> AdmitLimits {
    let settings = app.settings.now();
    let queue = &settings.queue;
    AdmitLimits {
        depth_max: queue.depth_max,
        tenant_depth_max: caller.allowance.depth_max.map_or(queue.tenant_depth_max, u64::from),
        tenant_live_max: caller.allowance.live_max.map_or(0, u64::from),
        user_live_max: caller.allowance.user_live_max.map_or(queue.user_live_max, u64::from),
        // A wait up to the deadline is as useless as one that the caller does not accept.
        wait_ms_max: [submission.wait_ms_max, submission.deadline_in_ms].into_iter().flatten().min().unwrap_or(0),
        thread_free: submission.thread_id.filter(|_| submission.on_busy_thread == OnBusyThread::Reject),
    }
}

fn problem_of(rejected: Rejected, limits: &AdmitLimits) -> Problem {
    let after_ms = rejected.retry_after_ms;
    match rejected.reason {
        Reason::Full => Problem::queue_full(limits.depth_max, after_ms),
        Reason::TenantFull => Problem::tenant_queue_full(limits.tenant_depth_max, after_ms),
        Reason::TenantLive => Problem::concurrency_limit(limits.tenant_live_max, after_ms),
        Reason::UserLive => Problem::concurrency_limit(limits.user_live_max, after_ms),
        Reason::ThreadBusy => Problem::thread_busy(after_ms),
        Reason::WaitTooLong => Problem::wait_too_long(limits.wait_ms_max, after_ms),
        Reason::Rebuilding => Problem::rebuilding(after_ms),
    }
}

fn no_answer(error: &QueueError) -> Problem {
    if !error.is_transient() {
        tracing::error!(%error, "admission failed");
    }
    Problem::unavailable("the queue does not answer; nothing was accepted")
}

fn name_of(verdict: &Result<AdmitVerdict, QueueError>) -> Verdict {
    match verdict {
        Ok(AdmitVerdict::Admitted(_)) => Verdict::Admitted,
        Ok(AdmitVerdict::Seen) => Verdict::Seen,
        Ok(AdmitVerdict::Pending) => Verdict::Pending,
        Ok(AdmitVerdict::Differs) => Verdict::Differs,
        Ok(AdmitVerdict::Rejected(rejected)) => match rejected.reason {
            Reason::Full => Verdict::Full,
            Reason::TenantFull => Verdict::TenantFull,
            Reason::TenantLive | Reason::UserLive => Verdict::LiveLimit,
            Reason::ThreadBusy => Verdict::ThreadBusy,
            Reason::WaitTooLong => Verdict::WaitTooLong,
            Reason::Rebuilding => Verdict::Rebuilding,
        },
        Err(_) => Verdict::NoAnswer,
    }
}
