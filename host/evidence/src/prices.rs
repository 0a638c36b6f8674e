//! The prices of cached input. Prices change often, so they are in a file with a date and a source, and the user can
//! replace the file.

use serde::Deserialize;

/// The prices of all families of models.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub source: String,
    pub date: String,
    /// Whether a person compared the prices with the providers' pages.
    #[serde(default)]
    pub verified: bool,
    /// The first family is the default.
    pub families: Vec<PriceFamily>,
}

/// The prices of a family, relative to uncached input.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceFamily {
    pub name: String,
    #[serde(default)]
    pub models: String,
    /// The providers of the models, as in the names of models. The name of the family is always one of them.
    #[serde(default)]
    pub providers: Vec<String>,
    pub read: f64,
    pub write: f64,
    #[serde(default = "default_output")]
    pub output: f64,
    /// The length of a cached prefix is a multiple of this number of tokens. 0 if the cache keeps whole requests.
    #[serde(default)]
    pub block: u64,
    /// The cache forgets a prefix after this number of minutes without a request.
    #[serde(default = "default_ttl")]
    pub ttl_minutes: u32,
    /// The longer time to live that the provider sells.
    #[serde(default)]
    pub long: Option<LongCache>,
}

/// A cache with a longer time to live, which costs more to write.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LongCache {
    pub write: f64,
    pub ttl_minutes: u32,
}

/// Returns the time to live for a file that does not set it.
fn default_ttl() -> u32 {
    5
}

impl PriceFamily {
    /// Returns whether the family has the prices of a model.
    fn has(&self, provider: &str, model: &str) -> bool {
        let is_own = |name: &str| self.name == name || self.providers.iter().any(|own| own == name);
        // A model of a router is named after its own provider: `anthropic/claude-opus-9`.
        is_own(provider) || model.split_once('/').is_some_and(|(provider, _)| is_own(provider))
    }
}

/// Returns the price of output for a file that does not set it.
fn default_output() -> f64 {
    5.0
}

/// The reason why a file is not a list of prices.
#[derive(Debug, thiserror::Error)]
pub enum PricesError {
    #[error(transparent)]
    Toml(#[from] toml::de::Error),
    #[error("`families` is empty")]
    Empty,
    #[error("the prices of `{family}` must be finite and not negative")]
    Negative { family: String },
}

impl Prices {
    /// Returns the built-in prices.
    #[must_use]
    pub fn built_in() -> Self {
        Self::parse(include_str!("prices.toml")).expect("a test reads the built-in file")
    }

    /// Parses the text of a file.
    ///
    /// # Errors
    /// The text is not a list of prices.
    pub fn parse(text: &str) -> Result<Self, PricesError> {
        let prices: Self = toml::from_str(text)?;
        if prices.families.is_empty() {
            return Err(PricesError::Empty);
        }
        for family in &prices.families {
            let is_price = |price: f64| price.is_finite() && price >= 0.0;
            let long = family.long.map_or(0.0, |long| long.write);
            if ![family.read, family.write, family.output, long].into_iter().all(is_price) {
                return Err(PricesError::Negative { family: family.name.clone() });
            }
        }
        Ok(prices)
    }

    /// Returns the prices of the longer time to live, for the families that have one.
    #[must_use]
    pub fn with_long_cache(mut self) -> Self {
        for family in &mut self.families {
            if let Some(LongCache { write, ttl_minutes }) = family.long {
                (family.write, family.ttl_minutes) = (write, ttl_minutes);
            }
        }
        self
    }

    /// Returns the prices of a model, or the prices of the first family if no family has the model or the model is not
    /// known.
    #[must_use]
    pub fn family_of(&self, model: Option<(&str, &str)>) -> &PriceFamily {
        let of_model =
            model.and_then(|(provider, name)| self.families.iter().find(|family| family.has(provider, name)));
        of_model.unwrap_or(&self.families[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_prices_are_marked_as_unverified() {
        let prices = Prices::built_in();
        assert!(!prices.verified);
        let names: Vec<_> = prices.families.iter().map(|family| family.name.as_str()).collect();
        assert_eq!(names, ["anthropic", "openai", "gemini", "deepseek"]);
    }

    #[test]
    fn family_follows_from_the_model() {
        let prices = Prices::built_in();
        for (provider, model, expected) in [
            ("anthropic", "claude-opus-9", "anthropic"),
            ("openai", "gpt-9", "openai"),
            ("google", "gemini-9", "gemini"),
            ("gemini", "gemini-9", "gemini"),
            ("deepseek", "deepseek-9", "deepseek"),
            ("openrouter", "deepseek/deepseek-9", "deepseek"),
            ("openrouter", "unknown/model", "anthropic"),
            ("ollama", "llama9", "anthropic"),
        ] {
            assert_eq!(prices.family_of(Some((provider, model))).name, expected, "{provider}/{model}");
        }
        assert_eq!(prices.family_of(None).name, "anthropic");
    }

    #[test]
    fn long_cache_has_its_own_price_and_time() {
        let values = |prices: &Prices| {
            prices.families.iter().map(|family| (family.write, family.ttl_minutes)).collect::<Vec<_>>()
        };
        let short = values(&Prices::built_in());
        let long = values(&Prices::built_in().with_long_cache());
        assert_eq!((short[0], long[0]), ((1.25, 5), (2.0, 60)));
        assert_eq!(short[1..], long[1..], "the other families have one time to live");
    }

    #[test]
    fn rejects_files_without_prices() {
        let file = |families: &str| format!("source = \"s\"\ndate = \"d\"\n{families}");
        for (families, error) in [
            ("families = []", "`families` is empty"),
            ("[[families]]\nname = \"x\"\nread = -1\nwrite = 1", "the prices of `x` must be finite"),
            ("[[families]]\nname = \"x\"\nread = nan\nwrite = 1", "the prices of `x` must be finite"),
            (
                "[[families]]\nname = \"x\"\nread = 1\nwrite = 1\nlong = { write = -1, ttl_minutes = 60 }",
                "the prices of `x` must be finite",
            ),
            ("[[families]]\nname = \"x\"\nwrite = 1", "missing field `read`"),
            ("[[families]]\nname = \"x\"\nread = 1\nwrite = 1\nreads = 1", "unknown field `reads`"),
        ] {
            let found = Prices::parse(&file(families)).unwrap_err().to_string();
            assert!(found.contains(error), "{found}");
        }
        assert_eq!(
            Prices::parse(&file("[[families]]\nname = \"x\"\nread = 1\nwrite = 1")).unwrap().families.len(),
            1
        );
    }
}
