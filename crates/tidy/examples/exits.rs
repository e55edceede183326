//! Prints the structural limits of each crate: its largest import circle and its imports of test
//! doubles.
//!
//! `cargo run -p lastword-tidy --example exits`

use tidy::source::Source;
use tidy::{circles, crates, doubles, repository, sources};

fn main() -> std::io::Result<()> {
    let root = repository();
    let all = sources(&root)?;
    let sources: Vec<Source> = all.iter().map(|(path, text)| Source::new(path, text)).collect();
    for name in crates(&root)? {
        let circle = circles::largest(&circles::graph(&name, &sources)).len();
        let row = circles::LIMITS.iter().find(|(known, _)| *known == name);
        let limit = row.map_or(circles::LIMIT, |(_, limit)| *limit);
        println!("{name}: largest import circle {circle}, at most {limit}");
        if doubles::PRODUCT.contains(&name.as_str()) {
            for (from, double) in doubles::imports(&name, &sources) {
                println!("{name}: `{from}` imports the test double `{double}`");
            }
        }
    }
    Ok(())
}
