//! `lastword completions` and `lastword man`: shell completions and manual pages, generated from
//! the definition of the command line.

use std::io::{self, Write};
use std::path::Path;

use clap::CommandFactory;
use clap_mangen::Man;

use crate::args::{CommandLine, Completions, Manual};
use crate::failure::{Failure, Verdict};
use crate::output;

/// Prints the completion script of a shell.
///
/// # Errors
/// Standard output cannot be written.
pub(crate) fn completions(arguments: &Completions) -> Result<Verdict, Failure> {
    let mut command = CommandLine::command();
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut command, name, &mut script);
    output::stream(|out| out.write_all(&script))?;
    Ok(Verdict::Held)
}

/// Prints the whole manual, or writes it to a directory, one page a command.
///
/// # Errors
/// A page cannot be written.
pub(crate) fn man(arguments: &Manual) -> Result<Verdict, Failure> {
    match &arguments.out {
        Some(directory) => write(directory).map_err(Failure::io("writing the manual"))?,
        None => {
            let pages = whole().map_err(Failure::io("writing the manual"))?;
            output::stream(|out| out.write_all(&pages))?;
        }
    }
    Ok(Verdict::Held)
}

fn write(directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    clap_mangen::generate_to(CommandLine::command(), directory)
}

/// Returns all pages, one after another.
fn whole() -> io::Result<Vec<u8>> {
    fn add(command: &clap::Command, pages: &mut Vec<u8>) -> io::Result<()> {
        Man::new(command.clone()).render(pages)?;
        command.get_subcommands().try_for_each(|command| add(command, pages))
    }
    let mut command = CommandLine::command().disable_help_subcommand(true);
    command.build(); // fills in the full names of subcommands, which pages show
    let mut pages = Vec::new();
    add(&command, &mut pages)?;
    Ok(pages)
}
