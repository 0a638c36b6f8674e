//! The overlays of a comparison: all overlays, some of them, or those that a run adds.

use jp_compact_core::overlay::Overlay;

/// Two lists of overlays, whose views are compared.
#[derive(Debug, Clone, PartialEq)]
pub struct OverlayChoice {
    pub before: Vec<Overlay>,
    /// The overlay with the number N is at index N - 1.
    pub after: Vec<Overlay>,
}

/// A number that no overlay has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSuchOverlay(pub usize);

impl OverlayChoice {
    /// Chooses the view without overlays, and the view with all overlays.
    #[must_use]
    pub fn all(overlays: &[Overlay]) -> Self {
        Self { before: Vec::new(), after: overlays.to_vec() }
    }

    /// Chooses the overlays up to the last of `numbers`: in `before` without those in `numbers`, in `after` with them.
    /// For one overlay, `show` compares the same two views.
    ///
    /// # Errors
    /// No overlay has one of the numbers.
    pub fn of_numbers(overlays: &[Overlay], numbers: &[usize]) -> Result<Self, NoSuchOverlay> {
        if let Some(unknown) = numbers.iter().find(|number| !(1..=overlays.len()).contains(*number)) {
            return Err(NoSuchOverlay(*unknown));
        }
        let last = numbers.iter().copied().max().unwrap_or_default();
        let after = &overlays[..last];
        let others = (1..).zip(after).filter(|(number, _)| !numbers.contains(number));
        let before = others.map(|(_, overlay)| overlay.clone()).collect();
        Ok(Self { before, after: after.to_vec() })
    }

    /// Chooses the overlays of a stream, and the same overlays with those that a run adds.
    #[must_use]
    pub fn added(overlays: &[Overlay], new: impl IntoIterator<Item = Overlay>) -> Self {
        let before = overlays.to_vec();
        let after = before.iter().cloned().chain(new).collect();
        Self { before, after }
    }
}
