//! docs/reference/format.md: every durable format, from the module that encodes it.
//!
//! A section starts in a file's module docs with a heading `# Durable format: <title>` and ends at
//! the next heading or with the docs.

/// The path of the page.
pub const PATH: &str = "docs/reference/format.md";

const HEADING: &str = "# Durable format:";

const HEAD: &str = "\
<!-- Generated from the sources by `UPDATE=1 cargo test -p lastword-tidy`: edit those. -->
# Durable formats

The bytes that Lastword writes to a medium, word by word. Each section is the text of the module
that encodes it; a test compares this page with the modules. Everything is little-endian.
";

/// One format: its title and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The heading's text after the colon.
    pub title: String,
    /// The lines below it.
    pub text: String,
}

/// Returns the page for these sources (path and text), in this order.
pub fn page(sources: &[(String, String)]) -> String {
    let mut page = HEAD.to_owned();
    for (path, text) in sources {
        for section in sections(text) {
            let Section { title, text } = section;
            page.push_str(&format!("\n## {title}\n\nSource: `{path}`\n\n{text}"));
        }
    }
    page
}

/// Returns the formats that the module docs of a file describe.
pub fn sections(source: &str) -> Vec<Section> {
    let docs = source
        .lines()
        .skip_while(|line| line.trim().is_empty())
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line).trim_end());
    let mut sections: Vec<Section> = Vec::new();
    let (mut inside, mut fenced) = (false, false);
    for line in docs {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if !fenced && line.starts_with('#') {
            inside = line.starts_with(HEADING);
            if inside {
                let title = line[HEADING.len()..].trim().to_owned();
                sections.push(Section { title, text: String::new() });
            }
            continue;
        }
        if let (true, Some(section)) = (inside, sections.last_mut()) {
            section.text.push_str(line);
            section.text.push('\n');
        }
    }
    for section in &mut sections {
        section.text = format!("{}\n", section.text.trim_matches('\n'));
    }
    sections
}

/// Returns the first line in which two texts differ, from 1; `None` when they are equal.
pub fn first_difference(a: &str, b: &str) -> Option<usize> {
    let lines = a.lines().zip(b.lines()).take_while(|(a, b)| a == b).count();
    (a != b).then_some(lines + 1)
}
