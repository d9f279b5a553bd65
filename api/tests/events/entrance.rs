//! Who may read: keys, tickets, origins, tenants; and that a revoked key ends its sockets.

use std::time::Duration;

use penstock_protocol::TaskId;
use penstock_store::NewKey;
use reqwest::Method;

use crate::harness::{Answer, Door};
use crate::run::Hands;
use crate::socket::{Seen, Socket, assert_whole, bearer};

#[tokio::test]
async fn a_foreign_task_looks_like_one_that_does_not_exist() {
    let door = Door::open_with(|settings| settings.events.unknown_task_wait = Duration::from_millis(300)).await;
    let hands = Hands::at(&door).await;
    let bob = door.customer("bob").await;
    let (foreign, unknown) = (TaskId::mint(), TaskId::mint());
    let mut run = hands.begin(&door, foreign).await;
    run.open().await;
    for after in ["", "?after=1-1", "?after=1-2", "?after=9-9"] {
        let path = |id: TaskId| format!("/api/task/{id}/ws{after}");
        let (theirs, nobodys) = (
            Socket::dial(&door, &bob, &path(foreign)).await.rest().await,
            Socket::dial(&door, &bob, &path(unknown)).await.rest().await,
        );
        assert_eq!(theirs, nobodys);
        assert!(theirs.frames.is_empty());
        let path = |id: TaskId| format!("/api/task/{id}/events{after}");
        let (theirs, nobodys) = (bob.get(&path(foreign)).await, bob.get(&path(unknown)).await);
        assert_eq!((theirs.status, theirs.text), (nobodys.status, nobodys.text));
    }
    door.stop().await;
}

#[tokio::test]
async fn without_a_good_key_there_is_no_socket() {
    let door = Door::open().await;
    let path = format!("/api/task/{}/ws", TaskId::mint());
    for headers in [&[][..], &[("authorization", "Bearer psk_nonsense")], &[("authorization", "Basic x")]] {
        let refused = Socket::try_dial(&door.url, &path, headers).await.err().unwrap();
        assert_eq!(refused.status(), 401);
    }
    let writer = crate::harness::key_in(&door.app.store, "ann", "submit").await;
    let deadline = tokio::time::Instant::now() + crate::harness::PATIENCE;
    // 401 until the door knows the new key, then 403.
    loop {
        let refused = Socket::try_dial(&door.url, &path, &[("authorization", &format!("Bearer {writer}"))]).await;
        if refused.err().unwrap().status() == 403 {
            break;
        }
        assert!(tokio::time::Instant::now() < deadline);
    }
    let plain = door.ann.get(&path).await;
    plain.assert_problem(426, "upgrade_required");
    let bad = door.ann.get(&format!("/api/task/{}/ws?after=x", TaskId::mint())).await;
    bad.assert_problem(422, "invalid_request");
    door.ann.get("/api/task/7/ws").await.assert_problem(404, "task_not_found");
    door.stop().await;
}

#[tokio::test]
async fn pages_of_other_origins_stay_out() {
    let door = Door::open_with(|settings| settings.api.allowed_origins = vec!["https://app.example".into()]).await;
    let path = format!("/api/task/{}/ws", TaskId::mint());
    let key = bearer(&door.ann);
    let dial = async |origin| {
        Socket::try_dial(&door.url, &path, &[("authorization", &key), ("origin", origin), ("cookie", "a=b")]).await
    };
    assert_eq!(dial("https://evil.example").await.err().unwrap().status(), 403);
    assert_eq!(dial("null").await.err().unwrap().status(), 403);
    assert!(dial("https://app.example").await.is_ok());
    let headers = [("authorization", &*key), ("origin", "https://evil.example")];
    assert_eq!(Socket::try_dial(&door.url, "/api/ws", &headers).await.err().unwrap().status(), 403);
    door.stop().await;
}

#[tokio::test]
async fn a_ticket_opens_one_socket_on_any_replica() {
    let door = Door::open().await;
    let hands = Hands::at(&door).await;
    let id = TaskId::mint();
    let path = format!("/api/task/{id}/ws");
    let ticket = async || {
        let request = door.ann.request(Method::POST, "/api/ticket");
        let answer = Answer::read(request.send().await.unwrap()).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        assert_eq!(answer.json()["expires_in_ms"], 30_000);
        answer.json()["ticket"].as_str().unwrap().to_owned()
    };
    let dial = async |ticket: &str| {
        let protocols = format!("penstock.agui.v1, penstock.ticket.{ticket}");
        Socket::try_dial(&door.url, &path, &[("sec-websocket-protocol", &protocols)]).await
    };
    let first = ticket().await;
    let socket = dial(&first).await.ok().unwrap();
    assert_eq!(socket.protocol.as_deref(), Some("penstock.agui.v1"), "the ticket is not echoed");
    assert_eq!(dial(&first).await.err().unwrap().status(), 401, "it worked once");
    assert_eq!(dial("nonsense").await.err().unwrap().status(), 401);
    hands.begin(&door, id).await.succeed("").await;
    assert_whole(&socket.rest().await, 1);

    // A door on the same Redis and MySQL redeems what this one made.
    let other = penstock_api::start::assemble(door.app.settings.clone(), door.app.shutdown.clone()).await.unwrap();
    let listener = penstock_api::server::listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = penstock_api::router(&other).unwrap();
    let serving = tokio::spawn(async move { penstock_api::server::serve(&other, router, listener).await });
    let protocols = format!("penstock.ticket.{}, penstock.agui.v1", ticket().await);
    let deadline = tokio::time::Instant::now() + crate::harness::PATIENCE;
    let socket = loop {
        match Socket::try_dial(&url, &path, &[("sec-websocket-protocol", &protocols)]).await {
            Ok(socket) => break socket,
            // Its keys are not loaded yet, and a ticket that was refused for that is gone.
            Err(refused) if refused.status() == 401 || refused.status() == 503 => {
                let protocols = format!("penstock.ticket.{}, penstock.agui.v1", ticket().await);
                if let Ok(socket) = Socket::try_dial(&url, &path, &[("sec-websocket-protocol", &protocols)]).await {
                    break socket;
                }
            }
            Err(refused) => panic!("{refused:?}"),
        }
        assert!(tokio::time::Instant::now() < deadline);
    };
    assert_whole(&socket.rest().await, 1);
    door.stop().await;
    serving.await.unwrap();
}

#[tokio::test]
async fn sockets_end_when_their_key_is_revoked_or_expires() {
    let door = Door::open().await;
    let id = TaskId::mint();
    let store = &door.app.store;
    let in_a_moment = penstock_protocol::clock::wall_ms() + 1500;
    let (expiring, revoked) = (new_key(&door, Some(in_a_moment)).await, new_key(&door, None).await);
    let dial = async |key: &str| {
        let deadline = tokio::time::Instant::now() + crate::harness::PATIENCE;
        loop {
            let headers = format!("Bearer {key}");
            let path = format!("/api/task/{id}/ws");
            if let Ok(socket) = Socket::try_dial(&door.url, &path, &[("authorization", &headers)]).await {
                return socket;
            }
            assert!(tokio::time::Instant::now() < deadline, "the key is not known");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let (expires, is_revoked) = (dial(&expiring).await, dial(&revoked).await);
    let mut stays = Socket::follow(&door, id).await;
    let number = store.keys().await.unwrap().last().unwrap().id;
    store.revoke_key(number).await.unwrap();
    assert_eq!(is_revoked.rest().await, Seen { frames: vec![], code: Some(4401) });
    assert_eq!(expires.rest().await, Seen { frames: vec![], code: Some(4401) });
    assert!(stays.is_open());
    door.stop().await;
}

async fn new_key(door: &Door, expires_ms: Option<u64>) -> String {
    let key = penstock_api::auth::SecretKey::mint().unwrap();
    let (hash, scopes) = (key.hash().0, "read".to_owned());
    let row = NewKey { tenant: "ann".into(), name: String::new(), hash, scopes, expires_ms };
    door.app.store.create_key(&row).await.unwrap();
    key.expose().to_owned()
}
