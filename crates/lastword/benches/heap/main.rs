//! Measures the reuse of memory by the heap's allocator, and its speed.
//!
//! `heap issue|fill|churn|speed [OPTIONS]` runs a group of programs and prints a table, or one JSON
//! object a row with `--json`. `heap compare OLD NEW [speed|issue OPTIONS]` runs two builds of this
//! program in turn and prints the ratios of their figures. `heap --help` lists the options.
//!
//! The programs use the public interface alone, so that two versions of the allocator can be
//! compared. They run on emulated persistent memory without delay. Times are CPU times of the
//! thread that allocates, as the machine may be shared.

mod arguments;
mod churn;
mod compare;
mod fill;
mod holes;
mod issue;
mod speed;
mod store;
mod table;

use lastword::{Decoupled, Design, Redo, Snapshot, Undo, Volatile};

use arguments::{Arguments, Command};
use table::Table;

/// Every failure of this program ends it with a message.
type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let texts: Vec<String> =
        std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if texts.iter().any(|text| text == "--help") {
        print!("{}", arguments::HELP);
        return Ok(());
    }
    if texts.first().is_some_and(|text| text == "compare") {
        return compare::run(&texts[1..]);
    }
    let arguments = Arguments::parse(&texts)?;
    match arguments.design.as_str() {
        "volatile" => run::<Volatile>(&arguments),
        "decoupled" => run::<Decoupled>(&arguments),
        "snapshot" => run::<Snapshot>(&arguments),
        "undo" => run::<Undo>(&arguments),
        "redo" => run::<Redo>(&arguments),
        other => Err(format!("unknown design `{other}`").into()),
    }
}

fn run<D: Design>(arguments: &Arguments) -> Result<(), Failure> {
    let print = |table: Table| table.print(arguments);
    match arguments.command {
        Command::Issue => issue::run::<D>(arguments, &print),
        Command::Fill => fill::run::<D>(arguments, &print),
        Command::Churn => churn::run::<D>(arguments, &print),
        Command::Speed => speed::run::<D>(arguments, &print),
    }
}
