//! Refused clients that obey Retry-After: they come back one by one, when there is room.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use penstock_queue::{AdmitLimits, AdmitVerdict};

use crate::house::{House, PLAIN};

#[tokio::test]
async fn a_hundred_refused_clients_that_obey_come_back_with_few_useless_tries() {
    let mut house = House::open(4).await;
    // The queue knows how long tasks take.
    house.flood(1, 8, PLAIN).await;
    house.starts(4).await;
    let limits = AdmitLimits { depth_max: 8, ..AdmitLimits::default() };
    let tasks: Vec<_> = (0..100).map(|_| house.new_task(1)).collect();
    let begun_ms = house.now_ms();
    let mut tries = BinaryHeap::from_iter((0..100_usize).map(|client| Reverse((begun_ms, client, 0_u32))));
    let (mut useless, mut most, mut last_ms) = (0, 0, 0);
    while let Some(Reverse((at_ms, client, tried))) = tries.pop() {
        while house.next_end_ms().is_some_and(|end_ms| end_ms <= at_ms) {
            house.step().await;
        }
        house.clock.set_ms(at_ms.max(house.now_ms()));
        match house.admit(&tasks[client], limits).await {
            AdmitVerdict::Admitted(_) => {
                house.queue(&tasks[client], PLAIN).await;
                last_ms = at_ms - begun_ms;
            }
            AdmitVerdict::Rejected(rejected) => {
                // The first no cannot be helped: nobody knew.
                useless += u32::from(tried > 0);
                most = most.max(tried);
                tries.push(Reverse((at_ms + rejected.retry_after_ms, client, tried + 1)));
            }
            other => unreachable!("{other:?}"),
        }
    }
    println!("Retry-After: {useless} useless tries, at most {most} by one client, the last let in after {last_ms} ms");
    assert!(useless <= 20, "{useless} useless tries");
    house.close().await;
}
