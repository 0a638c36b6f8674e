//! How many tokens a run may use. Asked for before a model is, and told afterwards what it came to.

use std::sync::{Mutex, PoisonError};

/// The tokens of a run.
#[derive(Debug)]
pub(super) struct Budget {
    max: Option<u64>,
    spent: Mutex<u64>,
}

impl Budget {
    pub(super) fn new(max: Option<u64>) -> Self {
        Self { max, spent: Mutex::new(0) }
    }

    /// Whether there is a limit.
    pub(super) fn is_limited(&self) -> bool {
        self.max.is_some()
    }

    /// The longest answer that a request may ask for: what it wishes, where that is left; what is left, where it
    /// wishes nothing. An error says what is missing.
    pub(super) fn allows(&self, input: u64, wish: Option<u64>) -> Result<Option<u64>, String> {
        let Some(max) = self.max else { return Ok(wish) };
        let spent = *self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let left = max.saturating_sub(spent);
        let needed = input.saturating_add(wish.unwrap_or(1));
        if needed > left {
            return Err(format!(
                "about {needed} tokens are needed, and {left} are left of the budget of {max}"
            ));
        }
        Ok(Some(wish.unwrap_or(left - input)))
    }

    /// What was used.
    pub(super) fn spend(&self, tokens: u64) {
        let mut spent = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        *spent = spent.saturating_add(tokens);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_allowed_and_no_more() {
        let budget = Budget::new(Some(100));
        assert_eq!(budget.allows(40, Some(60)), Ok(Some(60)));
        assert_eq!(budget.allows(40, None), Ok(Some(60)));
        budget.spend(50);
        assert_eq!(budget.allows(40, None), Ok(Some(10)));
        let what = budget.allows(40, Some(11)).unwrap_err();
        assert_eq!(what, "about 51 tokens are needed, and 50 are left of the budget of 100");
        budget.spend(u64::MAX);
        assert!(budget.allows(0, None).is_err());
    }

    #[test]
    fn without_a_limit_everybody_gets_what_they_wish() {
        let budget = Budget::new(None);
        budget.spend(u64::MAX);
        assert_eq!(budget.allows(u64::MAX, None), Ok(None));
        assert_eq!(budget.allows(u64::MAX, Some(7)), Ok(Some(7)));
    }
}
