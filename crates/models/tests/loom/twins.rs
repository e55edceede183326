//! The twins that loom must find: modules that build.rs makes.

// A twin is the product's code with a line changed: what the change has left stays as it is.
#![allow(unused, clippy::all)]

include!(concat!(env!("OUT_DIR"), "/loom.rs"));
