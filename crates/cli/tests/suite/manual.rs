//! `lastword completions` and `lastword man` cover every command and flag.

use crate::common::Room;

/// Returns every command that the help lists, with its parents.
fn commands(room: &Room) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    let mut open = vec![Vec::new()];
    while let Some(command) = open.pop() {
        let arguments: Vec<&str> = command.iter().map(String::as_str).collect();
        let help = room.expect(0, &crate::common::with(&arguments, &["--help"]));
        let list = help.split("Commands:\n").nth(1).unwrap_or_default();
        for line in list.lines().take_while(|line| !line.is_empty()) {
            // A name is indented by two spaces, and a continued description by more.
            let Some(name) = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')) else {
                continue;
            };
            let name = name.split_whitespace().next().unwrap();
            if name != "help" {
                open.push(command.iter().cloned().chain([name.to_owned()]).collect());
            }
        }
        found.push(command);
    }
    found
}

#[test]
fn completions_know_every_command() {
    let room = Room::new();
    let commands = commands(&room);
    assert!(commands.len() >= 10, "{commands:?}");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = room.expect(0, &["completions", shell]);
        for name in commands.iter().flatten() {
            assert!(script.contains(name), "{shell}: {name}");
        }
        for flag in ["log-bytes", "durability"] {
            assert!(script.contains(flag), "{shell}: {flag}");
        }
        assert!(!script.contains("kill-writer"), "{shell}: an internal command is offered");
    }
    assert_eq!(room.run(&["completions", "no-such-shell"]).status.code(), Some(2));
}

#[test]
fn manual_has_a_page_per_command() {
    let room = Room::new();
    let whole = room.expect(0, &["man"]);
    assert_eq!(room.expect(0, &["man", "--out", "pages"]), "");
    let commands = commands(&room);
    assert_eq!(whole.matches("\n.TH ").count(), commands.len());
    for command in &commands {
        let name = [&["lastword".to_owned()], &command[..]].concat().join("-");
        let page = std::fs::read_to_string(room.path("pages").join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{name}");
        assert!(page.contains(&format!(".TH {name} 1")), "{name}");
        assert!(whole.contains(&page), "{name}: the whole manual lacks its page");
    }
    let pages = std::fs::read_dir(room.path("pages")).unwrap().count();
    assert_eq!(pages, commands.len());
    let run = std::fs::read_to_string(room.path("pages/lastword-run.1")).unwrap();
    assert!(run.contains("log\\-bytes") && run.contains("workload"), "{run}");
}

#[test]
fn unwritable_manual_is_refused() {
    let room = Room::new();
    std::fs::write(room.path("file"), "").unwrap();
    room.refuse("writing the manual", &["man", "--out", "file"]);
}
