//! The paths that a view no longer names because the arguments and the results of calls were stripped. A path that is
//! named anywhere else in the view is not lost.

use std::collections::HashSet;

use jp_compact_core::view::Part;
use jp_compact_core::{Stream, View};

use crate::event_text::{changed_text, element_text};
use crate::scan::{AnchorHash, for_each_path};

/// The numbers of different paths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathCounts {
    /// The paths in the stripped arguments and results.
    pub stripped: usize,
    /// Of these, the paths that the view does not name.
    pub lost: usize,
    /// Of the lost paths, those that no stripped argument names. They are lost even if the arguments stay.
    pub lost_in_results: usize,
}

impl PathCounts {
    /// The minimum number of lost paths for a warning.
    const LOST_MIN: usize = 5;

    /// Counts the paths in a view and in the events that it strips.
    #[must_use]
    pub fn new(stream: &Stream, view: &View) -> Self {
        let (mut shown, mut in_arguments, mut in_results) = (HashSet::new(), HashSet::new(), HashSet::new());
        let add = |paths: &mut HashSet<AnchorHash>, text: &str| {
            for_each_path(text, |path| {
                paths.insert(path);
            });
        };
        for item in view.items() {
            match &item.part {
                Part::Kept(element) | Part::Short(element) => {
                    add(&mut shown, &element_text(stream, *element));
                }
                Part::Emptied(element) => add(&mut in_arguments, &element_text(stream, *element)),
                Part::Replaced(element, _) => add(&mut in_results, &element_text(stream, *element)),
                _ => {}
            }
            if let Some((_, text)) = changed_text(&item.part) {
                add(&mut shown, &text);
            }
        }
        let lost_in_results =
            in_results.difference(&in_arguments).filter(|path| !shown.contains(path)).count();
        Self {
            stripped: in_arguments.union(&in_results).count(),
            lost: lost_in_results + in_arguments.difference(&shown).count(),
            lost_in_results,
        }
    }

    /// Returns whether much is lost: at least five paths, and at least a quarter of the stripped paths.
    #[must_use]
    pub fn is_much(&self) -> bool {
        self.lost >= Self::LOST_MIN && self.lost * 4 >= self.stripped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(stripped: usize, lost: usize, expected: bool) {
        assert_eq!(PathCounts { stripped, lost, lost_in_results: 0 }.is_much(), expected);
    }

    #[test]
    fn loss_is_much_from_a_quarter_of_the_paths() {
        check(20, 5, true);
        check(21, 5, false);
        check(4, 4, false);
        check(0, 0, false);
    }
}
