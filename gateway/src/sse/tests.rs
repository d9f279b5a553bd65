use proptest::prelude::*;

use super::*;

fn decode(reads: &[&[u8]]) -> Vec<(bool, String)> {
    let mut events = Vec::new();
    let mut decoder = SseDecoder::new(4096);
    let mut keep = |event: SseEvent<'_>| events.push((event.is_error, String::from_utf8(event.data.to_vec()).unwrap()));
    for read in reads {
        decoder.push(read, &mut keep).unwrap();
    }
    decoder.finish(&mut keep);
    events
}

const FIXTURE: &str = "\u{feff}: comment\n\ndata: {\"a\":\"ä€😀\"}\n\ndata:no space\ndata: second\ndata\n\n\
                       event: error\nid: 7\nretry: 10\ndata: broken\n\n:ping\n\ndata:  two spaces\n\ndata: last";

fn expected() -> Vec<(bool, String)> {
    [
        (false, "{\"a\":\"ä€😀\"}"),
        (false, "no space\nsecond\n"),
        (true, "broken"),
        (false, " two spaces"),
        (false, "last"),
    ]
    .map(|(is_error, data)| (is_error, data.to_owned()))
    .to_vec()
}

#[test]
fn every_line_ending_split_at_every_byte_gives_the_same_events() {
    for ending in ["\n", "\r\n", "\r"] {
        let text = FIXTURE.replace('\n', ending);
        let bytes = text.as_bytes();
        assert_eq!(decode(&[bytes]), expected(), "whole, {ending:?}");
        for cut in 0..=bytes.len() {
            assert_eq!(decode(&[&bytes[..cut], &bytes[cut..]]), expected(), "cut at {cut}, {ending:?}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(decode(&single), expected(), "byte by byte, {ending:?}");
    }
}

#[test]
fn mixed_line_endings_do_not_double_a_blank_line() {
    assert_eq!(
        decode(&[b"data: a\r", b"\ndata: b\r\n\r", b"\n", b"\ndata: c\n\r"]),
        [(false, "a\nb".to_owned()), (false, "c".to_owned())]
    );
}

#[test]
fn an_empty_read_between_cr_and_lf_changes_nothing() {
    assert_eq!(decode(&[b"data: a\r", b"", b"\n\r\n"]), [(false, "a".to_owned())]);
}

#[test]
fn an_event_beyond_the_bound_is_refused_in_one_line_and_over_many() {
    let mut decoder = SseDecoder::new(10);
    assert_eq!(decoder.push(b"data: 12345", |_| panic!("no event is whole")), Err(EventTooLarge));
    let mut decoder = SseDecoder::new(10);
    assert_eq!(decoder.push(b"data: 1\ndata: 2\n", |_| panic!("no event is whole")), Ok(()));
    assert_eq!(decoder.push(b"data: 34", |_| panic!("no event is whole")), Err(EventTooLarge));
}

/// Data of an event: text of several lines, without the line ends themselves.
fn data() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec("[^\r\n]{0,12}", 1..4)
}

/// One block of a stream: an event, or what is none.
#[derive(Clone, Debug)]
enum Block {
    Event { is_error: bool, lines: Vec<String> },
    Comment(String),
    Unknown(String),
}

fn block() -> impl Strategy<Value = Block> {
    prop_oneof![
        4 => (any::<bool>(), data()).prop_map(|(is_error, lines)| Block::Event { is_error, lines }),
        1 => "[^\r\n]{0,8}".prop_map(Block::Comment),
        1 => "[^\r\n:]{0,8}".prop_map(Block::Unknown),
    ]
}

/// The stream of blocks, each line ended by the next of `endings`.
fn written(blocks: &[Block], endings: &[&str], has_space: bool) -> String {
    let mut stream = String::new();
    let mut endings = endings.iter().cycle();
    let mut line = |text: &str| {
        stream.push_str(text);
        stream.push_str(endings.next().copied().unwrap_or("\n"));
    };
    for block in blocks {
        match block {
            Block::Event { is_error, lines } => {
                if *is_error {
                    line("event: error");
                }
                for text in lines {
                    // One space behind the colon is no part of the data, so a data that begins with one needs it.
                    let space = if has_space || text.starts_with(' ') { " " } else { "" };
                    line(&format!("data:{space}{text}"));
                }
            }
            Block::Comment(text) => line(&format!(":{text}")),
            Block::Unknown(text) => line(&format!("x-{text}: y")),
        }
        line("");
    }
    stream
}

proptest! {
    #[test]
    fn any_events_in_any_framing_and_any_reads_come_out_as_they_went_in(
        blocks in prop::collection::vec(block(), 0..6),
        endings in prop::collection::vec(prop_oneof![Just("\n"), Just("\r\n")], 1..4),
        has_cr_only in any::<bool>(),
        has_space in any::<bool>(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        // A CR before a line that begins with LF is one line end, so CR alone is not mixed with the others.
        let endings = if has_cr_only { vec!["\r"] } else { endings };
        let stream = written(&blocks, &endings, has_space);
        let mut places: Vec<_> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        places.extend([0, stream.len()]);
        places.sort_unstable();
        let reads: Vec<_> = places.windows(2).map(|ends| &stream.as_bytes()[ends[0]..ends[1]]).collect();
        let expected: Vec<_> = blocks.iter().filter_map(|block| match block {
            Block::Event { is_error, lines } => Some((*is_error, lines.join("\n"))),
            _ => None,
        }).collect();
        prop_assert_eq!(decode(&reads), expected);
    }

    #[test]
    fn any_bytes_in_any_reads_are_decoded_alike_and_what_is_kept_is_bounded(
        bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'\r'), Just(b':'), Just(b'd'), any::<u8>()], 0..200),
        cut in any::<prop::sample::Index>(),
    ) {
        let events = |reads: &[&[u8]]| {
            let mut events = Vec::new();
            let mut decoder = SseDecoder::new(64);
            for read in reads {
                let taken = decoder.push(read, |event| events.push((event.is_error, event.data.to_vec())));
                assert!(decoder.partial.len() + decoder.data.len() <= 64);
                if taken.is_err() {
                    return (events, true);
                }
            }
            decoder.finish(|event| events.push((event.is_error, event.data.to_vec())));
            (events, false)
        };
        let cut = cut.index(bytes.len() + 1);
        prop_assert_eq!(events(&[&bytes]), events(&[&bytes[..cut], &bytes[cut..]]));
    }
}
