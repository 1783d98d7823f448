//! actix-web handlers, whose futures cannot be sent.

use std::cell::Cell;
use std::rc::Rc;

use actix_web::http::{Method, StatusCode};
use actix_web::test::{TestRequest, call_service, init_service};
use actix_web::{App, HttpResponse, Responder, get, post, put, web};
use lock_runtime::{LockError, distributed_lock};

use super::{body, under};

#[get("/above/{id}")]
#[distributed_lock(key = "actix:above:<id>")]
async fn above(id: web::Path<u64>) -> Result<String, LockError> {
    body("actix:above:1").await;
    Ok(id.to_string())
}

#[distributed_lock(key = "actix:below:<id>")]
#[get("/below/{id}")]
async fn below(id: web::Path<u64>) -> actix_web::Result<impl Responder> {
    body("actix:below:1").await;
    Ok(web::Json(*id))
}

#[post("/posted/{tenant}/{id}")]
#[distributed_lock(key = "actix:posted:<path.0>:<path.1>")]
async fn posted(path: web::Path<(String, u64)>, text: String) -> actix_web::Result<HttpResponse> {
    body("actix:posted:t:1").await;
    let calls = Rc::new(Cell::new(path.1));
    tokio::task::yield_now().await;
    calls.set(calls.get() + 1);
    Ok(HttpResponse::Created().body(text))
}

#[distributed_lock(key = "actix:put:<app.get_ref()>")]
#[put("/put")]
async fn put_below(app: web::Data<String>) -> Result<HttpResponse, actix_web::Error> {
    body("actix:put:t").await;
    Ok(HttpResponse::Ok().body(app.to_string()))
}

// actix creates a unit struct per handler, whose name an expansion could collide with.
#[get("/key/{lock}")]
#[distributed_lock(key = "actix:key:{lock}")]
async fn key(lock: web::Path<u64>) -> Result<String, LockError> {
    body("actix:key:1").await;
    Ok(lock.to_string())
}

#[get("/guard/{key_of_it}")]
#[distributed_lock(key = "actix:guard:{key_of_it}")]
async fn guard(key_of_it: web::Path<u64>) -> Result<String, LockError> {
    body("actix:guard:1").await;
    Ok(key_of_it.to_string())
}

#[get("/error")]
#[distributed_lock(key = "actix:error")]
async fn error() -> actix_web::Result<String> {
    body("actix:error").await;
    Err(actix_web::error::ErrorConflict("conflict"))
}

#[distributed_lock(key = "actix:manual:<id>")]
async fn manual(id: web::Path<u64>) -> Result<impl Responder, LockError> {
    body("actix:manual:1").await;
    Ok(id.to_string())
}

#[utoipa::path(get, path = "/documented/{id}", params(("id" = u64, Path)))]
#[get("/documented/{id}")]
#[distributed_lock(key = "actix:documented:<id>")]
#[tracing::instrument]
async fn documented(id: web::Path<u64>) -> Result<String, LockError> {
    body("actix:documented:1").await;
    Ok(id.to_string())
}

#[actix_web::test]
async fn actix_handlers_run_under_their_locks() {
    let app = init_service(
        App::new()
            .app_data(web::Data::new("t".to_owned()))
            .service(above)
            .service(below)
            .service(posted)
            .service(put_below)
            .service(key)
            .service(guard)
            .service(error)
            .service(documented)
            .route("/manual/{id}", web::get().to(manual)),
    )
    .await;
    for (lock, method, path, status) in [
        ("actix:above:1", Method::GET, "/above/1", StatusCode::OK),
        ("actix:below:1", Method::GET, "/below/1", StatusCode::OK),
        (
            "actix:posted:t:1",
            Method::POST,
            "/posted/t/1",
            StatusCode::CREATED,
        ),
        ("actix:put:t", Method::PUT, "/put", StatusCode::OK),
        ("actix:key:1", Method::GET, "/key/1", StatusCode::OK),
        ("actix:guard:1", Method::GET, "/guard/1", StatusCode::OK),
        ("actix:error", Method::GET, "/error", StatusCode::CONFLICT),
        (
            "actix:documented:1",
            Method::GET,
            "/documented/1",
            StatusCode::OK,
        ),
        ("actix:manual:1", Method::GET, "/manual/1", StatusCode::OK),
    ] {
        let request = TestRequest::with_uri(path).method(method).to_request();
        let response = under(lock, call_service(&app, request)).await;
        assert_eq!(response.status(), status, "{path}");
    }
}
