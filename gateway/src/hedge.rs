//! Hedging: a call whose first hop is silent for a while is asked of the next hop too, and the first to speak serves.
//!
//! Law 9: only before the first token. The loser is dropped: its connection closes and its attempt ends as dropped, which
//! settles what it took and moves no breaker. Off unless the settings name a time: every hedge is paid for.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::sleep;

/// Which of the two calls served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Won {
    /// The first; no second was made, or it was slower.
    First,
    /// The second.
    Second,
}

/// Runs `first`, and `second` beside it once `first` has taken longer than `after`. The first success counts; when both fail,
/// the failure of the first. `is_hedged` is set when the second begins.
pub(crate) async fn hedged<T, E>(
    first: impl Future<Output = Result<T, E>>,
    second: impl Future<Output = Result<T, E>>,
    after: Duration,
    is_hedged: &AtomicBool,
) -> Result<(T, Won), E> {
    let mut first = pin!(first);
    tokio::select! {
        biased;
        answer = &mut first => return Ok((answer?, Won::First)),
        () = sleep(after) => is_hedged.store(true, Ordering::Relaxed),
    }
    let mut second = pin!(second);
    tokio::select! {
        biased;
        answer = &mut first => match answer {
            Ok(answer) => Ok((answer, Won::First)),
            Err(error) => second.await.map(|answer| (answer, Won::Second)).map_err(|_| error),
        },
        answer = &mut second => match answer {
            Ok(answer) => Ok((answer, Won::Second)),
            Err(_) => first.await.map(|answer| (answer, Won::First)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn answers(after_ms: u64, answer: Result<u32, &'static str>) -> Result<u32, &'static str> {
        sleep(Duration::from_millis(after_ms)).await;
        answer
    }

    async fn raced(
        first: (u64, Result<u32, &'static str>),
        second: (u64, Result<u32, &'static str>),
    ) -> (Result<(u32, Won), &'static str>, bool) {
        let is_hedged = AtomicBool::new(false);
        let after = Duration::from_millis(100);
        let won = hedged(answers(first.0, first.1), answers(second.0, second.1), after, &is_hedged).await;
        (won, is_hedged.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_to_speak_serves_and_a_quick_first_is_never_hedged() {
        assert_eq!(raced((50, Ok(1)), (0, Ok(2))).await, (Ok((1, Won::First)), false));
        assert_eq!(raced((50, Err("a")), (0, Ok(2))).await, (Err("a"), false), "its own chain was tried to the end");
        assert_eq!(raced((500, Ok(1)), (50, Ok(2))).await, (Ok((2, Won::Second)), true));
        assert_eq!(raced((120, Ok(1)), (50, Ok(2))).await, (Ok((1, Won::First)), true));
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_of_one_leaves_the_other_to_answer() {
        assert_eq!(raced((120, Err("a")), (500, Ok(2))).await, (Ok((2, Won::Second)), true));
        assert_eq!(raced((500, Ok(1)), (10, Err("b"))).await, (Ok((1, Won::First)), true));
        assert_eq!(raced((120, Err("a")), (500, Err("b"))).await, (Err("a"), true));
        assert_eq!(raced((500, Err("a")), (10, Err("b"))).await, (Err("a"), true));
    }
}
