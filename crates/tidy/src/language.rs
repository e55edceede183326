//! The language rule: words and sentence openings that GLOSSARY.md replaces.
//!
//! The rule reads prose: comments, string literals and function names of Rust files, the text of
//! pages outside of code, and whole headers, scripts and configuration files. It reads paragraph by
//! paragraph, so that a phrase is found across a line's end. Code spans are names and are skipped.
//!
//! [`BASELINE`] holds the number of findings that each file may have. A file above its number fails
//! the test. A file below it fails too, until `UPDATE=1 cargo test -p lastword-tidy` lowers the
//! number; the update never raises the sum. [`Rates`] measures what no word list can: the share of
//! pronouns and the length of sentences.

use std::collections::BTreeMap;

use regex::Regex;

use crate::Finding;
use crate::source::Source;

/// The file of allowed counts, from the repository's root.
pub const BASELINE: &str = "crates/tidy/language.baseline";

/// Files that quote banned words on purpose, or that record the past.
const EXEMPT: [&str; 6] = [
    "GLOSSARY.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "crates/tidy/src/language.rs",
    "crates/tidy/tests/language.rs",
    BASELINE,
];

/// Endings of files that are read as a whole.
const PLAIN: [&str; 8] = [".h", ".hpp", ".c", ".cpp", ".py", ".toml", ".sh", "/run"];

/// A banned pattern, and the words to write instead.
struct Term {
    pattern: &'static str,
    /// Phrases that contain the pattern and are right.
    except: &'static str,
    instead: &'static str,
}

const fn term(pattern: &'static str, instead: &'static str) -> Term {
    Term { pattern, except: "", instead }
}

/// STYLE's table. Patterns ignore case unless they say `(?-i)`.
const TERMS: [Term; 30] = [
    term(r"\bwho(ever|m)?\b", "name the thing: the worker, the reader, the thread that ..."),
    term(r"\b(nobody|somebody|no one|someone)\b", "name the subject: no thread, another worker"),
    term(r"\bones? that\b", "name the thing instead of `one that`"),
    term(r"(?-i)\bWhat(ever)?\b[^.?!]*[.!;:]", "begin with the thing, not with `What`"),
    term(
        r"\b(of|for|from|with|by|to|on|in|at|than|and|or|that|all|is|as|just|into|about) what\b",
        "name the thing instead of `what`",
    ),
    Term {
        pattern: r"\bhome\b",
        except: concat!(
            r"\bhome[ _](location|tile|node|directory|bank|bucket|controller|warehouse)s?\b",
            r"|\$HOME\b"
        ),
        instead: "heap image; apply to the heap image",
    },
    term(r"\blaps?\b", "wrap (of the log); run, round or sample (of a benchmark)"),
    Term {
        pattern: r"\bunder way\b|\bflights\b|\b(a|the|each) flight\b",
        except: r"\bcars, flights\b", // tables of STAMP's vacation
        instead: "in flight, outstanding",
    },
    term(r"\bon (its|their) way\b", "in flight"),
    term(r"\b(told|tells?|telling)\b", "notify, report, complete"),
    term(r"\b(answers|answered)\b", "returns (a function); replies (a message)"),
    term(r"\b(planted|plants)\b", "injected"),
    term(r"\btwins?\b", "mutant"),
    term(
        r"\b(durable|works?|working|steps?|threads?) behind\b|\bbehind (your|its|their) back\b",
        "in the background",
    ),
    term(r"\b(the|a|its) turns?\b", "the step lock; combining"),
    term(r"\bseats?\b", "worker state, transaction table"),
    term(r"\bfinders?\b", "index"),
    term(r"\bbells?\b", "notifier, wake"),
    term(r"\b(hurry|hurries|hurried|hastens?|hastened|squeezes|squeezed)\b", "expedite; request"),
    Term {
        pattern: r"\bheed(s|ed)?\b",
        except: r"\bheed = ", // the crate of LMDB
        instead: "supports",
    },
    term(r"\bmend(s|ed|ing)?\b", "repair, fix"),
    term(r"\b(shelf|shelves)\b", "slab, object pool"),
    term(r"\bfortunes?\b", "backoff"),
    term(r"\bgates?\b", "starvation lock"),
    term(r"\bboards?\b", "shard queue"),
    term(r"\bin good order\b", "cleanly"),
    term(
        r"\b(draws?|drawn|drew) (an?|its|the|their|one) ([a-z]+ )?(ids?|timestamps?)\b",
        "assign an ID, a commit timestamp",
    ),
    term(r"\bways? (is|was|are|were) gone\b|\bgone ways?\b", "explored executions"),
    term(r"\bletters? (to|of|from) (the|a) (core|controller)s?\b", "log message"),
    term(r"\bmarks? (hold|holds|held)\b", "target; expected range"),
];

/// One paragraph of prose: its first line, and its text with a line break where the file has one.
struct Paragraph {
    line: usize,
    text: String,
}

/// The compiled table.
pub struct Language {
    terms: Vec<(Regex, Option<Regex>, &'static str)>,
    code_span: Regex,
}

impl Default for Language {
    fn default() -> Language {
        let compile = |pattern: &str| {
            let pattern = format!("(?i){pattern}").replace(' ', r"\s+");
            Regex::new(&pattern).expect("the patterns are constants, and tests compile them")
        };
        let terms = TERMS.iter().map(|term| {
            let except = (!term.except.is_empty()).then(|| compile(term.except));
            (compile(term.pattern), except, term.instead)
        });
        Language { terms: terms.collect(), code_span: compile("`[^`]*`") }
    }
}

impl Language {
    /// Every banned phrase of one file; none for a file that is not prose or code of ours.
    pub fn check(&self, path: &str, text: &str) -> Vec<Finding> {
        let mut found = Vec::new();
        for paragraph in paragraphs(path, text) {
            let prose = self.code_span.replace_all(&paragraph.text, blank);
            for (pattern, except, instead) in &self.terms {
                let prose = match except {
                    Some(except) => except.replace_all(&prose, blank),
                    None => prose.clone(),
                };
                for hit in pattern.find_iter(&prose) {
                    let line = paragraph.line + prose[..hit.start()].matches('\n').count();
                    let phrase: Vec<&str> = hit.as_str().split_whitespace().take(4).collect();
                    let what = format!("`{}`: write {instead}", phrase.join(" "));
                    found.push(Finding { file: path.to_owned(), line, rule: "language", what });
                }
            }
        }
        found
    }
}

/// As many blanks as the match has bytes, with its line breaks, so that positions stay.
fn blank(matched: &regex::Captures<'_>) -> String {
    matched[0].bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }).collect()
}

fn paragraphs(path: &str, text: &str) -> Vec<Paragraph> {
    if EXEMPT.contains(&path) {
        Vec::new()
    } else if path.ends_with(".rs") {
        let source = Source::new(path, text);
        let mut all = joined(comment_lines(&source));
        let strings = source.lines.iter().enumerate();
        let strings = strings.filter(|(_, line)| !line.text.is_empty());
        all.extend(strings.map(|(i, line)| Paragraph { line: i + 1, text: line.text.clone() }));
        let names = source.functions().into_iter();
        all.extend(names.map(|f| Paragraph { line: f.line, text: f.name.replace('_', " ") }));
        all
    } else if path.ends_with(".md") {
        joined(outside_of_code(text.lines().enumerate().map(|(i, line)| (i + 1, line))))
    } else if PLAIN.iter().any(|ending| path.ends_with(ending)) {
        joined(text.lines().enumerate().map(|(i, line)| (i + 1, line)))
    } else {
        Vec::new()
    }
}

/// The comments of a file without their slashes; code examples of docs are left out.
fn comment_lines(source: &Source) -> Vec<(usize, &str)> {
    let comments = source.lines.iter().enumerate().filter(|(_, line)| !line.comment.is_empty());
    let bare = comments.map(|(i, line)| {
        (i + 1, line.comment.trim_start_matches(['/', '!', '*']).trim_start_matches(' '))
    });
    outside_of_code(bare).collect()
}

/// Lines outside of fenced blocks. A picture (a block of `text`) counts as prose.
fn outside_of_code<'t>(
    lines: impl Iterator<Item = (usize, &'t str)>,
) -> impl Iterator<Item = (usize, &'t str)> {
    let mut fence: Option<bool> = None;
    lines.filter(move |(_, line)| {
        let Some(kind) = line.trim_start().strip_prefix("```") else {
            return fence != Some(true);
        };
        fence = fence.is_none().then(|| !kind.starts_with("text"));
        false
    })
}

/// Joins lines that follow each other; a blank line, a heading, an item or a row begins anew.
fn joined<'t>(lines: impl IntoIterator<Item = (usize, &'t str)>) -> Vec<Paragraph> {
    let mut all: Vec<Paragraph> = Vec::new();
    let mut last = 0;
    for (line, text) in lines {
        let text = text.trim();
        let begins = line != last + 1 || text.starts_with(['#', '-', '*', '|', '+']);
        match all.last_mut() {
            Some(paragraph) if !begins => {
                paragraph.text.push('\n');
                paragraph.text.push_str(text);
            }
            _ => all.push(Paragraph { line, text: text.to_owned() }),
        }
        last = if text.is_empty() { 0 } else { line };
    }
    all
}

/// The counts of a baseline file: `count path` on each line.
pub fn baseline(text: &str) -> BTreeMap<String, usize> {
    let rows = text.lines().filter_map(|line| line.split_once(' '));
    rows.filter_map(|(count, path)| Some((path.to_owned(), count.parse().ok()?))).collect()
}

/// Findings of each file that has any.
pub fn counts(found: &[Finding]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for finding in found {
        *counts.entry(finding.file.clone()).or_default() += 1;
    }
    counts
}

/// The text of a baseline file.
pub fn render(counts: &BTreeMap<String, usize>) -> String {
    counts.iter().map(|(path, count)| format!("{count} {path}\n")).collect()
}

/// The findings of files above their number, and files whose number is too high.
pub fn against(allowed: &BTreeMap<String, usize>, found: &[Finding]) -> Vec<Finding> {
    let now = counts(found);
    let number = |counts: &BTreeMap<String, usize>, path: &str| counts.get(path).map_or(0, |&n| n);
    let above = |path: &str| number(&now, path) > number(allowed, path);
    let mut all: Vec<Finding> = found.iter().filter(|it| above(&it.file)).cloned().collect();
    for (path, &count) in allowed {
        if number(&now, path) < count {
            let what = format!(
                "{} findings, the baseline allows {count}: lower it with \
                 `UPDATE=1 cargo test -p lastword-tidy`",
                number(&now, path)
            );
            all.push(Finding { file: path.clone(), line: 1, rule: "language-baseline", what });
        }
    }
    all
}

/// Rates of prose that GLOSSARY.md's targets are about.
#[derive(Debug, Default, PartialEq)]
pub struct Rates {
    /// Words of comments and pages.
    pub words: usize,
    /// `who`, `whoever`, `whom`.
    pub who: usize,
    /// `nobody`, `somebody`.
    pub nobody: usize,
    /// `what`, `whatever`.
    pub what: usize,
    /// Words of each sentence of three words or more.
    pub sentences: Vec<usize>,
    /// Sentences with a colon or a semicolon.
    pub colons: usize,
}

impl Rates {
    /// Adds the comments of a Rust file or the text of a page. Tables and code are left out.
    pub fn add(&mut self, path: &str, text: &str) {
        let source;
        let lines: Vec<(usize, &str)> = if path.ends_with(".rs") {
            source = Source::new(path, text);
            comment_lines(&source)
        } else {
            outside_of_code(text.lines().enumerate()).collect()
        };
        for paragraph in joined(lines) {
            let text = paragraph.text.trim_start_matches(['#', '-', '*', ' ']);
            if !text.starts_with(['|', '+']) {
                self.add_paragraph(text);
            }
        }
    }

    fn add_paragraph(&mut self, text: &str) {
        // A code span counts as one word.
        let spans = text.split('`').enumerate();
        let text: String = spans.map(|(i, part)| if i % 2 == 1 { "X" } else { part }).collect();
        let mut sentence = Vec::new();
        for word in text.split_whitespace() {
            let bare = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
            self.words += 1;
            self.who += usize::from(["who", "whoever", "whom"].contains(&bare.as_str()));
            self.nobody += usize::from(["nobody", "somebody"].contains(&bare.as_str()));
            self.what += usize::from(["what", "whatever"].contains(&bare.as_str()));
            sentence.push(word);
            if word.ends_with(['.', '?', '!']) {
                self.end(&mut sentence);
            }
        }
        self.end(&mut sentence);
    }

    fn end(&mut self, sentence: &mut Vec<&str>) {
        if sentence.len() >= 3 {
            self.sentences.push(sentence.len());
            self.colons += usize::from(sentence.iter().any(|word| word.ends_with([':', ';'])));
        }
        sentence.clear();
    }

    /// Occurrences in 1000 words.
    pub fn in_1000(&self, count: usize) -> f64 {
        1000.0 * count as f64 / self.words.max(1) as f64
    }

    /// Words of the median sentence.
    pub fn median(&self) -> usize {
        let mut lengths = self.sentences.clone();
        lengths.sort_unstable();
        lengths.get(lengths.len() / 2).map_or(0, |&words| words)
    }

    /// Sentences with a colon or a semicolon, in 100.
    pub fn colons_in_100(&self) -> f64 {
        100.0 * self.colons as f64 / self.sentences.len().max(1) as f64
    }
}
