//! The pages of the manual: one for the program, and one for each command. The page of a subcommand, such as `strategy
//! test`, is `jp-compact-strategy-test`. Every page that another page names must exist.

use std::io;

use clap::Command;

/// Returns the names of the commands that have a page: `show`, or `strategy-test`.
pub fn names(cli: &Command) -> Vec<String> {
    let mut names = Vec::new();
    collect(cli, "", &mut names);
    names
}

fn collect(command: &Command, prefix: &str, names: &mut Vec<String>) {
    for subcommand in command.get_subcommands().filter(|subcommand| subcommand.get_name() != "help") {
        let name = format!("{prefix}{}", subcommand.get_name());
        collect(subcommand, &format!("{name}-"), names);
        names.push(name);
    }
}

/// Returns the page of a command, or of the program. `None` if there is no such command. The words of a command may be
/// separated by spaces or hyphens.
///
/// # Errors
/// The page cannot be rendered. This is a bug of `clap_mangen`.
pub fn page(cli: Command, name: Option<&str>) -> Option<io::Result<Vec<u8>>> {
    let name = name.map(|name| name.strip_prefix("jp-compact-").unwrap_or(name).replace(' ', "-"));
    let pages = pages(cli);
    let wanted = name.map_or_else(|| "jp-compact".to_owned(), |name| format!("jp-compact-{name}"));
    pages.into_iter().find(|(page, _)| *page == wanted).map(|(_, command)| render(&command))
}

/// Returns the file name and the text of every page.
///
/// # Errors
/// See [`page`].
pub fn all_pages(cli: Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    pages(cli).into_iter().map(|(name, command)| Ok((format!("{name}.1"), render(&command)?))).collect()
}

/// Returns every command with the name of its page.
fn pages(cli: Command) -> Vec<(String, Command)> {
    let mut cli = cli.disable_help_subcommand(true);
    cli.build();
    let mut pages = Vec::new();
    collect_pages(cli, "jp-compact".to_owned(), &mut pages);
    pages
}

fn collect_pages(command: Command, name: String, pages: &mut Vec<(String, Command)>) {
    for subcommand in command.get_subcommands() {
        collect_pages(subcommand.clone(), format!("{name}-{}", subcommand.get_name()), pages);
    }
    // The page prints the name of each subcommand as `NAME-SUBCOMMAND(1)`.
    pages.push((name.clone(), command.display_name(name)));
}

/// The sections of a page that are not below `OPTIONS`.
const SECTIONS: [&str; 4] = ["NAME", "SYNOPSIS", "DESCRIPTION", "VERSION"];

/// Renders a page with the sections that manual pages have. `clap_mangen` makes a section of each heading of options.
fn render(command: &Command) -> io::Result<Vec<u8>> {
    let mut generated = Vec::new();
    clap_mangen::Man::new(command.clone()).manual("jp-compact").render(&mut generated)?;
    let generated = String::from_utf8_lossy(&generated);
    let after = command.get_after_long_help().or_else(|| command.get_after_help()).map(ToString::to_string);
    let (mut page, mut has_options, mut is_after) = (String::new(), false, false);
    for line in generated.lines() {
        let Some(heading) = line.strip_prefix(".SH ") else {
            if !is_after {
                page += line;
                page.push('\n');
            }
            continue;
        };
        let heading = heading.trim_matches('"');
        is_after = heading == "EXTRA";
        match heading {
            "EXTRA" => page += &after_sections(after.as_deref().unwrap_or_default()),
            "OPTIONS" => {
                has_options = true;
                page += ".SH OPTIONS\n";
            }
            "SUBCOMMANDS" => page += ".SH COMMANDS\n",
            heading if SECTIONS.contains(&heading) => page += &format!(".SH {heading}\n"),
            heading => {
                if !has_options {
                    page += ".SH OPTIONS\n";
                }
                has_options = true;
                page += &format!(".SS \"{}\"\n", capitalized(heading));
            }
        }
    }
    Ok(page.into_bytes())
}

/// Returns `Trust` for `TRUST`.
fn capitalized(heading: &str) -> String {
    let (first, rest) = heading.split_at(heading.chars().next().map_or(0, char::len_utf8));
    format!("{}{}", first.to_uppercase(), rest.to_lowercase())
}

/// Returns the sections after the options: examples, exit codes, and notes. Their lines are not filled.
fn after_sections(text: &str) -> String {
    let mut sections = String::new();
    let mut is_open = false;
    for line in text.lines() {
        let heading = match line {
            "Example:" | "Examples:" => Some("EXAMPLES"),
            "Exit codes:" => Some("EXIT STATUS"),
            _ => None,
        };
        match heading {
            Some(heading) => {
                let end = if is_open { ".fi\n" } else { "" };
                sections += &format!("{end}.SH \"{heading}\"\n.nf\n");
                is_open = true;
            }
            None => {
                if !is_open {
                    sections += ".SH NOTES\n.nf\n";
                    is_open = true;
                }
                sections += &format!("\\&{}\n", line.replace('\\', "\\e").replace('-', "\\-"));
            }
        }
    }
    if is_open { sections + ".fi\n" } else { sections }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_after_the_options_has_sections() {
        let text = "Examples:\n  a --b\n\nExit codes:\n  0  c\\";
        let expected =
            ".SH \"EXAMPLES\"\n.nf\n\\&  a \\-\\-b\n\\&\n.fi\n.SH \"EXIT STATUS\"\n.nf\n\\&  0  c\\e\n.fi\n";
        assert_eq!(after_sections(text), expected);
        assert_eq!(capitalized("GLOBAL OPTIONS"), "Global options");
    }
}
