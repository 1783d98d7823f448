//! `locks serve`: the page of `lock-admin`, for whoever sits at this machine.

use crate::args::Server;
use crate::connect::connect_to_servers;
use crate::exit::{CONFIGURATION, DONE, Failure};
use crate::output::{is_json, print, print_json};
use axum::extract::Request;
use axum::http::StatusCode;
use axum::http::header::HOST;
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use lock_admin::Admin;
use serde_json::json;
use std::net::Ipv4Addr;
use tokio::net::TcpListener;

/// Serves until it is interrupted.
pub(crate) async fn serve(server: &Server, port: u16) -> Result<u8, Failure> {
    let locks = connect_to_servers(server).await?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await;
    let listener = listener.map_err(|error| {
        Failure::new(
            CONFIGURATION,
            format!("`127.0.0.1:{port}` can't be listened on: {error}; choose another `--port`"),
        )
    })?;
    let port = listener.local_addr()?.port();
    let hosts = ["127.0.0.1", "localhost"].map(|host| format!("{host}:{port}"));
    let url = format!("http://{}/", hosts[0]);
    match is_json() {
        true => print_json(&json!({ "url": url })),
        false => print(&format!("{url}\n")),
    }
    let guard = from_fn(move |request: Request, next: Next| {
        let is_own = is_own(&request, &hosts);
        async move { answer(is_own, request, next).await }
    });
    let page = Admin::new(locks).axum().layer(guard);
    axum::serve(listener, page).await?;
    Ok(DONE)
}

/// Returns `true` if the browser means this machine. The name of a site that resolves to 127.0.0.1 would let
/// its scripts read the page.
fn is_own(request: &Request, hosts: &[String]) -> bool {
    let host = request.headers().get(HOST);
    host.is_some_and(|host| hosts.iter().any(|own| own.as_bytes() == host.as_bytes()))
}

async fn answer(is_own: bool, request: Request, next: Next) -> Response {
    match is_own {
        true => next.run(request).await,
        false => (StatusCode::MISDIRECTED_REQUEST, "this is 127.0.0.1\n").into_response(),
    }
}
