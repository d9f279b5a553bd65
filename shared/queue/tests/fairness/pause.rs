//! Paused: queue, tenant, agent. What is paused keeps its place, eats no slot, and blocks nobody.

use penstock_protocol::ThreadId;
use penstock_queue::{AdmitVerdict, CensusState, Obstacle, QueuedTask, State, TenantTerms, Terms};

use crate::house::{House, PLAIN, usual};

fn paused_agent(name: &str) -> Terms {
    Terms { agents_paused: vec![name.to_owned()], ..Terms::default() }
}

#[tokio::test]
async fn pausing_one_tenant_changes_nothing_for_another() {
    let mut orders = Vec::new();
    for is_paused in [false, true] {
        let mut house = House::open(1).await;
        house.test.apply_to(&[TenantTerms { is_paused, ..usual(9) }]).await;
        for number in 0..30 {
            if is_paused {
                house.submit(9, PLAIN).await;
            }
            house.submit(1 + number % 2, PLAIN).await;
        }
        house.finish_all().await;
        orders.push(house.started.iter().map(|started| (started.key.tenant.0, started.at_ms)).collect::<Vec<_>>());
        house.close().await;
    }
    assert_eq!(orders[0], orders[1]);
}

#[tokio::test]
async fn a_paused_queue_takes_tasks_and_starts_none() {
    let mut house = House::open(2).await;
    house.test.apply(&Terms { is_paused: true, ..Terms::default() }).await;
    let task = house.new_task(1);
    let admitted = house.admit(&task, penstock_queue::AdmitLimits { depth_max: 9, ..Default::default() }).await;
    assert!(matches!(admitted, AdmitVerdict::Admitted(_)));
    house.queue(&task, PLAIN).await;
    assert!(house.started.is_empty());
    assert_eq!(house.test.queue.position(task.key).await.unwrap().obstacle, Some(Obstacle::Paused));
    house.test.apply(&Terms::default()).await;
    house.start_all().await;
    assert_eq!(house.started.len(), 1);
    house.close().await;
}

#[tokio::test]
async fn tasks_of_a_paused_agent_step_aside_and_come_back_to_their_places() {
    let mut house = House::open(1).await;
    let running = house.submit(1, PLAIN).await;
    let (thread, mut paused) = (Some(ThreadId::mint()), Vec::new());
    for number in 0..700 {
        let agent = if number % 7 == 0 { "writer" } else { "planner" }.to_owned();
        let task = QueuedTask { agent, ..house.new_task(1) };
        if number % 7 == 0 {
            paused.push(task.key);
        }
        house.queue(&task, PLAIN).await;
    }
    let holder = QueuedTask { agent: "writer".into(), thread, ..house.new_task(1) };
    let behind = QueuedTask { agent: "planner".into(), thread, ..house.new_task(1) };
    house.queue(&holder, PLAIN).await;
    house.queue(&behind, PLAIN).await;
    house.test.apply(&paused_agent("writer")).await;
    let position = house.test.queue.position(paused[0]).await.unwrap();
    assert_eq!((position.state, position.obstacle), (Some(State::Parked), Some(Obstacle::Paused)));
    assert_eq!(house.test.queue.gauges().await.unwrap().held, 102);
    // One that comes meanwhile is put aside too, even into an idle queue.
    let late = QueuedTask { agent: "writer".into(), ..house.new_task(2) };
    house.queue(&late, PLAIN).await;
    house.finish_all().await;
    assert_eq!(house.started.len(), 601, "all of the other agent");
    assert_eq!(house.started[0].key, running);
    assert_eq!(house.test.queue.position(behind.key).await.unwrap().state, Some(State::Held), "its thread is not free");
    assert_eq!(house.test.queue.census().await.unwrap().state, CensusState::Open);

    house.test.apply(&Terms::default()).await;
    house.start_all().await;
    house.finish_all().await;
    let mine: Vec<_> = house.started[601..].iter().filter(|started| started.key.tenant.0 == 1).collect();
    assert!(paused.iter().zip(&mine).all(|(key, started)| *key == started.key), "in their old order");
    assert_eq!(house.started.len(), 704);
    assert_eq!(house.test.queue.gauges().await.unwrap().depth(), 0);
    house.close().await;
}

#[tokio::test]
async fn a_new_book_serves_nobody_before_its_terms_are_there() {
    let mut house = House::open(4).await;
    house.test.delete_keys().await;
    let census = house.test.queue.census().await.unwrap();
    assert_eq!(census.terms_revision, None);
    let token = house.test.queue.wipe(&census).await.unwrap().unwrap();
    let worker = penstock_queue::WorkerId::new("w").unwrap();
    house.test.queue.beat(&worker, 4, &[], 0).await.unwrap();
    let (mine, other) = (house.submit(1, PLAIN).await, house.submit(2, PLAIN).await);
    house.test.queue.tick().await.unwrap();
    house.start_all().await;
    assert!(house.started.is_empty());
    assert_eq!(house.test.queue.position(mine).await.unwrap().obstacle, Some(Obstacle::Rebuilding));
    let terms = Terms { revision: 7, tenants: vec![TenantTerms { is_paused: true, ..usual(1) }], ..Terms::default() };
    assert!(house.test.queue.apply(token.book(), &terms).await.unwrap());
    assert!(house.test.queue.open(&token).await.unwrap());
    house.start_all().await;
    assert_eq!(house.started.iter().map(|started| started.key).collect::<Vec<_>>(), [other]);
    let census = house.test.queue.census().await.unwrap();
    assert_eq!((census.state, census.terms_revision), (CensusState::Open, Some(7)));
    house.close().await;
}
