//! What a task is charged: its input, and what its agent's tasks used beyond theirs.

use penstock_queue::QueuedTask;

use crate::house::{House, Job, PLAIN};

/// Cost in the record of a task.
async fn cost(house: &House, task: &QueuedTask) -> u64 {
    let record: String = house.test.command(&["HGET", &house.test.key("tasks"), &task.key.to_string()]).await;
    record.split('|').nth(6).unwrap().parse().unwrap()
}

#[tokio::test]
async fn the_estimate_follows_what_the_tasks_of_the_agent_really_used() {
    let mut house = House::open(1).await;
    let next = |house: &mut House, agent: &str| QueuedTask { agent: agent.to_owned(), ..house.new_task(1) };
    let first = next(&mut house, "writer");
    house.queue(&first, Job { real: Some(5100), ..PLAIN }).await;
    assert_eq!(cost(&house, &first).await, 1100, "its input of 100, and what the settings say of the rest");
    house.step().await;
    let second = next(&mut house, "writer");
    house.queue(&second, Job { real: Some(100 + 5000 + 1600), ..PLAIN }).await;
    assert_eq!(cost(&house, &second).await, 5100);
    let other = next(&mut house, "planner");
    house.queue(&other, PLAIN).await;
    assert_eq!(cost(&house, &other).await, 1100, "another agent has another mean");
    house.finish_all().await;
    let third = next(&mut house, "writer");
    house.queue(&third, PLAIN).await;
    assert_eq!(cost(&house, &third).await, 5200, "a sixteenth of the difference");
    let dear = QueuedTask { cost_tokens: 10_000_000, ..next(&mut house, "writer") };
    house.queue(&dear, PLAIN).await;
    assert_eq!(cost(&house, &dear).await, 1_000_000, "bounded");
    house.close().await;
}
