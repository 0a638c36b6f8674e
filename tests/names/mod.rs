//! Rules for names: functions have standard verbs, a type name means one thing, tests state a behavior.
//!
//! A name is read more often than its documentation. Each rule checks only the name itself.

use std::collections::BTreeMap;

use super::sources::Source;

/// Names of functions that do not state what the function does.
const VAGUE: [&str; 9] = ["again", "gone", "hear", "it", "of", "one", "said", "tell", "told"];
/// Beginnings of test names that do not state a behavior.
const NO_BEHAVIOR: [&str; 3] = ["nobody_", "one_that_", "what_"];
/// Types that each module may define: the arguments of a command, and the error of a module.
const ONE_PER_MODULE: [&str; 2] = ["Args", "Error"];

pub(crate) fn vague_functions(source: &Source) -> Vec<String> {
    let vague = source.functions.iter().filter(|function| VAGUE.contains(&&*function.name));
    vague.map(|function| format!("{}: fn {}", source.file, function.name)).collect()
}

pub(crate) fn tests_without_behavior(source: &Source) -> Vec<String> {
    let has_forbidden_start = |name: &str| NO_BEHAVIOR.iter().any(|start| name.starts_with(start));
    let tests =
        source.functions.iter().filter(|function| function.is_test && has_forbidden_start(&function.name));
    tests.map(|function| format!("{}: test {}", source.file, function.name)).collect()
}

/// Returns each type name with the visibility `pub` or `pub(crate)` that production code defines more than once.
pub(crate) fn types_defined_twice(sources: &[Source]) -> Vec<String> {
    let mut files: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let production =
        sources.iter().filter(|source| !source.only_for_tests && !source.file.starts_with("tests/"));
    for source in production {
        for name in &source.public_types {
            files.entry(name).or_default().push(&source.file);
        }
    }
    let twice = files.iter().filter(|(name, files)| files.len() > 1 && !ONE_PER_MODULE.contains(&&***name));
    twice.map(|(name, files)| format!("{name} is defined in {}", files.join(", "))).collect()
}
