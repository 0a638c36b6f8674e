//! The cost of the token estimate: the time for the texts of a conversation, compared with reading the file and with
//! the earlier estimate, the count of characters.

use std::fs;
use std::hint::black_box;
use std::io;
use std::path::Path;
use std::time::Instant;

use jp_compact_core::Stream;
use jp_compact_tokens::PieceCounts;

use crate::measure::{Usage, alternate};
use crate::table::Table;

pub(crate) fn add_rows(table: &mut Table, path: &Path, runs: usize) -> io::Result<()> {
    let stream = Stream::parse(fs::read(path)?.into()).map_err(io::Error::other)?;
    // The stored strings, without decoding base64, so that only the count is measured.
    let texts: Vec<&[u8]> = stream.events().iter().map(|event| stream.bytes_at(event.body)).collect();
    let mut read = || timed(|| fs::read(path).map(|bytes| bytes.len() as u64));
    let mut estimate = || {
        timed(|| {
            Ok(texts
                .iter()
                .filter_map(|text| PieceCounts::of_json_string(text))
                .map(PieceCounts::weight)
                .sum())
        })
    };
    let mut characters = || {
        timed(|| {
            let count = |text: &&[u8]| text.iter().filter(|byte| !matches!(byte, 0x80..=0xBF)).count() as u64;
            Ok(texts.iter().map(count).sum::<u64>() / 4)
        })
    };
    let [read, estimate, characters] = alternate(runs, [&mut read, &mut estimate, &mut characters])?;
    table.add_times("token estimate / reading the file", estimate.wall, read.wall, None);
    table.add_times("token estimate / counting characters", estimate.wall, characters.wall, None);
    Ok(())
}

fn timed(work: impl FnOnce() -> io::Result<u64>) -> io::Result<Usage> {
    let started = Instant::now();
    black_box(work()?);
    Ok(Usage { wall: started.elapsed(), ..Usage::default() })
}
