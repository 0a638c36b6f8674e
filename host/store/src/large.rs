//! A large transcript, which is read in windows. Its compacted form is written without its bytes in memory: the kept
//! bytes are copied from the open file. If JP replaces the file in the meantime, the open file only loses its name. If
//! another program writes into the file, the result is invalid and [`LargeTranscript::check_unchanged`] fails.

use std::{
    cell::Cell,
    fs::{File, Metadata},
    io,
    ops::Range,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use jp_compact_condensed::{CompactedSession, Condensed, CondensedLimits};
use jp_compact_core::{index::Unreadable, splice::Piece};

use super::{
    Place, StoreError,
    copy_ranges::RangeCopier,
    early_copy::EarlyCopy,
    error::unreadable,
    fresh::{FillError, write_new_with},
    sidecar_file::is_events,
};

/// A smaller transcript is read completely.
const LARGE_FROM_BYTES: u64 = 4 << 20;

/// The size of one read. At this size the bytes are still in the processor's cache when they are parsed.
const WINDOW_BYTES: usize = 128 << 10;

/// The maximum size of a read at the beginning, to detect the format.
const BEGINNING_BYTES: u64 = 1 << 20;

/// The open file of a large transcript.
pub struct LargeFile {
    file: Arc<File>,
    path: PathBuf,
    state: FileState,
}

/// A large transcript, and the open file with its texts.
pub struct LargeTranscript {
    file: LargeFile,
    content: Content,
    /// The compacted transcript, if it is already written.
    copy: Cell<Option<EarlyCopy>>,
}

enum Content {
    Condensed(Box<Condensed>),
    Session(Box<CompactedSession>),
    /// The pieces of the compacted transcript.
    Pieces(Vec<Piece>),
}

/// The values that show a write into an open file.
#[derive(Clone, Copy, PartialEq, Eq)]
struct FileState {
    size: u64,
    modified: Option<SystemTime>,
    /// The time of the last change of the metadata. A program that sets `modified` back cannot set `changed`.
    changed: (i64, i64),
    /// A rename over the file also changes `changed`, but then the number of links changes as well.
    links: u64,
}

impl FileState {
    fn new(metadata: &Metadata) -> Self {
        Self {
            size: metadata.len(),
            modified: metadata.modified().ok(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            links: metadata.nlink(),
        }
    }

    fn has_same_content(&self, later: &Self) -> bool {
        (self.size, self.modified) == (later.size, later.modified)
            && (self.changed == later.changed || self.links != later.links)
    }
}

/// Reads a transcript of JP if it is large. `None` if it is small or of another program, or if `output` is the same
/// file: then it must be read completely. The inner error is the error that a complete read would report.
///
/// A transcript without overlays can already be written into `output`, and is removed from it if the result is dropped
/// before [`LargeTranscript::write_compacted`].
///
/// # Errors
///
/// The path is not a regular file, cannot be read, or changes during the read.
pub fn read_large(
    place: &Place,
    output: Option<&File>,
) -> Result<Option<Result<LargeTranscript, Unreadable>>, StoreError> {
    if !is_events(place) {
        return Ok(None);
    }
    let Some(file) = open_large(place, output)? else { return Ok(None) };
    let read = |offset, window: &mut [u8]| file.read_some(offset, window);
    let mut copy = output.and_then(EarlyCopy::begin);
    let on_unchanged = |bytes: &[u8]| drop(copy.take_if(|copy| copy.write(bytes).is_err()));
    let condensed = Condensed::read(file.size(), CondensedLimits::default(), read, on_unchanged);
    let condensed = condensed.map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => changed(&file.path, "shrank"),
        _ => unreadable("read", &file.path)(error),
    })?;
    file.check_unchanged()?;
    Ok(Some(condensed.map(|condensed| {
        let copy = copy.filter(|copy| condensed.is_unchanged() && copy.written() == file.state.size);
        let content = Content::Condensed(Box::new(condensed));
        LargeTranscript { file, content, copy: Cell::new(copy) }
    })))
}

/// Opens a transcript of any format if it is large. `None` if it is small, or if `output` is the same file.
///
/// # Errors
///
/// The path is not a regular file, or cannot be read.
pub fn open_large(place: &Place, output: Option<&File>) -> Result<Option<LargeFile>, StoreError> {
    if place.record_folder()?.is_some() {
        return Ok(None);
    }
    let (file, path) = (place.open()?, place.path().to_path_buf());
    let metadata = file.metadata().map_err(unreadable("read", &path))?;
    let id = |metadata: &Metadata| (metadata.dev(), metadata.ino());
    let output_id = output.and_then(|output| output.metadata().ok()).map(|metadata| id(&metadata));
    if metadata.len() < LARGE_FROM_BYTES || output_id == Some(id(&metadata)) {
        return Ok(None);
    }
    let state = FileState::new(&metadata);
    Ok(Some(LargeFile { file: Arc::new(file), path, state }))
}

fn check_unchanged(file: &File, before: &FileState, path: &Path) -> Result<(), StoreError> {
    let after = FileState::new(&file.metadata().map_err(unreadable("read", path))?);
    match after.size.cmp(&before.size) {
        std::cmp::Ordering::Less => Err(changed(path, "shrank")),
        std::cmp::Ordering::Greater => Err(changed(path, "grew")),
        std::cmp::Ordering::Equal if before.has_same_content(&after) => Ok(()),
        std::cmp::Ordering::Equal => Err(changed(path, "was written to")),
    }
}

impl LargeFile {
    /// Returns the size of the file.
    #[must_use]
    pub fn size(&self) -> usize {
        usize::try_from(self.state.size).expect("a file fits the address space")
    }

    /// Reads the beginning of the file.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn beginning(&self) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; usize::try_from(self.state.size.min(BEGINNING_BYTES)).unwrap_or_default()];
        self.file.read_exact_at(&mut bytes, 0).map_err(unreadable("read", &self.path))?;
        Ok(bytes)
    }

    /// Reads some bytes at an offset, which is before the end of the file.
    fn read_some(&self, offset: u64, window: &mut [u8]) -> io::Result<usize> {
        match read_at(&self.file, window, offset)? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => Ok(bytes),
        }
    }

    /// Returns a function that reads the next bytes, from the first byte of the file. It returns `None` after an error.
    pub fn reader(&self) -> impl FnMut(&mut [u8]) -> Option<usize> + use<> {
        let (file, mut offset) = (Arc::clone(&self.file), 0);
        move |buffer| {
            let read = read_at(&file, buffer, offset).ok()?;
            offset += read as u64;
            Some(read)
        }
    }

    /// Reads ranges of the file, and calls `each` with the bytes of every range, in parts. Ascending ranges are read from
    /// the file once.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn read_ranges(
        &self,
        ranges: impl Iterator<Item = Range<usize>>,
        mut each: impl FnMut(RangePart<'_>),
    ) -> io::Result<()> {
        let (mut buffer, mut loaded) = (vec![0; WINDOW_BYTES], 0..0);
        for mut range in ranges {
            while !range.is_empty() {
                if !loaded.contains(&range.start) {
                    let read = read_at(&self.file, &mut buffer, range.start as u64)?;
                    if read == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    loaded = range.start..range.start + read;
                }
                let end = range.end.min(loaded.end);
                each(RangePart::Bytes(&buffer[range.start - loaded.start..end - loaded.start]));
                range.start = end;
            }
            each(RangePart::End);
        }
        Ok(())
    }

    /// Checks that no program has written into the file since it was opened.
    ///
    /// # Errors
    ///
    /// The file has changed.
    pub fn check_unchanged(&self) -> Result<(), StoreError> {
        check_unchanged(&self.file, &self.state, &self.path)
    }

    /// Returns the transcript with the pieces of its compacted form. [`Piece::Old`] is a range of the file.
    #[must_use]
    pub fn with_pieces(self, pieces: Vec<Piece>) -> LargeTranscript {
        LargeTranscript { file: self, content: Content::Pieces(pieces), copy: Cell::default() }
    }

    /// Returns the transcript with its compacted form.
    #[must_use]
    pub fn with_session(self, session: CompactedSession) -> LargeTranscript {
        LargeTranscript { file: self, content: Content::Session(Box::new(session)), copy: Cell::default() }
    }
}

/// A part of the ranges that [`LargeFile::read_ranges`] reads.
pub enum RangePart<'a> {
    Bytes(&'a [u8]),
    End,
}

fn read_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    loop {
        match file.read_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

impl LargeTranscript {
    /// Returns whether the file has an event of a known type, or no events.
    #[must_use]
    pub fn is_understood(&self) -> bool {
        match &self.content {
            Content::Condensed(condensed) => condensed.is_understood(),
            Content::Session(_) | Content::Pieces(_) => true,
        }
    }

    /// Calls `write` with the pieces of the compacted transcript, some at a time.
    fn for_each_batch(&self, mut write: impl FnMut(&[Piece]) -> io::Result<()>) -> io::Result<()> {
        match &self.content {
            Content::Condensed(condensed) => {
                condensed.compacted(|offset, window| self.file.read_some(offset, window), write)
            }
            Content::Session(session) => session.write(write),
            Content::Pieces(pieces) => write(pieces),
        }
    }

    /// Writes the compacted transcript into the output that was passed to [`read_large`], or into any file if none was
    /// passed. Afterwards, call [`LargeTranscript::check_unchanged`], also after an error.
    ///
    /// # Errors
    ///
    /// The output cannot be written, or the file cannot be read.
    pub fn write_compacted(&self, output: &File) -> io::Result<()> {
        if let Some(copy) = self.copy.take() {
            copy.keep();
            return Ok(());
        }
        let mut copier = RangeCopier::new(&self.file.file, output);
        self.for_each_batch(|pieces| copier.write_pieces(pieces))?;
        copier.flush()
    }

    /// Checks that no program has written into the file since it was read.
    ///
    /// # Errors
    ///
    /// The file has changed.
    pub fn check_unchanged(&self) -> Result<(), StoreError> {
        self.file.check_unchanged()
    }

    /// Writes the compacted transcript to a new file, with the permissions of the transcript.
    ///
    /// # Errors
    ///
    /// The path exists already, the file cannot be written, or the transcript has changed. On any error except
    /// [`StoreError::NotDurable`], no file is created.
    pub fn write_new(&self, path: &Path) -> Result<(), StoreError> {
        let mut bytes = 0;
        let sized = self.for_each_batch(|pieces| {
            bytes += pieces.iter().map(piece_bytes).sum::<u64>();
            Ok(())
        });
        sized.map_err(unreadable("read", &self.file.path))?;
        write_new_with(path, Some(&self.file.path), bytes, |output| {
            let written = self.write_compacted(output);
            self.check_unchanged().map_err(FillError::Source)?;
            written.map_err(FillError::Output)
        })
    }
}

fn piece_bytes(piece: &Piece) -> u64 {
    match piece {
        Piece::Old(range) => range.len() as u64,
        Piece::New(bytes) => bytes.len() as u64,
    }
}

fn changed(path: &Path, how: &'static str) -> StoreError {
    StoreError::Changed { path: path.to_path_buf(), how }
}
