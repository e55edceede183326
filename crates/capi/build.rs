//! Sets the SONAME of the shared library, so that programs find a later version of the same ABI.

fn main() {
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,liblastword.so.0");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
