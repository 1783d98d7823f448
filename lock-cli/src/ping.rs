//! `locks ping`: whether locks can be acquired now.

use crate::args::Server;
use crate::connect::connect_to_ping;
use crate::exit::{DONE, Failure};
use crate::output::{is_json, print, print_json};
use serde_json::json;
use std::time::Instant;

pub(crate) async fn ping(server: &Server) -> Result<u8, Failure> {
    let locks = connect_to_ping(server).await?;
    let start = Instant::now();
    locks.ping().await?;
    let ms = start.elapsed().as_secs_f64() * 1000.0;
    match is_json() {
        true => print_json(&json!({ "ok": true, "ms": (ms * 1000.0).round() / 1000.0 })),
        false => print(&format!("locks can be acquired; {ms:.1} ms\n")),
    }
    Ok(DONE)
}
