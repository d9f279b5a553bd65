//! Answers that no model gives just now: kept ones, and the caller's own text for when nobody answers.

use penstock_gateway::{CallScope, ModelChunk, ModelRequest, Origin, Outcome};
use penstock_protocol::{TaskId, TaskKey, TenantNo};

use crate::house::{House, failed, house, read, request, text_and_rest};

fn cached(tenant: u32) -> CallScope {
    CallScope { cache: true, ..CallScope::of(TaskKey::new(TenantNo(tenant), TaskId::mint())) }
}

/// Asks, and gives origin, text and whether usage was told.
async fn asked(house: &House, request: &ModelRequest, scope: &CallScope) -> (Origin, String, bool) {
    let stream = house.gateway.stream(request, scope).await.unwrap();
    let (origin, served) = (stream.origin(), (stream.provider().to_owned(), stream.model().to_owned()));
    assert_eq!(served, ("fake".to_owned(), "m".to_owned()));
    let (chunks, failure) = read(stream).await;
    assert!(failure.is_none(), "{failure:?}");
    assert!(matches!(chunks.last(), Some(ModelChunk::Finish { .. })));
    let has_usage = chunks.iter().any(|chunk| matches!(chunk, ModelChunk::Usage(_)));
    (origin, text_and_rest(chunks).0, has_usage)
}

#[tokio::test]
async fn a_question_asked_again_by_its_tenant_is_answered_without_a_call() {
    let house = house().await;
    let request = request("chunks=3,gap_ms=2,reasoning=1");
    let first = asked(&house, &request, &cached(1)).await;
    let again = asked(&house, &request, &cached(1)).await;
    assert_eq!((first.0, again.0), (Origin::Model, Origin::Cache));
    assert_eq!(first.1, again.1);
    assert_eq!((first.2, again.2), (true, false), "a kept answer costs nothing");
    assert_eq!(house.stats().calls, 1);
    // Another tenant, another question, and who did not ask for it are not answered from it.
    assert_eq!(asked(&house, &request, &cached(2)).await.0, Origin::Model);
    assert_eq!(asked(&house, &crate::house::request("chunks=2"), &cached(1)).await.0, Origin::Model);
    assert_eq!(asked(&house, &request, &CallScope { cache: false, ..cached(1) }).await.0, Origin::Model);
    assert_eq!(house.stats().calls, 4);
}

#[tokio::test]
async fn what_was_cut_or_failed_is_never_kept() {
    let house = house().await;
    for behaviour in ["finish=length", "eof=2", "error=2"] {
        for _ in 0..2 {
            let stream = house.gateway.stream(&request(behaviour), &cached(1)).await.unwrap();
            assert_eq!(stream.origin(), Origin::Model, "{behaviour}");
            read(stream).await;
        }
    }
    // Read to its first chunk only.
    let mut stream = house.gateway.stream(&request("chunks=5,gap_ms=5"), &cached(1)).await.unwrap();
    stream.next().await.unwrap().unwrap();
    drop(stream);
    assert_eq!(house.gateway.stream(&request("chunks=5,gap_ms=5"), &cached(1)).await.unwrap().origin(), Origin::Model);
}

#[tokio::test]
async fn a_fallback_answer_stands_in_where_nobody_answers_and_is_marked() {
    let scope = CallScope { fallback_answer: Some(r#"{"status":"later"}"#.into()), ..cached(1) };
    for behaviour in ["status=500", "status=429,retry_after=120", "status=401"] {
        let house = house().await;
        let stream = house.gateway.stream(&request(behaviour), &scope).await.unwrap();
        assert_eq!(stream.origin(), Origin::FallbackAnswer, "{behaviour}");
        let (chunks, failure) = read(stream).await;
        assert!(failure.is_none());
        assert_eq!(text_and_rest(chunks).0, r#"{"status":"later"}"#);
        assert!(house.stats().calls > 0, "the model was asked first");
    }
}

#[tokio::test]
async fn a_request_at_fault_gets_its_error_and_no_fallback_answer() {
    let house = house().await;
    let scope = CallScope { fallback_answer: Some("later".into()), ..cached(1) };
    for (behaviour, outcome) in
        [("status=400", Outcome::Refused), ("status=400,code=context_length_exceeded", Outcome::ContextTooLong)]
    {
        let error = house.gateway.stream(&request(behaviour), &scope).await.err().unwrap();
        assert_eq!(failed(error).outcome, outcome, "{behaviour}");
    }
    // What broke off after its first token is no answer of nobody.
    let (_, failure) = read(house.gateway.stream(&request("cut=2"), &scope).await.unwrap()).await;
    assert_eq!(failure.unwrap().outcome, Outcome::Broken);
}
