//! MySQL may be restarted under the test, as anywhere: every statement may be repeated.

use std::fmt::Display;
use std::future::Future;
use std::time::Duration;

/// Repeats a statement until it is answered.
pub(crate) async fn answered<T, E: Display, F: Future<Output = Result<T, E>>>(call: impl Fn() -> F) -> T {
    for _ in 0..200 {
        match call().await {
            Ok(answer) => return answer,
            Err(error) => {
                println!("MySQL: {error}");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    panic!("MySQL did not answer for 20 s");
}

/// `sql!(world, task(key))`: the answer of a statement of the store.
macro_rules! sql {
    ($world:expr, $($call:tt)*) => {{
        let store = $world.store();
        crate::patience::answered(|| store.$($call)*).await
    }};
}
pub(crate) use sql;
