//! Images in the requests of `print --as`.

use serde_json::{Value, json};

use crate::support::World;

const DATA: &str = "iVBORw0KGgo=";

/// Returns a session of Claude Code with an image in a request and one in a result, and with a document.
fn session() -> Vec<u8> {
    let line = |uuid: &str, parent: Value, kind: &str, content: Value| {
        let role = if kind == "user" { "user" } else { "assistant" };
        json!({
            "parentUuid": parent, "isSidechain": false, "sessionId": "s", "version": "2.1.330", "type": kind,
            "message": { "id": uuid, "role": role, "content": content }, "uuid": uuid, "timestamp": "2026-11-23T05:00:00.000Z",
        })
    };
    let image =
        json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": DATA } });
    let document = json!({ "type": "document", "source": { "type": "base64", "media_type": "application/pdf", "data": "JVBE" } });
    let text = |text: &str| json!({ "type": "text", "text": text });
    let call =
        json!({ "type": "tool_use", "id": "toolu_1", "name": "Read", "input": { "file_path": "a.png" } });
    let result = json!({ "type": "tool_result", "tool_use_id": "toolu_1", "content": [image] });
    let lines = [
        line("u1", Value::Null, "user", json!([text("What is in it?"), image, text("Be short.")])),
        line("u2", json!("u1"), "assistant", json!([call])),
        line("u3", json!("u2"), "user", json!([result])),
        line("u4", json!("u3"), "assistant", json!([text("A tap.")])),
        line("u5", json!("u4"), "user", json!([text("And in this?"), document])),
        line("u6", json!("u5"), "assistant", json!([text("A rose.")])),
    ];
    lines.map(|line| format!("{line}\n")).concat().into_bytes()
}

/// Prints the session for a provider. Checks the number of lost images.
#[track_caller]
fn body(provider: &str, lost: usize) -> Value {
    let world = World::new();
    world.write_file("s.jsonl", &session());
    let output = world.run(&["print", "s.jsonl", "--as", provider]).exits(0);
    let are = if lost == 1 { "is" } else { "are" };
    let warning =
        format!("{lost} of 3 images {are} not in the request, because {provider} has no form for such");
    let output = output.reports(&warning);
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn anthropic_gets_images_of_requests_and_results() {
    let body = body("anthropic", 1);
    let image =
        json!({ "type": "image", "source": { "type": "base64", "media_type": "image/png", "data": DATA } });
    let first =
        json!([{ "type": "text", "text": "What is in it?" }, image, { "type": "text", "text": "Be short." }]);
    assert_eq!(body["messages"][0]["content"], first);
    assert_eq!(body["messages"][2]["content"][0]["content"], json!([image]));
    assert_eq!(body["messages"][4]["content"][0]["text"], "And in this?\n[image]");
}

#[test]
fn openai_gets_images_of_requests() {
    let url = format!("data:image/png;base64,{DATA}");
    let chat = body("openai", 2);
    let image = json!({ "type": "image_url", "image_url": { "url": url } });
    let first =
        json!([{ "type": "text", "text": "What is in it?" }, image, { "type": "text", "text": "Be short." }]);
    assert_eq!(chat["messages"][0]["content"], first);
    let responses = body("openai-responses", 1);
    let image = json!({ "type": "input_image", "detail": "auto", "image_url": url });
    let texts = ["What is in it?", "Be short."].map(|text| json!({ "type": "input_text", "text": text }));
    assert_eq!(responses["input"][0]["content"], json!([texts[0], image, texts[1]]));
    assert_eq!(responses["input"][2]["output"], json!([image]));
}

#[test]
fn gemini_and_ollama_get_images_of_requests() {
    let gemini = body("gemini", 2);
    let image = json!({ "inlineData": { "mimeType": "image/png", "data": DATA } });
    let parts = json!([{ "text": "What is in it?" }, image, { "text": "Be short." }]);
    assert_eq!(gemini["contents"][0]["parts"], parts);
    let ollama = body("ollama", 2);
    assert_eq!(ollama["messages"][0]["content"], "What is in it?\nBe short.");
    assert_eq!(ollama["messages"][0]["images"], json!([DATA]));
}

#[test]
fn ollama_gets_images_of_joined_requests() {
    let world = World::new();
    let image = json!({"type": "image_url", "image_url": {"url": format!("data:image/png;base64,{DATA}")}});
    let text = |text: &str| json!({"type": "text", "text": text});
    let body = json!({"model": "gpt-5", "messages": [
        {"role": "user", "content": "Look at this."},
        {"role": "user", "content": [text("Here:\n\nA tap."), image, text("\nSee?")]},
        {"role": "user", "content": [image]},
        {"role": "user", "content": "Which is it?\n\nBe short."},
        {"role": "assistant", "content": "The tap.", "refusal": null},
    ]});
    world.write_file("s.json", body.to_string().as_bytes());
    let output = world.run(&["print", "s.json", "--as", "ollama"]).exits(0);
    assert!(!output.stderr.contains("image"), "{}", output.stderr);
    let message = &serde_json::from_slice::<Value>(&output.stdout).unwrap()["messages"][0];
    let text = "Look at this.\n\nHere:\n\nA tap.\n\nSee?\n\nWhich is it?\n\nBe short.";
    assert_eq!((&message["content"], &message["images"]), (&json!(text), &json!([DATA, DATA])));
}

#[test]
fn typed_line_is_not_an_image() {
    let world = World::new();
    world.write_file("s.json", br#"{"messages":[{"role":"user","content":"a\n[image]"},{"role":"assistant","content":"b","refusal":null}]}"#);
    let output = world.run(&["print", "s.json", "--as", "ollama"]).exits(0);
    assert!(!output.stderr.contains("image"), "{}", output.stderr);
}

#[test]
fn fork_and_import_count_images() {
    let world = World::new();
    world.write_file("s.jsonl", &session());
    let fork = |name: &str| world.run(&["fork", "s.jsonl", name, "--json"]).exits(0).line();
    assert_eq!(fork("a.jsonl")["session"]["images"], json!({ "kept": 3, "lost": 0 }));
    world.run(&["s.jsonl", "--strategy", "strip-tools", "--keep-last", "0"]).exits(0);
    assert_eq!(fork("b.jsonl")["session"]["images"], json!({ "kept": 2, "lost": 1 }));
    world
        .run(&["fork", "s.jsonl", "c.jsonl"])
        .exits(0)
        .reports("  3 images, 1 left out (hidden by overlays)");
    let import = world.run(&["import", "s.jsonl", "--to", "i", "--json"]).exits(0).line();
    assert_eq!(import["images"], json!({ "kept": 0, "lost": 3 }));
    world
        .run(&["import", "s.jsonl", "--to", "j"])
        .exits(0)
        .reports("  3 images left out: JP's conversations have no form for them");
}
