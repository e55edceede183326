//! A Rust file, line by line, with code and comments separated.
//!
//! This is a scan, not a parser. It handles line and nested block comments, strings with escapes,
//! raw strings, character literals and lifetimes. The content of strings is blanked out of the
//! code. Macros are not expanded, so functions in a macro's output are not found. A brace in a
//! signature (a const generic's `{ N + 1 }`) counts as the function's body, so its length comes out
//! short.

/// One line.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// The line as in the file.
    pub raw: String,
    /// Its code without comments and the content of strings.
    pub code: String,
    /// Its comments, with their slashes.
    pub comment: String,
    /// The contents of its strings, with a blank for each escape and after each string.
    pub text: String,
}

/// A scanned file.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its path from the repository's root.
    pub path: String,
    /// Its lines.
    pub lines: Vec<Line>,
}

/// A function of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name.
    pub name: String,
    /// The line of its `fn`, from 1.
    pub line: usize,
    /// Lines from there to its closing brace.
    pub lines: usize,
}

#[derive(Clone, Copy)]
enum State {
    Code,
    LineComment,
    BlockComment { depth: usize },
    Text,
    RawText { hashes: usize },
}

impl Source {
    /// Scans a text.
    pub fn new(path: &str, text: &str) -> Source {
        let lines = text.lines().map(|raw| Line { raw: raw.to_owned(), ..Line::default() });
        let mut scan = Scan {
            chars: text.chars().collect(),
            at: 0,
            state: State::Code,
            line: 0,
            lines: lines.chain([Line::default()]).collect(),
        };
        while scan.at < scan.chars.len() {
            scan.step();
        }
        scan.lines.pop();
        Source { path: path.to_owned(), lines: scan.lines }
    }

    /// Returns the folder name of the crate that the file belongs to.
    pub fn crate_name(&self) -> &str {
        self.path.split('/').nth(1).unwrap_or_default()
    }

    /// Returns every function with a body.
    pub fn functions(&self) -> Vec<Function> {
        let code: Vec<(usize, char)> = self
            .lines
            .iter()
            .enumerate()
            .flat_map(|(i, line)| line.code.chars().chain(['\n']).map(move |c| (i + 1, c)))
            .collect();
        let mut functions = Vec::new();
        for (i, name) in words(&code).filter(|(_, name)| name == "fn") {
            let after = &code[i + name.len()..];
            let Some((_, name)) = words(after).next() else { continue };
            // In a function type a parenthesis follows `fn`.
            if after.iter().find(|(_, c)| !c.is_whitespace()).is_none_or(|&(_, c)| !is_word(c)) {
                continue;
            }
            if let Some(end) = body_end(after) {
                let line = code[i].0;
                functions.push(Function { name, line, lines: end - line + 1 });
            }
        }
        functions
    }
}

/// Returns whether `code` contains this whole word.
pub fn has_word(code: &str, word: &str) -> bool {
    let chars: Vec<(usize, char)> = code.chars().map(|c| (0, c)).collect();
    words(&chars).any(|(_, found)| found == word)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the words of a text with the index of their first characters.
fn words(chars: &[(usize, char)]) -> impl Iterator<Item = (usize, String)> {
    let starts =
        (0..chars.len()).filter(|&i| is_word(chars[i].1) && (i == 0 || !is_word(chars[i - 1].1)));
    starts.map(|i| (i, chars[i..].iter().map(|&(_, c)| c).take_while(|&c| is_word(c)).collect()))
}

/// Returns the line of the brace that closes the first body; `None` for a declaration.
fn body_end(code: &[(usize, char)]) -> Option<usize> {
    let (mut braces, mut brackets) = (0, 0);
    for &(line, c) in code {
        match c {
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if braces == 0 && brackets == 0 => return None,
            '{' => braces += 1,
            '}' if braces <= 1 => return Some(line),
            '}' => braces -= 1,
            _ => {}
        }
    }
    None
}

struct Scan {
    chars: Vec<char>,
    at: usize,
    state: State,
    line: usize,
    lines: Vec<Line>,
}

impl Scan {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    /// Takes `n` characters as code or as comment, or drops them.
    fn take(&mut self, n: usize, to: fn(&mut Line) -> Option<&mut String>) {
        for _ in 0..n {
            match self.peek(0) {
                '\n' => self.line += 1,
                c => {
                    if let Some(text) = to(&mut self.lines[self.line]) {
                        text.push(c);
                    }
                }
            }
            self.at += 1;
        }
    }

    fn code(&mut self, n: usize) {
        self.take(n, |line| Some(&mut line.code));
    }

    fn text(&mut self, n: usize) {
        self.take(n, |line| Some(&mut line.text));
    }

    /// Takes the end of a string, `n` characters.
    fn end_text(&mut self, n: usize) {
        self.state = State::Code;
        self.lines[self.line].text.push(' ');
        self.code(n);
    }

    fn comment(&mut self, n: usize) {
        self.take(n, |line| Some(&mut line.comment));
    }

    fn step(&mut self) {
        match (self.state, self.peek(0), self.peek(1)) {
            (State::Code, ..) => self.step_code(),
            (State::LineComment, '\n', _) => {
                self.state = State::Code;
                self.code(1);
            }
            (State::LineComment, ..) => self.comment(1),
            (State::BlockComment { depth }, '/', '*') => {
                self.state = State::BlockComment { depth: depth + 1 };
                self.comment(2);
            }
            (State::BlockComment { depth }, '*', '/') => {
                let open = depth > 1;
                self.state =
                    if open { State::BlockComment { depth: depth - 1 } } else { State::Code };
                self.comment(2);
            }
            (State::BlockComment { .. }, ..) => self.comment(1),
            (State::Text, '\\', _) => {
                self.lines[self.line].text.push(' ');
                self.take(2, |_| None);
            }
            (State::Text, '"', _) => self.end_text(1),
            (State::RawText { hashes }, '"', _)
                if (1..=hashes).all(|ahead| self.peek(ahead) == '#') =>
            {
                self.end_text(1 + hashes);
            }
            (State::Text | State::RawText { .. }, ..) => self.text(1),
        }
    }

    fn step_code(&mut self) {
        let in_word = self.at > 0 && is_word(self.chars[self.at - 1]);
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => self.state = State::LineComment,
            ('/', '*') => {
                self.state = State::BlockComment { depth: 1 };
                self.comment(2);
            }
            ('"', _) => {
                self.state = State::Text;
                self.code(1);
            }
            ('b' | 'c', 'r') if !in_word => {
                self.code(1);
                self.raw_text_or_code();
            }
            ('r', '"' | '#') if !in_word => self.raw_text_or_code(),
            ('\'', '\\') => {
                // Skip the character after the backslash too: it may be a quote.
                self.take(3, |_| None);
                while !matches!(self.peek(0), '\'' | '\0') {
                    self.take(1, |_| None);
                }
                self.take(1, |_| None);
            }
            ('\'', _) if self.peek(2) == '\'' => self.take(3, |_| None),
            _ => self.code(1),
        }
    }

    /// Continues at an `r`: a raw string, a raw identifier, or a plain letter.
    fn raw_text_or_code(&mut self) {
        let hashes = (1..).take_while(|&ahead| self.peek(ahead) == '#').count();
        let text = self.peek(1 + hashes) == '"';
        if text {
            self.state = State::RawText { hashes };
        }
        self.code(if text { 2 + hashes } else { 1 });
    }
}
