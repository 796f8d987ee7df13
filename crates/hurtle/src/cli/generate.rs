//! `hurtle completions` and `hurtle man`: texts made from the definition of the command line.

use std::io;

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;

use super::Cli;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl CompletionsArgs {
    /// The completions of all commands and options.
    pub fn text(&self) -> Vec<u8> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), NAME, &mut text);
        text
    }
}

/// Returns the manual page, in roff. It has a section for each command.
///
/// # Errors
/// None occurs: the page is written to memory.
pub fn man() -> io::Result<Vec<u8>> {
    let mut command = Cli::command().name(NAME);
    command.build();
    let page = Man::new(command.clone());
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    for command in command.get_subcommands().filter(|command| !command.is_hide_set()) {
        if command.get_name() == "help" {
            continue;
        }
        let heading = format!("{NAME} {}", command.get_name()).to_uppercase();
        text.extend(format!(".SH \"{heading}\"\n").bytes());
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        text.extend(escaped(&about).bytes());
        text.push(b'\n');
        let mut options = Vec::new();
        Man::new(command.clone()).render_options_section(&mut options)?;
        // A section of a command's own page is a part of its section here.
        let options = String::from_utf8_lossy(&options).replace(".SH OPTIONS", ".SS Options");
        text.extend(options.bytes());
    }
    text.extend(FOOT.bytes());
    Ok(text)
}

const NAME: &str = "hurtle";

const FOOT: &str = r#".SH FILES
.TP
hurtle.toml
The configuration that is read if no other is named. The key reference and the guides are in the
documentation of the package.
.SH "EXIT STATUS"
.TP
0
Success.
.TP
1
The command failed.
.TP
2
The arguments or the configuration have problems; each is on a line of standard error.
.TP
3
hurtle import \-\-partial has left out directives.
.SH SIGNALS
.TP
SIGTERM, SIGINT
Stop after the requests in flight; the second one stops at once.
.TP
SIGHUP
Reload the configuration.
.TP
SIGUSR1
Reopen the log files.
.TP
SIGUSR2
Replace the process by the program that its file holds now, as hurtle upgrade does.
"#;

/// Escapes text for roff.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    // A line must not begin like a request.
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, ValueEnum};
    use clap_complete::Shell;

    use super::{Cli, CompletionsArgs, escaped, man};

    #[test]
    fn every_visible_command_is_completed_and_described() {
        let page = String::from_utf8(man().expect("it is written to memory")).expect("UTF-8");
        for command in Cli::command().get_subcommands().filter(|c| !c.is_hide_set()) {
            let name = command.get_name();
            assert!(page.contains(&format!(".SH \"HURTLE {}\"", name.to_uppercase())), "{name}");
            for shell in Shell::value_variants() {
                let text = String::from_utf8(CompletionsArgs { shell: *shell }.text());
                assert!(text.expect("UTF-8").contains(name), "{shell}: {name}");
            }
        }
        assert!(!page.contains("keep-app"), "a hidden command");
    }

    #[test]
    fn text_is_escaped_for_roff() {
        assert_eq!(escaped(".a-b\\"), "\\&.a\\-b\\e");
    }
}
