//! The manual page, and the completion of arguments.

use crate::args::Args;
use crate::exit::{DONE, Failure};
use crate::output::print;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use std::io;

pub(crate) fn print_completions(shell: Shell) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "locks", &mut script);
    print(&String::from_utf8_lossy(&script));
    Ok(DONE)
}

pub(crate) fn print_page() -> Result<u8, Failure> {
    print(&page()?);
    Ok(DONE)
}

/// Returns a page with a section for each subcommand, since no one looks for pages of subcommands.
fn page() -> io::Result<String> {
    let command = Args::command();
    let mut page = Vec::new();
    Man::new(command.clone()).render(&mut page)?;
    let mut page = String::from_utf8_lossy(&page).into_owned();
    // They are in the sections, and have no pages of their own.
    page = page.replace("locks\\-", "locks ").replace("(1)\n", "\n");
    for subcommand in command.get_subcommands().filter(|it| !it.is_hide_set()) {
        page += &section(subcommand)?;
    }
    Ok(page)
}

fn section(subcommand: &Command) -> io::Result<String> {
    let name = format!("locks {}", subcommand.get_name());
    let heading = format!(".SH \"{}\"\n", name.to_uppercase());
    let man = Man::new(subcommand.clone().bin_name(name));
    let mut parts = Vec::new();
    man.render_synopsis_section(&mut parts)?;
    man.render_description_section(&mut parts)?;
    man.render_options_section(&mut parts)?;
    let parts = String::from_utf8_lossy(&parts).replace(".SH ", ".SS ");
    Ok(heading + &parts)
}
