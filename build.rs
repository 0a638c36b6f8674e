//! Linker arguments that let the executables start sooner. A command starts three of them: the host, the runner, and the
//! strategy. They change nothing on other systems, and for a linker that the user chose. See
//! docs/decisions/0035-cost-of-a-start.md and docs/decisions/0038-whole-program-archives.md.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    if !is_built_for_this_machine() || variable("RUSTC_LINKER").is_some() {
        return;
    }
    // Without the shared library of the unwinder, each process loads one library less.
    if has_static_unwinder() {
        println!("cargo:rustc-link-lib=static:-bundle=gcc_eh");
    }
    // Tests start the executables of the dev profile thousands of times. At a fixed address, the loader does not have to
    // relocate 170,000 pointers in each start. Releases keep a random address.
    if variable("PROFILE").is_some_and(|profile| profile == "debug") {
        println!("cargo:rustc-link-arg-bins=-no-pie");
    }
}

fn is_built_for_this_machine() -> bool {
    let is_gnu_linux = variable("TARGET").is_some_and(|target| target.ends_with("-linux-gnu"));
    is_gnu_linux && variable("TARGET") == variable("HOST")
}

/// Returns whether the default linker finds the static library. Compilers that use another unwinder do not have it.
#[expect(clippy::disallowed_methods, reason = "a build script starts the compiler")]
fn has_static_unwinder() -> bool {
    let output = Command::new("cc").arg("-print-file-name=libgcc_eh.a").output();
    output.is_ok_and(|output| {
        let path = String::from_utf8_lossy(&output.stdout);
        Path::new(path.trim()).is_absolute() && output.status.success()
    })
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}
