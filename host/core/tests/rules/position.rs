//! Positions as text and as JSON.

use jp_compact_core::Position;

#[test]
fn parses_and_prints_turns_and_steps() {
    for (text, expected) in [
        ("0", Some(Position::turn(0))),
        ("4", Some(Position::turn(4))),
        ("4.0", Some(Position::step(4, 0))),
        ("4.1", Some(Position::step(4, 1))),
        ("4.10", Some(Position::step(4, 10))),
        ("", None),
        (".", None),
        ("4.", None),
        (".4", None),
        ("4.1.2", None),
        ("-4", None),
        ("+4", None),
        ("4.-1", None),
        ("4e1", None),
        ("99999999999999999999999", None),
    ] {
        let parsed: Option<Position> = text.parse().ok();
        assert_eq!(parsed, expected, "{text}");
        if let Some(position) = parsed {
            assert_eq!(position.to_string(), text);
        }
    }
}

#[test]
fn json_rejects_fractions() {
    let parse = |json: &str| serde_json::from_str::<Position>(json).map_err(|error| error.to_string());
    assert_eq!(parse("4"), Ok(Position::turn(4)));
    assert_eq!(parse("\"4\""), Ok(Position::turn(4)));
    assert_eq!(parse("\"4.10\""), Ok(Position::step(4, 10)));
    assert!(parse("4.10").unwrap_err().contains("write a step of a turn in quotes"), "{:?}", parse("4.10"));
    assert!(parse("4.0").is_err() && parse("-1").is_err() && parse("null").is_err());
    assert_eq!(serde_json::to_string(&[Position::turn(4), Position::step(4, 10)]).unwrap(), "[4,\"4.10\"]");
}
