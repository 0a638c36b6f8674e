//! The images in the JSON of an event, in the forms of all transcripts.

use serde_json::Value;

/// An image of a transcript.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// Base64, with the media type.
    Data { media_type: String, data: String },
    /// A URL that the provider loads.
    Url(String),
    /// A document, a file that only one provider has, or data in an unknown form.
    Other,
}

impl Image {
    fn data(media_type: Option<&str>, data: Option<&str>) -> Self {
        match (media_type, data) {
            (Some(media_type), Some(data)) if media_type.starts_with("image/") => {
                Self::Data { media_type: media_type.to_owned(), data: data.to_owned() }
            }
            _ => Self::Other,
        }
    }

    fn url(url: Option<&str>) -> Self {
        let Some(url) = url else { return Self::Other };
        match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
            Some((media_type, data)) => Self::data(Some(media_type), Some(data)),
            None if url.starts_with("http") => Self::Url(url.to_owned()),
            None => Self::Other,
        }
    }

    /// Returns an image whose format is known only from its first bytes.
    fn bare(data: &str) -> Self {
        let starts =
            [("iVBOR", "image/png"), ("/9j/", "image/jpeg"), ("R0lG", "image/gif"), ("UklG", "image/webp")];
        let media_type = starts.iter().find(|(start, _)| data.starts_with(start)).map(|(_, kind)| *kind);
        Self::data(media_type, Some(data))
    }

    /// Returns the image as a URL. Base64 becomes a `data:` URL.
    pub(crate) fn to_url(&self) -> Option<String> {
        match self {
            Self::Data { media_type, data } => Some(format!("data:{media_type};base64,{data}")),
            Self::Url(url) => Some(url.clone()),
            Self::Other => None,
        }
    }
}

/// Returns the images in the source of an event: a JSON value, or neighboring blocks.
pub(crate) fn images(raw: &[u8]) -> Vec<Image> {
    let mut images = Vec::new();
    let list = [b"[", raw, b"]"].concat();
    if let Ok(value) = serde_json::from_slice::<Value>(&list) {
        visit(&value, &mut images);
    }
    images
}

fn visit(value: &Value, images: &mut Vec<Image>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| visit(item, images)),
        Value::Object(members) => match image(value) {
            Some(found) => images.extend(found),
            None => members.values().for_each(|member| visit(member, images)),
        },
        _ => {}
    }
}

/// Returns the images of a block, or `None` for any other object.
fn image(block: &Value) -> Option<Vec<Image>> {
    let text = |value: &Value, name: &str| value[name].as_str().map(str::to_owned);
    let source = &block["source"];
    let inline = [&block["inlineData"], &block["inline_data"]].into_iter().find(|data| data.is_object());
    if let Some(inline) = inline {
        let media_type = text(inline, "mimeType").or_else(|| text(inline, "mime_type"));
        return Some(vec![Image::data(media_type.as_deref(), inline["data"].as_str())]);
    }
    if block["fileData"].is_object() || block["file_data"].is_object() {
        return Some(vec![Image::Other]);
    }
    // Ollama.
    if let Some(images) = block["images"].as_array().filter(|_| block["role"].is_string()) {
        return Some(images.iter().map(|data| data.as_str().map_or(Image::Other, Image::bare)).collect());
    }
    Some(match block["type"].as_str()? {
        "image" if source["type"] == "url" => vec![Image::url(source["url"].as_str())],
        "image" if source.is_object() => {
            vec![Image::data(source["media_type"].as_str(), source["data"].as_str())]
        }
        "image" if block["image_urls"].is_array() => {
            block["image_urls"].as_array()?.iter().map(|url| Image::url(url.as_str())).collect()
        }
        "image" => {
            let media_type = text(block, "mimeType").or_else(|| text(block, "media_type"));
            vec![Image::data(media_type.as_deref(), block["data"].as_str())]
        }
        "document" if source.is_object() => vec![Image::Other],
        "image_url" => vec![Image::url(block["image_url"]["url"].as_str().or(block["image_url"].as_str()))],
        "input_image" => vec![Image::url(block["image_url"].as_str())],
        "file" if block["mime"].as_str().is_some_and(|mime| mime.starts_with("image/")) => {
            vec![Image::url(block["url"].as_str())]
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(raw: &str) {
        let expected = Image::Data { media_type: "image/png".into(), data: "iVBORw0K".into() };
        assert_eq!(images(raw.as_bytes()), [expected], "{raw}");
    }

    #[test]
    fn finds_images_in_every_form() {
        check(
            r#"{"type":"text","text":"a"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0K"}}"#,
        );
        check(r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0K"}}"#);
        check(r#"{"content":[{"type":"input_image","image_url":"data:image/png;base64,iVBORw0K"}]}"#);
        check(r#"{"inlineData":{"mimeType":"image/png","data":"iVBORw0K"}}"#);
        check(r#"{"type":"image","mimeType":"image/png","data":"iVBORw0K"}"#);
        check(r#"{"type":"image","image_urls":["data:image/png;base64,iVBORw0K"]}"#);
        check(r#"{"type":"file","mime":"image/png","url":"data:image/png;base64,iVBORw0K"}"#);
        check(r#"{"role":"user","content":"a","images":["iVBORw0K"]}"#);
    }

    #[test]
    fn other_media_has_no_data() {
        let document =
            r#"{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBE"}}"#;
        assert_eq!(images(document.as_bytes()), [Image::Other]);
        assert_eq!(images(br#"{"type":"input_image","file_id":"f1"}"#), [Image::Other]);
        assert_eq!(images(b"\"text\""), []);
        assert_eq!(images(b"{"), []);
    }
}
