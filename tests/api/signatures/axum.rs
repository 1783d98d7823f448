//! axum handlers, called over HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, debug_handler};
use lock_runtime::{LockError, LockManager, distributed_lock};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::{body, locks, under};

struct Shop {
    tenant: String,
    locks: LockManager,
}

type App = Arc<Shop>;

/// A typical error type of a service.
enum Failure {
    NotFound,
    Locked(LockError),
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        Self::Locked(error)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        match self {
            Self::NotFound => StatusCode::NOT_FOUND.into_response(),
            Self::Locked(error) => error.into_response(),
        }
    }
}

#[distributed_lock(key = "axum:plain:{id}")]
async fn plain(Path(id): Path<u64>) -> Result<String, LockError> {
    body("axum:plain:1").await;
    Ok(format!("plain {id}"))
}

#[debug_handler]
#[distributed_lock(key = "axum:above:<id>")]
async fn above(Path(id): Path<u64>) -> Result<Json<u64>, Failure> {
    body("axum:above:1").await;
    Ok(Json(id))
}

#[distributed_lock(key = "axum:below:<path.0>", guard = lock)]
#[debug_handler]
async fn below(path: Path<u64>) -> Result<Json<u64>, Failure> {
    body(lock.key()).await;
    Ok(Json(path.0))
}

#[distributed_lock(key = "axum:state:<app.tenant>:<id>", manager = app.locks)]
#[debug_handler]
async fn state(State(app): State<App>, Path(id): Path<u64>) -> Result<impl IntoResponse, Failure> {
    body("axum:state:t:1").await;
    if id == 0 {
        return Err(Failure::NotFound);
    }
    Ok((StatusCode::CREATED, app.tenant.clone()))
}

#[distributed_lock(key = "axum:response:<tenant>:<id>")]
async fn response(
    Path((tenant, id)): Path<(String, u64)>,
    Query(_): Query<()>,
) -> impl IntoResponse {
    body("axum:response:t:1").await;
    Result::<_, Failure>::Ok((StatusCode::ACCEPTED, format!("{tenant} {id}")))
}

#[distributed_lock(key = "axum:status:{id}", or_else = |_| Err(StatusCode::LOCKED))]
async fn status(Path(id): Path<u64>) -> Result<StatusCode, StatusCode> {
    body("axum:status:1").await;
    if id == 1 {
        Ok(StatusCode::ACCEPTED)
    } else {
        Err(StatusCode::NOT_FOUND)
    }
}

#[distributed_lock(key = "axum:text:<text.len()>", or_else = |error| error.into_response())]
#[debug_handler]
async fn text(text: String) -> Response {
    body("axum:text:4").await;
    text.into_response()
}

#[distributed_lock(key = "axum:instrumented:{id}")]
#[tracing::instrument(skip(app))]
#[debug_handler]
async fn instrumented(State(app): State<App>, Path(id): Path<u64>) -> Result<String, Failure> {
    body("axum:instrumented:1").await;
    Ok(format!("{} {id}", app.tenant))
}

async fn serve() -> SocketAddr {
    let app = Arc::new(Shop {
        tenant: "t".into(),
        locks: locks().await.clone(),
    });
    let router = Router::new()
        .route("/plain/{id}", get(plain))
        .route("/above/{id}", get(above))
        .route("/below/{id}", get(below))
        .route("/state/{id}", get(state))
        .route("/response/{tenant}/{id}", get(response))
        .route("/status/{id}", get(status))
        .route("/text", post(text))
        .route("/instrumented/{id}", get(instrumented))
        .with_state(app);
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, router).await.unwrap() });
    address
}

/// Returns the status and the last line of the response.
async fn ask(address: SocketAddr, request: &str, content: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let head = format!(
        "{request} HTTP/1.0\r\ncontent-length: {}\r\n\r\n",
        content.len()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(content.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap_or_default();
    format!("{status} {}", answer.lines().last().unwrap_or_default())
}

#[tokio::test]
async fn axum_handlers_run_under_their_locks() {
    let address = serve().await;
    for (key, request, answer) in [
        ("axum:plain:1", "GET /plain/1", "200 plain 1"),
        ("axum:above:1", "GET /above/1", "200 1"),
        ("axum:below:1", "GET /below/1", "200 1"),
        ("axum:state:t:1", "GET /state/1", "201 t"),
        ("axum:response:t:1", "GET /response/t/1", "202 t 1"),
        ("axum:status:1", "GET /status/1", "202 "),
        ("axum:text:4", "POST /text", "200 text"),
        ("axum:instrumented:1", "GET /instrumented/1", "200 t 1"),
    ] {
        let content = if request.starts_with("POST") {
            "text"
        } else {
            ""
        };
        assert_eq!(
            under(key, ask(address, request, content)).await,
            answer,
            "{request}"
        );
    }
}
