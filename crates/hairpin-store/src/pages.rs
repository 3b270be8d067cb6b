//! Reads the pages of an untrusted Parquet file. Checks the sizes stated in the file before allocating memory.
//!
//! The `parquet` crate trusts the sizes in a file: a page of a few bytes may request 2 GiB, and a dictionary a
//! billion entries. So `parquet` reads pages as stored, and this module decompresses them.

use std::fs::File;
use std::sync::Arc;

use bytes::Bytes;
use parquet::basic::{Compression, Encoding};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataReader};
use parquet::file::reader::{ChunkReader, Length};
use parquet::file::serialized_reader::SerializedPageReader;

/// Maximum metadata of one round's file; Hairpin writes 1.2 KB.
pub(super) const MAX_METADATA_BYTES: usize = 16 << 10;
/// Maximum metadata of a file of merged rounds. Decoded metadata takes about 30 times as much memory.
pub(super) const MAX_MERGED_METADATA_BYTES: usize = 4 << 20;
/// Maximum size of a decompressed page; Hairpin writes about 1 MiB.
const MAX_PAGE_BYTES: usize = 4 << 20;
/// The end of a file: the length of its metadata, and a magic number.
const TAIL_BYTES: usize = 8;

/// Error for a file without something that the format or the schema requires.
pub(super) fn damaged(what: &str) -> ParquetError {
    ParquetError::General(format!("it lacks {what}"))
}

/// Reads the metadata of a file. Refuses more than `max_bytes`.
pub(super) fn metadata(file: &File, max_bytes: usize) -> Result<ParquetMetaData, ParquetError> {
    let length = file.len();
    let tail_at = length.checked_sub(TAIL_BYTES as u64).ok_or_else(|| damaged("an end"))?;
    let tail = file.get_bytes(tail_at, TAIL_BYTES)?;
    let Some((size, b"PAR1")) = tail.split_first_chunk::<4>() else {
        return Err(damaged("the end of a Parquet file"));
    };
    let size = usize::try_from(u32::from_le_bytes(*size)).expect("32 bits fit");
    let begins_at = tail_at.checked_sub(size as u64).filter(|_| size <= max_bytes);
    let begins_at = begins_at.ok_or_else(|| damaged("valid metadata"))?;
    ParquetMetaDataReader::decode_metadata(&file.get_bytes(begins_at, size)?)
}

/// The pages of one column. Decompresses each page, to at most [`MAX_PAGE_BYTES`].
pub(super) struct BoundedPages {
    stored: SerializedPageReader<File>,
    compression: Compression,
    rows: usize,
}

impl BoundedPages {
    /// Opens the pages of a column with `rows` rows.
    pub(super) fn new(
        file: &Arc<File>,
        file_bytes: u64,
        column: &ColumnChunkMetaData,
        rows: usize,
    ) -> Result<Self, ParquetError> {
        // `parquet` panics on negative numbers here.
        let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
        let range = u64::try_from(start).ok().zip(u64::try_from(column.compressed_size()).ok());
        let is_inside = |(start, size): (u64, u64)| start.checked_add(size).is_some_and(|end| end <= file_bytes);
        if !range.is_some_and(is_inside) {
            return Err(damaged("the pages of a column"));
        }
        let compression = column.compression();
        if !matches!(compression, Compression::SNAPPY | Compression::UNCOMPRESSED) {
            return Err(damaged("pages packed with Snappy"));
        }
        let as_stored = column.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
        let stored = SerializedPageReader::new(Arc::clone(file), &as_stored, rows, None)?;
        Ok(Self { stored, compression, rows })
    }

    fn decompress(&self, stored: Bytes) -> Result<Bytes, ParquetError> {
        let is_packed = self.compression == Compression::SNAPPY && !stored.is_empty();
        let size = if is_packed { snap::raw::decompress_len(&stored).map_err(snappy_error)? } else { stored.len() };
        if size > MAX_PAGE_BYTES {
            return Err(damaged("pages of at most 4 MiB"));
        }
        if !is_packed {
            return Ok(stored);
        }
        Ok(snap::raw::Decoder::new().decompress_vec(&stored).map_err(snappy_error)?.into())
    }
}

impl PageReader for BoundedPages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        let page = match self.stored.get_next_page()? {
            None => return Ok(None),
            Some(Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, .. }) => {
                let buf = self.decompress(buf)?;
                let is_known =
                    matches!(encoding, Encoding::PLAIN | Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
                let is_valid = is_known && def_level_encoding == Encoding::RLE && num_values > 0;
                if !is_valid || num_values as usize > self.rows {
                    return Err(damaged("a valid page"));
                }
                Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, statistics: None }
            }
            Some(Page::DictionaryPage { buf, num_values, encoding, is_sorted }) => {
                let buf = self.decompress(buf)?;
                // An entry takes at least four bytes for its length.
                if num_values as usize > buf.len() / 4 {
                    return Err(damaged("a valid dictionary"));
                }
                Page::DictionaryPage { buf, num_values, encoding, is_sorted }
            }
            Some(Page::DataPageV2 { .. }) => return Err(damaged("pages of version 1")),
        };
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.stored.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        self.stored.skip_next_page()
    }
}

impl Iterator for BoundedPages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

fn snappy_error(error: snap::Error) -> ParquetError {
    ParquetError::General(error.to_string())
}
