//! The form of images in a request of each provider. A text with lines for images becomes a list of blocks. A text stays
//! as it is if one of its images has no form.

use jp_compact_core::estimate::IMAGE_LINE;
use jp_compact_core::render::Provider;
use serde_json::{Value, json};

use crate::source::Image;
use crate::{BETWEEN_TEXTS, ImageTexts, image_lines};

/// Puts the images of the texts into the body, and returns their number.
pub(crate) fn place(
    provider: Provider,
    body: &mut Value,
    requests: &mut ImageTexts,
    results: &mut ImageTexts,
) -> usize {
    let messages = body[provider.conversation()].as_array_mut().into_iter().flatten();
    messages
        .map(|message| match provider {
            Provider::Anthropic => in_anthropic(message, requests, results),
            Provider::Openai if message["role"] == "user" => {
                replace_text(&mut message["content"], requests, "text", openai)
            }
            Provider::OpenaiResponses if message["type"] == "function_call_output" => {
                replace_text(&mut message["output"], results, "input_text", responses)
            }
            Provider::OpenaiResponses if message["role"] == "user" => {
                replace_text(&mut message["content"], requests, "input_text", responses)
            }
            Provider::Gemini if message["role"] == "user" => in_gemini(message, requests),
            Provider::Ollama if message["role"] == "user" => in_ollama(message, requests),
            Provider::Openai | Provider::OpenaiResponses | Provider::Gemini | Provider::Ollama => 0,
        })
        .sum()
}

type Block = fn(&Image) -> Option<Value>;

fn anthropic(image: &Image) -> Option<Value> {
    let source = match image {
        Image::Data { media_type, data } => {
            json!({ "type": "base64", "media_type": media_type, "data": data })
        }
        Image::Url(url) => json!({ "type": "url", "url": url }),
        Image::Other => return None,
    };
    Some(json!({ "type": "image", "source": source }))
}

fn openai(image: &Image) -> Option<Value> {
    Some(json!({ "type": "image_url", "image_url": { "url": image.to_url()? } }))
}

/// Returns the form of the Responses API. `detail` is optional in results, and required in messages.
fn responses(image: &Image) -> Option<Value> {
    Some(json!({ "type": "input_image", "detail": "auto", "image_url": image.to_url()? }))
}

fn gemini(image: &Image) -> Option<Value> {
    let Image::Data { media_type, data } = image else { return None };
    Some(json!({ "inlineData": { "mimeType": media_type, "data": data } }))
}

/// Replaces a string with blocks. Returns the number of images.
fn replace_text(content: &mut Value, texts: &mut ImageTexts, kind: &str, block: Block) -> usize {
    let Some((blocks, count)) = content.as_str().and_then(|text| blocks(text, texts, kind, block)) else {
        return 0;
    };
    *content = Value::Array(blocks);
    count
}

/// Returns the blocks of a text, and the number of images. `kind` is the type of its text blocks, and empty for
/// Google's parts, which have no type.
fn blocks(text: &str, texts: &mut ImageTexts, kind: &str, block: Block) -> Option<(Vec<Value>, usize)> {
    let images: Option<Vec<Value>> = texts.take(text)?.iter().map(block).collect();
    let images = images.filter(|images| !images.is_empty())?;
    let count = images.len();
    let mut images = images.into_iter();
    let (mut blocks, mut lines): (Vec<Value>, Vec<&str>) = (Vec::new(), Vec::new());
    let text_block = |lines: &mut Vec<&str>| {
        let text = std::mem::take(lines).join("\n");
        let is_blank = text.trim().is_empty();
        let block =
            if kind.is_empty() { json!({ "text": text }) } else { json!({ "type": kind, "text": text }) };
        (!is_blank).then_some(block)
    };
    for line in text.lines() {
        if line == IMAGE_LINE {
            blocks.extend(text_block(&mut lines));
            blocks.extend(images.next());
        } else {
            lines.push(line);
        }
    }
    blocks.extend(text_block(&mut lines));
    Some((blocks, count))
}

fn in_anthropic(message: &mut Value, requests: &mut ImageTexts, results: &mut ImageTexts) -> usize {
    if message["role"] != "user" {
        return 0;
    }
    if message["content"].is_string() {
        return replace_text(&mut message["content"], requests, "text", anthropic);
    }
    let Some(content) = message["content"].as_array_mut() else { return 0 };
    let mut placed = 0;
    for block in std::mem::take(content) {
        if block["type"] == "text"
            && let Some((blocks, count)) =
                block["text"].as_str().and_then(|text| blocks(text, requests, "text", anthropic))
        {
            content.extend(blocks);
            placed += count;
            continue;
        }
        content.push(block);
        if let Some(result) = content.last_mut().filter(|last| last["type"] == "tool_result") {
            placed += replace_text(&mut result["content"], results, "text", anthropic);
        }
    }
    placed
}

fn in_gemini(message: &mut Value, requests: &mut ImageTexts) -> usize {
    let Some(parts) = message["parts"].as_array_mut() else { return 0 };
    let mut placed = 0;
    for part in std::mem::take(parts) {
        match part["text"].as_str().and_then(|text| blocks(text, requests, "", gemini)) {
            Some((blocks, count)) => {
                parts.extend(blocks);
                placed += count;
            }
            None => parts.push(part),
        }
    }
    placed
}

/// Ollama has a list of images next to the text, which may be several texts, joined with an empty line.
fn in_ollama(message: &mut Value, requests: &mut ImageTexts) -> usize {
    let data = |image: &Image| match image {
        Image::Data { data, .. } => Some(Value::from(data.clone())),
        _ => None,
    };
    let content = message["content"].as_str().filter(|text| image_lines(text) > 0);
    let Some(mut rest) = content else { return 0 };
    let (mut texts, mut placed) = (Vec::new(), Vec::new());
    while !rest.is_empty() {
        let (text, after) = requests.split_first(rest);
        rest = after;
        let images: Option<Vec<Value>> =
            requests.take(text).and_then(|images| images.iter().map(data).collect());
        let Some(images) = images.filter(|images| !images.is_empty()) else {
            texts.push(text.to_owned());
            continue;
        };
        placed.extend(images);
        let lines: Vec<&str> = text.lines().filter(|line| *line != IMAGE_LINE).collect();
        texts.extend((!lines.is_empty()).then(|| lines.join("\n")));
    }
    let count = placed.len();
    if count > 0 {
        message["content"] = texts.join(BETWEEN_TEXTS).into();
        message["images"] = placed.into();
    }
    count
}
