//! Models, for strategies that need one: the host holds the keys and the budget, a strategy asks it.

pub mod settings;

pub use settings::Settings;
