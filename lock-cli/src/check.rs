//! `locks check`: the settings of the servers that may lose locks.

use crate::args::Server;
use crate::connect::connect_to_servers;
use crate::exit::{DONE, Failure, WARNINGS};
use crate::output::{heading, is_json, print, print_json};
use crate::text::escaped;
use lock_runtime::Warning;
use serde_json::{Value, json};

pub(crate) async fn check(server: &Server) -> Result<u8, Failure> {
    let locks = connect_to_servers(server).await?;
    let warnings = locks.check_servers().await;
    for warning in &warnings {
        match is_json() {
            true => print_json(&object(warning)),
            false => print(&paragraph(warning)),
        }
    }
    if warnings.is_empty() && !is_json() {
        print("no warnings\n");
    }
    Ok(if warnings.is_empty() { DONE } else { WARNINGS })
}

fn object(warning: &Warning) -> Value {
    json!({
        "server": warning.server(),
        "kind": format!("{:?}", warning.kind()),
        "finding": warning.finding(),
        "consequence": warning.consequence(),
        "remedy": warning.remedy(),
    })
}

fn paragraph(warning: &Warning) -> String {
    format!(
        "{}  {}\n  danger     {}\n  remedy     {}\n",
        heading(&escaped(warning.server())),
        escaped(warning.finding()),
        warning.consequence(),
        warning.remedy()
    )
}
