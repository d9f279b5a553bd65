//! Server-sent events, decoded as they arrive: the wire form of every streamed model answer.
//!
//! Law 7: an event is the same however the bytes were cut. LF, CRLF and CR end a line, also when CR and LF come in two
//! reads; a line is looked at as text only when it is whole, so a character split over two reads stays one character.
//! Called by the dialects with each read of the body; what is kept between reads is bounded.

/// One event, borrowed from the decoder.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SseEvent<'a> {
    /// Whether the event was named `error`.
    pub is_error: bool,
    /// The `data:` lines, joined by line feeds.
    pub data: &'a [u8],
}

/// An event grew beyond the bound.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EventTooLarge;

/// Decoder of one stream.
#[derive(Debug)]
pub(crate) struct SseDecoder {
    /// Start of a line whose end has not arrived.
    partial: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    is_error: bool,
    /// The last byte was CR: an LF at the start of the next read belongs to it.
    ended_by_cr: bool,
    is_first_line: bool,
    event_bytes_max: usize,
}

impl SseDecoder {
    /// A decoder that refuses an event (or a line) of more than `event_bytes_max` bytes.
    pub(crate) fn new(event_bytes_max: usize) -> Self {
        Self {
            partial: Vec::new(),
            data: Vec::new(),
            has_data: false,
            is_error: false,
            ended_by_cr: false,
            is_first_line: true,
            event_bytes_max,
        }
    }

    /// Takes the next bytes of the stream and hands each event that they complete to `sink`.
    pub(crate) fn push(&mut self, bytes: &[u8], mut sink: impl FnMut(SseEvent<'_>)) -> Result<(), EventTooLarge> {
        let mut rest = bytes;
        if self.ended_by_cr && !rest.is_empty() {
            self.ended_by_cr = false;
            rest = rest.strip_prefix(b"\n").unwrap_or(rest);
        }
        while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
            let (line, after) = (&rest[..end], &rest[end + 1..]);
            let is_cr = rest[end] == b'\r';
            self.ended_by_cr = is_cr && after.is_empty();
            rest = if is_cr { after.strip_prefix(b"\n").unwrap_or(after) } else { after };
            self.check(line.len())?;
            if self.partial.is_empty() {
                self.line(line, &mut sink);
            } else {
                let mut whole = std::mem::take(&mut self.partial);
                whole.extend_from_slice(line);
                self.line(&whole, &mut sink);
                whole.clear();
                self.partial = whole;
            }
        }
        self.check(rest.len())?;
        self.partial.extend_from_slice(rest);
        Ok(())
    }

    /// The stream ended: hands over a last event that no blank line closed.
    pub(crate) fn finish(&mut self, mut sink: impl FnMut(SseEvent<'_>)) {
        let line = std::mem::take(&mut self.partial);
        if !line.is_empty() {
            self.line(&line, &mut sink);
        }
        self.dispatch(&mut sink);
    }

    fn check(&self, more_bytes: usize) -> Result<(), EventTooLarge> {
        let held = self.partial.len() + self.data.len() + more_bytes;
        if held > self.event_bytes_max { Err(EventTooLarge) } else { Ok(()) }
    }

    fn line(&mut self, line: &[u8], sink: &mut impl FnMut(SseEvent<'_>)) {
        let line = if self.is_first_line { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line) } else { line };
        self.is_first_line = false;
        if line.is_empty() {
            self.dispatch(sink);
            return;
        }
        let (field, value) = match line.iter().position(|&byte| byte == b':') {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" => {
                if self.has_data {
                    self.data.push(b'\n');
                }
                self.has_data = true;
                self.data.extend_from_slice(value);
            }
            b"event" => self.is_error = value == b"error",
            // A comment has an empty field name; `id`, `retry` and unknown fields mean nothing here.
            _ => {}
        }
    }

    fn dispatch(&mut self, sink: &mut impl FnMut(SseEvent<'_>)) {
        if self.has_data || self.is_error {
            sink(SseEvent { is_error: self.is_error, data: &self.data });
        }
        self.data.clear();
        self.has_data = false;
        self.is_error = false;
    }
}

#[cfg(test)]
mod tests;
