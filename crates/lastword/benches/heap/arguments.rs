//! The command line.

use std::str::FromStr;
use std::time::Duration;

use crate::Failure;

pub(crate) const HELP: &str = "\
heap issue    programs that filled the pool of older versions: (a) other sizes after a full heap was
              freed, (b) one worker allocates and another frees, (c) values that grow,
              (d) a store of sessions, (e) values above 1 KiB and small maps, (f) frees beside
              many holes
heap fill     share of the heap that values fill, size by size, and after every second is freed
heap churn    random sizes, freed by random threads: live bytes at the first Full, ns a pair
heap speed    CPU time of an allocation and of a free in the common case
heap compare OLD NEW [speed|issue OPTIONS]
              runs two builds of this program in turn and prints the ratios of medians, NEW by OLD

  --design NAME     volatile, decoupled, snapshot, undo or redo    [decoupled]
  --heap-bytes N    size of the heap, with suffix K, M or G        [issue: its own; else 64M]
  --log-bytes N     size of the log                                [64M; undo, redo, snapshot: 1G]
  --count N         allocations of a program                       [each program its own]
  --seconds S       length of a run of sessions                    [1.2]
  --threads N       workers of churn, sessions and speed           [sessions 4; else 2]
  --target SHARE    share of the heap that is live in churn        [0.5]
  --sizes MIX       16 B to 1 KiB (tiny), 4 KiB (small), 32 KiB (large)   [small]
  --rounds N        rounds of speed; rounds of compare             [9]
  --seed N          seed of every random choice                    [1]
  --only LETTERS    programs of issue, such as `acd`               [abcdef]
  --json            one JSON object a row
";

/// A group of programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Issue,
    Fill,
    Churn,
    Speed,
}

/// Distribution of the sizes of `churn`, uniform in the logarithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sizes {
    Tiny,
    Small,
    Large,
}

impl Sizes {
    /// Returns the least and the greatest size in bytes.
    pub(crate) fn bounds(self) -> (u64, u64) {
        match self {
            Sizes::Tiny => (16, 1 << 10),
            Sizes::Small => (16, 4 << 10),
            Sizes::Large => (16, 32 << 10),
        }
    }
}

/// The options, with `None` where each program has a default of its own.
#[derive(Clone, Debug)]
pub(crate) struct Arguments {
    pub(crate) command: Command,
    pub(crate) design: String,
    pub(crate) heap_bytes: Option<u64>,
    pub(crate) log_bytes: u64,
    pub(crate) count: Option<u64>,
    pub(crate) time: Duration,
    pub(crate) threads: Option<usize>,
    pub(crate) target: f64,
    pub(crate) sizes: Sizes,
    pub(crate) rounds: usize,
    pub(crate) seed: u64,
    pub(crate) only: String,
    pub(crate) json: bool,
}

impl Arguments {
    pub(crate) fn parse(texts: &[String]) -> Result<Arguments, Failure> {
        let (command, options) = texts.split_first().ok_or("no command; see --help")?;
        let mut arguments = Arguments::new(match command.as_str() {
            "issue" => Command::Issue,
            "fill" => Command::Fill,
            "churn" => Command::Churn,
            "speed" => Command::Speed,
            other => return Err(format!("unknown command `{other}`; see --help").into()),
        });
        let mut log_bytes = None;
        let mut options = options.iter();
        while let Some(option) = options.next() {
            if option == "--json" {
                arguments.json = true;
                continue;
            }
            let value = options.next().ok_or_else(|| format!("{option} needs a value"))?;
            match option.as_str() {
                "--design" => arguments.design.clone_from(value),
                "--heap-bytes" => arguments.heap_bytes = Some(bytes(value)?),
                "--log-bytes" => log_bytes = Some(bytes(value)?),
                "--count" => arguments.count = Some(number(value)?),
                "--seconds" => arguments.time = Duration::try_from_secs_f64(number(value)?)?,
                "--threads" => arguments.threads = Some(number::<usize>(value)?.max(1)),
                "--target" => arguments.target = number(value)?,
                "--sizes" if value == "tiny" => arguments.sizes = Sizes::Tiny,
                "--sizes" if value == "small" => arguments.sizes = Sizes::Small,
                "--sizes" if value == "large" => arguments.sizes = Sizes::Large,
                "--rounds" => arguments.rounds = number::<usize>(value)?.max(1),
                "--seed" => arguments.seed = number(value)?,
                "--only" => arguments.only.clone_from(value),
                _ => return Err(format!("unknown option `{option} {value}`; see --help").into()),
            }
        }
        // These designs divide the log into slots of a 64th, one for each worker.
        let by_slot = matches!(arguments.design.as_str(), "undo" | "redo" | "snapshot");
        arguments.log_bytes = log_bytes.unwrap_or(if by_slot { 1 << 30 } else { 64 << 20 });
        Ok(arguments)
    }

    fn new(command: Command) -> Arguments {
        Arguments {
            command,
            design: "decoupled".into(),
            heap_bytes: None,
            log_bytes: 0,
            count: None,
            time: Duration::from_millis(1200),
            threads: None,
            target: 0.5,
            sizes: Sizes::Small,
            rounds: 9,
            seed: 1,
            only: "abcdef".into(),
            json: false,
        }
    }
}

pub(crate) fn number<T: FromStr>(text: &str) -> Result<T, Failure> {
    text.parse().map_err(|_| format!("`{text}` is no number").into())
}

/// Parses a number of bytes with an optional suffix.
fn bytes(text: &str) -> Result<u64, Failure> {
    for (suffix, shift) in [("K", 10), ("M", 20), ("G", 30)] {
        if let Some(text) = text.strip_suffix(suffix) {
            return Ok(number::<u64>(text)? << shift);
        }
    }
    number(text)
}
