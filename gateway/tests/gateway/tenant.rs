//! Calls of one tenant at once: the lease comes back however a call ends.

use std::time::Duration;

use penstock_gateway::{CallScope, Outcome};
use penstock_protocol::{TaskId, TaskKey, TenantNo};
use tokio::time::timeout;

use crate::house::{House, eventually, failed, house_with, read, request};

async fn house_of_two() -> House {
    house_with(|settings| {
        settings.tenant_calls_max = 2;
        settings.retry.attempts = 1;
    })
    .await
}

fn of(tenant: u32) -> CallScope {
    CallScope::of(TaskKey::new(TenantNo(tenant), TaskId::mint()))
}

#[tokio::test]
async fn a_tenant_at_its_bound_waits_and_others_do_not() {
    let house = house_of_two().await;
    let endless = request("chunks=100000,gap_ms=20");
    let one = house.gateway.stream(&endless, &of(1)).await.unwrap();
    let _two = house.gateway.stream(&endless, &of(1)).await.unwrap();
    let (instant, scope) = (request("instant"), of(1));
    let mut third = Box::pin(house.gateway.stream(&instant, &scope));
    assert!(timeout(Duration::from_millis(200), &mut third).await.is_err());
    assert_eq!(house.stats().calls, 2, "it was not sent");
    assert!(read(house.gateway.stream(&instant, &of(2)).await.unwrap()).await.1.is_none());
    drop(one);
    assert!(read(third.await.unwrap()).await.1.is_none());
}

#[tokio::test]
async fn a_lease_comes_back_after_success_error_break_and_disconnect() {
    let house = house_of_two().await;
    for behaviour in ["instant", "status=500", "cut=2", "status=400", "chunks=100000,gap_ms=20", "stall=head"] {
        for _ in 0..3 {
            let scope = of(1);
            let request = request(behaviour);
            let calls = house.stats().calls;
            match behaviour {
                // Dropped before its first token.
                "stall=head" => {
                    let mut call = Box::pin(house.gateway.stream(&request, &scope));
                    let sent = eventually("it is sent", || house.stats().calls == calls + 1);
                    tokio::select! {
                        _ = &mut call => panic!("it was answered"),
                        () = sent => {}
                    }
                }
                // Dropped in the middle.
                "chunks=100000,gap_ms=20" => drop(house.gateway.stream(&request, &scope).await.unwrap()),
                _ => match house.gateway.stream(&request, &scope).await {
                    Ok(stream) => drop(read(stream).await),
                    Err(error) => drop(failed(error)),
                },
            }
        }
    }
    // The answer is over, though its stream is still held.
    let mut held = Vec::new();
    for _ in 0..3 {
        let mut stream = house.gateway.stream(&request("instant"), &of(1)).await.unwrap();
        while stream.next().await.is_some() {}
        held.push(stream);
    }
}

#[tokio::test]
async fn a_call_that_gets_no_lease_in_time_is_never_sent() {
    let house = house_of_two().await;
    let endless = request("chunks=100000,gap_ms=20");
    let _one = house.gateway.stream(&endless, &of(1)).await.unwrap();
    let _two = house.gateway.stream(&endless, &of(1)).await.unwrap();
    let deadline = Some(tokio::time::Instant::now() + Duration::from_millis(100));
    let error = house.gateway.stream(&request("instant"), &CallScope { deadline, ..of(1) }).await.err().unwrap();
    assert_eq!(failed(error).outcome, Outcome::Deadline);
    assert_eq!(house.stats().calls, 2);
}
