//! A request may ask for a free thread: it is judged and taken in the step that admits it.

use penstock_protocol::ThreadId;
use penstock_queue::{AdmitLimits, AdmitVerdict, QueuedTask, Reason, State};

use crate::house::{House, PLAIN};

fn free(thread: ThreadId) -> AdmitLimits {
    AdmitLimits { depth_max: 100, thread_free: Some(thread), ..AdmitLimits::default() }
}

fn is_busy(verdict: &AdmitVerdict) -> bool {
    matches!(verdict, AdmitVerdict::Rejected(rejected) if rejected.reason == Reason::ThreadBusy)
}

#[tokio::test]
async fn of_a_hundred_that_ask_for_a_free_thread_one_gets_it() {
    let mut house = House::open(4).await;
    let thread = ThreadId::mint();
    let tasks: Vec<_> = (0..100).map(|_| QueuedTask { thread: Some(thread), ..house.new_task(1) }).collect();
    let verdicts = futures_util::future::join_all(tasks.iter().map(|task| house.admit(task, free(thread)))).await;
    let admitted = verdicts.iter().filter(|verdict| matches!(verdict, AdmitVerdict::Admitted(_))).count();
    assert_eq!((admitted, verdicts.iter().filter(|verdict| is_busy(verdict)).count()), (1, 99));
    let winner = verdicts.iter().position(|verdict| matches!(verdict, AdmitVerdict::Admitted(_))).unwrap();
    // One that waits for the thread comes behind the one that has it, even before that one is queued.
    let patient = QueuedTask { thread: Some(thread), ..house.new_task(1) };
    house.queue(&patient, PLAIN).await;
    assert_eq!(house.test.queue.position(patient.key).await.unwrap().state, Some(State::Held));
    house.queue(&tasks[winner], PLAIN).await;
    assert_eq!(house.started.len(), 1);
    let another = QueuedTask { thread: Some(thread), ..house.new_task(1) };
    assert!(is_busy(&house.admit(&another, free(thread)).await), "it runs");
    house.finish_all().await;
    assert_eq!(house.started.last().unwrap().key, patient.key);
    assert!(matches!(house.admit(&another, free(thread)).await, AdmitVerdict::Admitted(_)), "nobody has it any more");
    house.close().await;
}

#[tokio::test]
async fn a_registration_that_goes_gives_its_thread_back() {
    let mut house = House::open(4).await;
    let thread = ThreadId::mint();
    let [first, second, third] = std::array::from_fn(|_| QueuedTask { thread: Some(thread), ..house.new_task(1) });
    let AdmitVerdict::Admitted(admitted) = house.admit(&first, free(thread)).await else { unreachable!("free") };
    house.queue(&second, PLAIN).await;
    assert!(house.started.is_empty(), "the thread is taken");
    assert!(house.test.queue.release(&admitted).await.unwrap());
    house.start_all().await;
    assert_eq!(house.started.len(), 1, "the one behind it goes on at once");
    house.finish_all().await;
    // The same after 30 s without a commit.
    assert!(matches!(house.admit(&first, free(thread)).await, AdmitVerdict::Admitted(_)));
    house.queue(&third, PLAIN).await;
    house.pass(30_000).await;
    assert_eq!(house.started.len(), 2);
    house.close().await;
}
