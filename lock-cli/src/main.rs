//! `locks`: shows who holds a distributed lock, gets it back, and runs a command under one.

#[cfg(not(unix))]
compile_error!("`locks` runs commands in process groups, which only Unix has");

mod answers;
mod args;
mod check;
mod connect;
mod exec;
mod exit;
mod list;
mod manual;
mod output;
mod ping;
mod processes;
mod revoke;
mod run;
mod serve;
mod show;
mod table;
mod text;
mod top;

use args::{Args, Command};
use clap::Parser;
use exit::Failure;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = Args::try_parse();
    // Also if the arguments are not understood.
    let mut arguments = std::env::args_os().take_while(|it| it != "--");
    let mut is_json = || arguments.any(|it| it == "--json");
    output::set_json(args.as_ref().map_or_else(|_| is_json(), |args| args.json));
    let code = match args {
        Ok(args) => execute(&args).unwrap_or_else(Failure::report),
        Err(error) => exit::of_arguments(&error),
    };
    ExitCode::from(code)
}

/// Returns the exit code.
fn execute(args: &Args) -> Result<u8, Failure> {
    match &args.command {
        Command::Completions { shell } => manual::print_completions(*shell),
        Command::Man => manual::print_page(),
        Command::Exec { parent, command } => Err(exec::exec(*parent, command)),
        command => on_server(args, command),
    }
}

fn on_server(args: &Args, command: &Command) -> Result<u8, Failure> {
    // On the main thread alone: the command that it starts must die with that thread.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let server = &args.server;
    runtime.block_on(async {
        match command {
            Command::Show { key } => show::show(server, key).await,
            Command::List(options) => list::list(server, options).await,
            Command::Top { watch, every, list } => {
                top::top(server, list, watch.then_some(*every)).await
            }
            Command::Processes => processes::processes(server).await,
            Command::Revoke(options) => revoke::revoke(server, options).await,
            Command::Run(options) => run::run(server, options).await,
            Command::Check => check::check(server).await,
            Command::Ping => ping::ping(server).await,
            Command::Serve { port } => serve::serve(server, *port).await,
            _ => Ok(exit::DONE),
        }
    })
}
