//! One transcript with everything that all rows share: its anchors, its tokens, its cuts, and the anchors at risk. It
//! is read once.

use std::sync::Arc;

use bytes::Bytes;
use jp_compact_core::estimate::{Estimate, Estimator, tokens};
use jp_compact_core::index;
use jp_compact_engine::compact::{Error, Opened};
use jp_compact_evidence::Session;
use jp_compact_evidence::control::random_order;
use jp_compact_evidence::cut::{Cut, cut_points};
use jp_compact_evidence::recall::{AtRisk, at_risk};

use crate::options::EvalOptions;

/// A transcript, prepared for all rows.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    /// The transcript without overlays.
    pub(crate) opened: &'a Opened,
    pub(crate) session: Session<'a>,
    pub(crate) estimator: Estimator,
    pub(crate) estimate: Arc<Estimate>,
    pub(crate) event_tokens: Vec<u64>,
    /// For each event, the sum of the weights of all earlier events. The last entry is the sum of all weights.
    weights_before: Vec<u64>,
    /// The first event of each step of the assistant. Before each of them, a request was sent to the model.
    pub(crate) requests: Vec<usize>,
    pub(crate) random_order: Vec<usize>,
    pub(crate) cuts: Vec<SubjectCut>,
    /// The cuts that were skipped.
    pub(crate) skipped: Vec<Cut>,
}

/// A cut with its anchors at risk.
#[derive(Debug)]
pub(crate) struct SubjectCut {
    pub(crate) cut: Cut,
    pub(crate) at_risk: Vec<AtRisk>,
    /// The text of each anchor. Empty without a page.
    pub(crate) texts: Vec<String>,
}

/// Overlays in their stored form. As JSON values, the overlays of a large session would need several times the memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct StoredOverlays {
    /// An array. Empty without overlays. The streams with these overlays share it.
    array: Bytes,
}

impl StoredOverlays {
    /// Adds the elements of an array. Returns whether there are any.
    pub(crate) fn extend(&mut self, array: Vec<u8>) -> bool {
        let elements = array.trim_ascii().strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
        let Some(elements) = elements.filter(|elements| !elements.is_empty()) else { return false };
        self.array = match self.array.strip_suffix(b"]") {
            Some(earlier) => [earlier, b",", elements, b"]"].concat().into(),
            None => array.into(),
        };
        true
    }
}

impl<'a> Subject<'a> {
    /// Reads a transcript without overlays.
    pub(crate) fn new(opened: &'a Opened, options: &EvalOptions) -> Self {
        let EvalOptions { cuts: percents, estimator, page, .. } = options;
        let estimator = *estimator;
        let stream = opened.stream.stream();
        let session = Session::new(stream);
        let estimate = Arc::new(Estimate::new(stream, estimator));
        let mut sum = 0;
        let mut weights_before = vec![0];
        for event in &session.events {
            sum += estimate.weight(event.element);
            weights_before.push(sum);
        }
        let event_tokens = session.events.iter().map(|event| estimate.tokens(event.element)).collect();
        let (skipped, used): (Vec<_>, Vec<_>) =
            cut_points(&session, percents).into_iter().partition(|cut| cut.reason_to_skip().is_some());
        let subject_cut = |cut: Cut| {
            let at_risk = at_risk(&session, cut.events);
            let texts = if *page { session.texts_of_uses(&at_risk) } else { Vec::new() };
            SubjectCut { cut, at_risk, texts }
        };
        Self {
            opened,
            cuts: used.into_iter().map(subject_cut).collect(),
            skipped,
            requests: find_requests(&session),
            random_order: random_order(session.events.len()),
            session,
            estimator,
            estimate,
            event_tokens,
            weights_before,
        }
    }

    /// Returns the tokens of a range of events.
    pub(crate) fn tokens_between(&self, from: usize, to: usize) -> u64 {
        tokens(self.weights_before[to].saturating_sub(self.weights_before[from]))
    }

    /// Returns the number of elements in the prefix that has `events` events.
    pub(crate) fn elements(&self, events: usize) -> usize {
        let next = self.session.events.get(events);
        next.map_or(self.session.stream.events().len(), |event| event.element)
    }

    /// Returns the prefix of `events` events with the stored overlays. In a prefix that has ended, the last turn is
    /// closed.
    pub(crate) fn prefix(
        &self,
        events: usize,
        has_ended: bool,
        overlays: &StoredOverlays,
    ) -> Result<Opened, Error> {
        let mut part = self.session.stream.prefix(self.elements(events));
        if has_ended {
            part = part.ended();
        }
        if !overlays.array.is_empty() {
            let with_overlays =
                index::index(overlays.array.clone()).and_then(|index| part.with_overlays(&index));
            let unreadable = |source| Error::Unreadable { path: self.opened.place.path().to_owned(), source };
            part = with_overlays.map_err(unreadable)?;
        }
        let stream = self.opened.stream.with_part(part);
        Ok(Opened::new(self.opened.place.clone(), None, stream))
    }

    /// Returns the reason why the transcript has no cut.
    pub(crate) fn not_enough_data(&self) -> Option<String> {
        if !self.cuts.is_empty() {
            return None;
        }
        // The last cut has the largest number of results before it.
        let reason = self
            .skipped
            .iter()
            .rev()
            .find_map(|cut| Some(format!("cut at {} %: {}", cut.percent, cut.reason_to_skip()?)));
        Some(reason.unwrap_or_else(|| "there is no tool output".to_owned()))
    }
}

fn find_requests(session: &Session<'_>) -> Vec<usize> {
    let mut requests = Vec::new();
    let mut last = None;
    for (number, event) in session.events.iter().enumerate() {
        let Some(step) = event.step.filter(|_| event.role.is_of_model()) else { continue };
        let key = (event.turn, step);
        if last.is_none_or(|last| key > last) {
            requests.push(number);
            last = Some(key);
        }
    }
    requests
}
