//! The steps of a turn, for strategies with the feature `steps`. A step is one response of the model with the results that
//! answer it. Events of the user belong to no step.

use jp_compact_schema::EventLine;

/// The events of one step, or consecutive events of the user.
#[derive(Debug, Clone)]
pub struct StepEvents {
    /// The turn.
    pub turn: usize,
    /// The step within the turn. `None` for events of the user.
    pub step: Option<usize>,
    /// The events, in order.
    pub events: Vec<EventLine>,
}

/// Groups the events of a request by step. A result that arrives late is in the group of its call. Without the feature, all
/// events of a turn are one group.
#[must_use]
pub fn group_by_step(events: impl IntoIterator<Item = EventLine>) -> Vec<StepEvents> {
    let mut groups: Vec<StepEvents> = Vec::new();
    for event in events {
        let (turn, step) = (event.turn, event.step);
        let is_last = groups.last().is_some_and(|last| (last.turn, last.step) == (turn, step));
        let known = match step {
            _ if is_last => groups.last_mut(),
            Some(_) => groups.iter_mut().rev().find(|group| (group.turn, group.step) == (turn, step)),
            None => None,
        };
        match known {
            Some(group) => group.events.push(event),
            None => groups.push(StepEvents { turn, step, events: vec![event] }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use jp_compact_schema::Range;

    use super::*;

    fn events(positions: &[(usize, Option<usize>)]) -> Vec<EventLine> {
        let event = |(seq, (turn, step)): (usize, &(usize, Option<usize>))| {
            let raw = serde_json::value::to_raw_value(&serde_json::json!({})).unwrap();
            EventLine { step: *step, ..EventLine::new(seq as u64, *turn, 1, raw) }
        };
        positions.iter().enumerate().map(event).collect()
    }

    #[test]
    fn late_results_join_their_step() {
        let positions =
            [(0, None), (0, Some(0)), (0, Some(1)), (0, Some(0)), (0, None), (0, Some(1)), (1, None)];
        let groups = group_by_step(events(&positions));
        let found: Vec<_> = groups
            .iter()
            .map(|group| {
                (group.turn, group.step, group.events.iter().map(|event| event.seq).collect::<Vec<_>>())
            })
            .collect();
        let expected = [
            (0, None, vec![0]),
            (0, Some(0), vec![1, 3]),
            (0, Some(1), vec![2, 5]),
            (0, None, vec![4]),
            (1, None, vec![6]),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn ranges_are_compared_by_position() {
        let range = |from_step, to_turn, to_step| Range { from_turn: 1, from_step, to_turn, to_step };
        let (whole, part) = (range(None, 3, None), range(Some(0), 2, Some(4)));
        assert!(whole.covers(&part) && !part.covers(&whole) && part.overlaps(&whole));
        assert!(!range(None, 1, Some(3)).overlaps(&range(Some(4), 1, None)));
        assert!(range(None, 1, Some(4)).overlaps(&range(Some(4), 1, None)));
        assert!(
            !range(Some(0), 1, None).covers(&range(None, 1, Some(2))),
            "the user's events precede step 0"
        );
        let texts =
            [whole, part, range(Some(2), 1, Some(2)), range(None, 1, None)].map(|range| range.to_string());
        assert_eq!(texts, ["turns 1 to 3", "steps 1.0 to 2.4", "step 1.2", "turn 1"]);
    }
}
