//! Writes the book's pages of the papers, one file for each, to a folder.
//!
//! `cargo run -p lastword-papers --example pages -- FOLDER`: `.ci/book` runs it before mdBook.

use std::fs;
use std::io;
use std::path::PathBuf;

fn main() -> io::Result<()> {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "name the folder of the pages"));
    };
    fs::create_dir_all(&folder)?;
    for name in papers::NAMES {
        let page = papers::book_page(name).map_err(io::Error::other)?;
        fs::write(folder.join(format!("{name}.md")), page)?;
    }
    Ok(())
}
