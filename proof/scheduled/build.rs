//! Builds the same source once more, with the locks and threads of a scheduler that chooses every order.

fn main() {
    println!("cargo::rustc-cfg=semel_scheduled");
    println!("cargo::rerun-if-changed=../build.rs");
}
