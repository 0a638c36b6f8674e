//! The one pass over the events of a request: their texts, the facts for the choice of a range, and the search for the
//! code blocks of the answers. A block must not be found in a text that the model did not see.

use std::collections::BTreeMap;

use jp_compact_strategy::event::{BodyParser, EventBody};
use jp_compact_strategy::kept::KeptFacts;
use jp_compact_strategy::model::{ShownEvent, TranscriptFormatter, TranscriptPiece, shorten_event};
use jp_compact_strategy::schema::{CompactRequest, Completion, EventLine, Range};
use jp_compact_strategy::{Exchange, StrategyError};

use crate::cut::{Facts, StepWeight};
use crate::verbatim::CodeBlocks;

/// The results of reading all events once.
pub(crate) struct EventScan {
    pub(crate) pieces: Vec<TranscriptPiece>,
    /// For each tool call with a response in a later turn, the turns of its request and its response.
    calls: Vec<(usize, usize)>,
    /// The steps of the last turn in the request's range.
    last_steps: Vec<StepWeight>,
    /// The code blocks of the answers, searched in the events of the range as the model sees them.
    pub(crate) blocks: CodeBlocks,
    /// The facts of the range. Empty in the first round, in which no summary exists.
    pub(crate) kept: KeptFacts,
}

impl EventScan {
    /// Reads all events. `range` is known from the second round on.
    pub(crate) fn read(
        request: &CompactRequest,
        range: Option<Range>,
        chars_max: usize,
        exchange: &mut Exchange<'_>,
    ) -> Result<Self, StrategyError> {
        let mut blocks = ShownBlocks::of_answers(request, range);
        let mut kept = KeptFacts::new(range.unwrap_or(request.range));
        let (mut pieces, mut calls, mut last_steps) = (Vec::new(), Vec::new(), Vec::new());
        let (mut formatter, mut open_calls) = (TranscriptFormatter::default(), BTreeMap::new());
        let mut parser = BodyParser::default();
        while let Some(line) = exchange.next_event()? {
            let body = parser.parse(&line);
            match &body {
                EventBody::Call(call) => {
                    open_calls.insert(call.id.clone(), line.turn);
                }
                EventBody::Output(output) => {
                    calls.extend(open_calls.remove(&output.id).map(|turn| (turn, line.turn)));
                }
                _ => {}
            }
            if line.turn == request.range.to_turn {
                add_to_steps(&mut last_steps, &line, &body);
            }
            if range.is_some() {
                kept.add(&line, &body);
            }
            let shown = shorten_event(body, chars_max);
            blocks.search(&line, &shown);
            pieces.extend(formatter.piece(&line, shown));
        }
        calls.retain(|(request, response)| request < response);
        Ok(Self { pieces, calls, last_steps, blocks: blocks.blocks, kept })
    }

    pub(crate) fn facts<'a>(&'a self, request: &'a CompactRequest) -> Facts<'a> {
        let (turns, compactions) = (&request.context.turns, &request.context.compactions);
        Facts { turns, compactions, calls: &self.calls, last_steps: &self.last_steps }
    }
}

/// Adds an event to the steps of its turn.
fn add_to_steps(steps: &mut Vec<StepWeight>, line: &EventLine, body: &EventBody) {
    let Some(number) = line.step else { return };
    if number >= steps.len() {
        steps.resize(number + 1, StepWeight::default());
        steps[number].begins_with_reasoning = matches!(body, EventBody::Reasoning(_));
    }
    steps[number].tokens += line.tokens;
}

/// The code blocks of the answers, searched in the events that the model sees.
struct ShownBlocks {
    range: Option<Range>,
    blocks: CodeBlocks,
    /// The user's events in a turn that the range covers only in part. The model sees those before a covered step.
    user_events: Vec<EventBody>,
}

impl ShownBlocks {
    fn of_answers(request: &CompactRequest, range: Option<Range>) -> Self {
        let mut blocks = CodeBlocks::default();
        for answer in request.answers.values() {
            if let Ok(Completion { text, .. }) = answer.as_type() {
                blocks.add_from(&text);
            }
        }
        Self { range, blocks, user_events: Vec::new() }
    }

    fn search(&mut self, line: &EventLine, shown: &ShownEvent) {
        let Some(range) = self.range.filter(|range| range.contains(line.turn)) else { return };
        if range.contains_step(line.turn, line.step) {
            self.user_events.drain(..).for_each(|body| self.blocks.search_event(&body));
            self.blocks.search_event(&shown.body);
        } else if line.step.is_none() {
            self.user_events.push(shown.body.clone());
        }
    }
}
