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
    // Also if the arguments are not understood.
    let mut arguments = std::env::args_os().take_while(|it| it != "--");
    output::set_json(arguments.any(|it| it == "--json"));
    let code = match Args::try_parse() {
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
            Command::Show { key } => show::show(server, key, args.json).await,
            Command::List(options) => list::list(server, options, args.json).await,
            Command::Top { watch, every, list } => {
                top::top(server, list, watch.then_some(*every), args.json).await
            }
            Command::Processes => processes::processes(server, args.json).await,
            Command::Revoke(options) => revoke::revoke(server, options, args.json).await,
            Command::Run(options) => run::run(server, options).await,
            Command::Check => check::check(server, args.json).await,
            Command::Ping => ping::ping(server, args.json).await,
            Command::Serve { port } => serve::serve(server, *port, args.json).await,
            _ => Ok(exit::DONE),
        }
    })
}
