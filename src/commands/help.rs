//! `spoor help [COMMAND | TOPIC]`: the commands, and the topics of the guide.

use anyhow::Result;
use clap::CommandFactory;
use clap::error::ErrorKind;
use spoor::guide::{TOPICS, Topic};

use super::Arguments;

/// The width if standard output is not a terminal, and the maximum width.
const COLUMNS: (u16, u16) = (80, 100);

/// The commands by what they are for.
const GROUPS: [(&str, &[&str]); 7] = [
    ("Crawl", &["demo", "init", "crawl", "ctl", "ui"]),
    (
        "See what it brought",
        &["report", "explain", "host", "search"],
    ),
    (
        "Use it",
        &[
            "rank",
            "export",
            "corpus",
            "index",
            "print",
            "annotate",
            "agreement",
        ],
    ),
    ("Archives and removal", &["archive", "replay", "takedown"]),
    (
        "Language and fields",
        &["rules", "entities", "tagger", "pdf", "score", "train"],
    ),
    (
        "Keep it running",
        &[
            "config",
            "doctor",
            "keys",
            "reload",
            "frontier",
            "checkpoint",
            "cluster",
        ],
    ),
    (
        "Others",
        &["schema", "licenses", "completions", "man", "help"],
    ),
];

/// The command line, with its commands in groups.
pub fn grouped() -> clap::Command {
    let mut command = Arguments::command().override_usage("spoor [OPTIONS] <COMMAND>");
    let mut commands = "Commands:\n".to_owned();
    for (heading, names) in GROUPS {
        commands.push_str(&format!("  {heading}:\n"));
        for name in names {
            let Some(of) = command.find_subcommand(name) else {
                // It was built without it.
                continue;
            };
            let about = of.get_about().map(ToString::to_string).unwrap_or_default();
            commands.push_str(&format!("    {name:<11}  {about}\n"));
            // clap would list them once more, without groups.
            command = command.mut_subcommand(name, |of| of.hide(true));
        }
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{commands}\n{{all-args}}{{after-help}}"
    ))
}

/// Prints the help of a command as `--help` does, or a topic, or both if both exist.
pub fn run(what: &[String]) -> Result<()> {
    if let [name] = what
        && let Some(topic) = Topic::named(name)
    {
        let columns = console::Term::stdout().size_checked();
        let columns = columns.map_or(COLUMNS.0, |(_, columns)| columns.min(COLUMNS.1));
        print!("{}", topic.plain(usize::from(columns).max(20)));
        return Ok(());
    }
    let mut command = grouped();
    command.build();
    for (at, name) in what.iter().enumerate() {
        let Some(next) = command.find_subcommand(name) else {
            let message = match at {
                0 => unknown(name),
                _ => format!("`spoor {}` has no command `{name}`", what[..at].join(" ")),
            };
            command.error(ErrorKind::InvalidSubcommand, message).exit();
        };
        command = next.clone();
    }
    let asked = ["spoor"].into_iter().chain(what.iter().map(String::as_str));
    if let Err(help) = grouped().try_get_matches_from(asked.chain(["--help"])) {
        help.print()?;
    }
    if what.is_empty() {
        print!("\n{}", topics());
    }
    Ok(())
}

/// The topics, one per line.
fn topics() -> String {
    let longest = TOPICS.iter().map(|t| t.name.len()).max().unwrap_or(0);
    let line = |topic: &Topic| format!("  {:<longest$}  {}\n", topic.name, topic.about);
    let lines: String = TOPICS.iter().map(line).collect();
    format!("Topics of the guide, for `spoor help TOPIC`:\n{lines}")
}

fn unknown(name: &str) -> String {
    let near = TOPICS
        .iter()
        .map(|topic| (strsim::jaro(name, topic.name), topic.name))
        .filter(|(likeness, _)| *likeness > 0.7)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or_else(String::new, |(_, near)| format!("; did you mean `{near}`?"));
    format!(
        "there is no command and no topic `{name}`{near}\n\n{}\n\
         `spoor help` lists the commands as well.",
        topics()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_is_in_one_group_and_its_line_fits() {
        let all = Arguments::command();
        let mut visible: Vec<&str> = (all.get_subcommands())
            .filter(|command| !command.is_hide_set())
            .map(clap::Command::get_name)
            .collect();
        let mut named = GROUPS.map(|(_, names)| names).concat();
        visible.sort_unstable();
        named.sort_unstable();
        assert_eq!(visible, named);
        let help = grouped().render_help().to_string();
        let (commands, _) = help.split_once("\nOptions:").unwrap();
        for name in visible {
            assert!(
                commands.contains(&format!("\n    {name} ")),
                "{name}\n{help}"
            );
        }
        for line in commands.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }

    #[test]
    fn no_topic_has_the_name_of_a_command() {
        let all = Arguments::command();
        for topic in TOPICS {
            assert!(all.find_subcommand(topic.name).is_none(), "{}", topic.name);
        }
    }

    #[test]
    fn an_unknown_topic_is_answered_with_all() {
        let message = unknown("image");
        assert!(message.contains("did you mean `images`?"), "{message}");
        assert!(!unknown("xyzzy").contains("did you mean"));
        for topic in TOPICS {
            assert!(message.contains(topic.about), "{message}");
        }
    }
}
