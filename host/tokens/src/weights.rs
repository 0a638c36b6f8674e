//! The weights of pieces and of the frames around texts, in thousandths of a token. The ignored test
//! `fits_the_weights` of `tests/token_estimate.rs` computes them again.

/// The number of weight units in a token.
pub const WEIGHT_PER_TOKEN: u64 = 1000;

/// The names of the pieces, in the order of the weights.
pub const PIECE_NAMES: [&str; 7] = [
    "word",
    "letter after the tenth",
    "digit group",
    "punctuation run",
    "line break",
    "space run",
    "non-ASCII byte",
];

/// The weight of each piece. The weights are for text in the JSON string of a request body, where a line break is `\n`.
pub const PIECE_WEIGHTS: [u64; 7] = [885, 510, 1223, 1536, 1383, 992, 437];

/// The weights of the JSON around the texts of an event, in Anthropic's format, which is the longest.
#[derive(Debug, Clone, Copy)]
pub struct Frames;

impl Frames {
    /// A message with one text: `{"role":"user","content":[{"type":"text","text":""}]},`. Some texts share a message.
    pub const MESSAGE: u64 = 15_000;
    /// A tool call or its result, without its name, id, arguments, and content. The call has 13 tokens, the result 14,
    /// and the message around either of them 8.
    pub const CALL: u64 = 21_500;
    /// A key or a value in the arguments of a call: quotes, and a colon or a comma.
    pub const ARGUMENT: u64 = 1_223;
    /// A byte of an id, in addition to its pieces. Ids are random, so their pieces have more tokens than the pieces of
    /// a text.
    pub const ID_BYTE: u64 = 173;
}
