//! `hairpin completions SHELL` and `hairpin man`, generated from the command line's definition.

use clap::ArgMatches;

use super::command::command;
use super::exit::{Exit, Stopped};
use super::output;
use crate::program::Program;

pub fn completions(program: &Program, matches: &ArgMatches) -> Result<Exit, Stopped> {
    let shell = *matches.get_one::<clap_complete::Shell>("SHELL").expect("it is required");
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command(program), "hairpin", &mut script);
    output::text(&String::from_utf8_lossy(&script));
    Ok(Exit::Fine)
}

pub fn man(program: &Program, matches: &ArgMatches) -> Result<Exit, Stopped> {
    let mut page = command(program);
    page.build();
    for name in matches.get_many::<String>("COMMAND").unwrap_or_default() {
        let known: Vec<&str> = page.get_subcommands().map(clap::Command::get_name).collect();
        let name = hairpin_model::names::find("command", name, &known).map_err(Stopped::usage)?;
        page = page.find_subcommand(name).expect("found among their names").clone();
    }
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text).map_err(Stopped::usage)?;
    output::text(&String::from_utf8_lossy(&text));
    Ok(Exit::Fine)
}
