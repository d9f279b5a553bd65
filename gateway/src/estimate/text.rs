//! Tokens of a text without a vocabulary: runs of one kind of character, each at the rate at which tokenizers cut it.
//!
//! A real tokenizer costs tens of megabytes and tens of microseconds a kilobyte; this costs neither. Against `o200k_base` it is
//! within 13 % for 20 languages, code and JSON (docs/decisions/token-estimate.md); what is left is a constant factor of each
//! kind of text, which the running correction takes out.

/// Thousandths of a token, so that sums are whole numbers.
type Milli = u64;

/// A run of letters, and what it costs beyond 5 and beyond 9 letters: long words are cut.
const WORD: Milli = 800;
const WORD_LETTER_FROM_6: Milli = 360;
const WORD_LETTER_FROM_10: Milli = 260;
/// Each further letter of a word in capitals.
const CAPITAL: Milli = 155;
/// A capital after a small letter begins another word, and more: so do random letters.
const CAMEL: Milli = 1_320;
/// Up to three digits.
const DIGITS: Milli = 1_210;
/// A line end, and a run of more than one blank. A single blank belongs to the word behind it.
const LINE_END: Milli = 400;
const BLANKS: Milli = 500;
/// A run of punctuation, and each further mark in it.
const MARK: Milli = 820;
const MARK_MORE: Milli = 20;

/// Tokens of `text`.
#[must_use]
pub(crate) fn tokens(text: &str) -> u64 {
    let mut rest = text.as_bytes();
    let mut milli: Milli = 0;
    while let Some(first) = rest.first() {
        let (length, cost) = match kind(*first) {
            Kind::Letter => word(rest),
            Kind::Digit => {
                let length = run(rest, Kind::Digit);
                (length, DIGITS * count(length.div_ceil(3)))
            }
            Kind::Blank => blanks(rest),
            Kind::Mark => {
                let length = run(rest, Kind::Mark);
                (length, MARK + MARK_MORE * count(length - 1))
            }
            Kind::Beyond => beyond(rest),
        };
        milli += cost;
        rest = rest.get(length..).unwrap_or_default();
    }
    milli.div_ceil(1_000)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Letter,
    Digit,
    Blank,
    Mark,
    /// Beyond ASCII.
    Beyond,
}

fn kind(byte: u8) -> Kind {
    match byte {
        b'a'..=b'z' | b'A'..=b'Z' => Kind::Letter,
        b'0'..=b'9' => Kind::Digit,
        b' ' | b'\t' | b'\r' | b'\n' => Kind::Blank,
        0..=0x7F => Kind::Mark,
        _ => Kind::Beyond,
    }
}

fn run(bytes: &[u8], of: Kind) -> usize {
    bytes.iter().position(|byte| kind(*byte) != of).unwrap_or(bytes.len())
}

/// Letters up to the next capital that follows a small one.
fn word(bytes: &[u8]) -> (usize, Milli) {
    let mut length = 1;
    let mut is_capital = bytes[0].is_ascii_uppercase();
    let mut are_all_capital = is_capital;
    let mut is_cut_by_capital = false;
    while let Some(byte) = bytes.get(length).filter(|byte| byte.is_ascii_alphabetic()) {
        let was_capital = std::mem::replace(&mut is_capital, byte.is_ascii_uppercase());
        if is_capital && !was_capital {
            is_cut_by_capital = true;
            break;
        }
        are_all_capital &= is_capital;
        length += 1;
    }
    let mut cost = WORD;
    cost += WORD_LETTER_FROM_6 * count(length.clamp(5, 9) - 5) + WORD_LETTER_FROM_10 * count(length.max(9) - 9);
    if are_all_capital {
        cost += CAPITAL * count(length - 1);
    }
    if is_cut_by_capital {
        cost += CAMEL;
    }
    (length, cost)
}

fn blanks(bytes: &[u8]) -> (usize, Milli) {
    let length = run(bytes, Kind::Blank);
    if length == 1 && bytes[0] == b' ' {
        return (1, 0);
    }
    let line_end = bytes[..length].iter().rposition(|byte| *byte == b'\n');
    let indent = length - line_end.map_or(0, |at| at + 1);
    let cost = if line_end.is_some() { LINE_END } else { 0 } + if indent > 1 { BLANKS } else { 0 };
    (length, cost)
}

/// One character beyond ASCII.
fn beyond(bytes: &[u8]) -> (usize, Milli) {
    let at = |index: usize| u32::from(bytes.get(index).copied().unwrap_or(0x80) & 0x3F);
    let (length, point) = match bytes[0] {
        first @ 0xC0..=0xDF => (2, u32::from(first & 0x1F) << 6 | at(1)),
        first @ 0xE0..=0xEF => (3, u32::from(first & 0x0F) << 12 | at(1) << 6 | at(2)),
        _ => (4, 0x1_0000),
    };
    let cost = match point {
        // Latin with accents, Vietnamese too.
        0x80..=0x24F | 0x1E00..=0x1EFF => 210,
        0x370..=0x3FF => 400,
        // Cyrillic.
        0x400..=0x52F => 280,
        // Hebrew, Arabic.
        0x590..=0x77F => 550,
        // Scripts of India, Thai.
        0x900..=0xE7F => 600,
        // Kana, Chinese characters.
        0x3040..=0x30FF | 0x3400..=0x9FFF => 680,
        // Korean.
        0xAC00..=0xD7AF => 740,
        0..=0x7FF => 800,
        0x800..=0xFFFF => 1_000,
        // Emoji and rare scripts.
        _ => 2_000,
    };
    (length, cost)
}

fn count(number: usize) -> Milli {
    u64::try_from(number).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Counted by `o200k_base`.
    const COUNTED: [(&str, u64); 9] = [
        ("The quick brown fox jumps over the lazy dog.", 10),
        ("Accepted work that comes back is never refused and may lift the depth above the limit.", 17),
        ("fn main() {\n    println!(\"hello\");\n}\n", 10),
        (r#"{"type":"object","properties":{"city":{"type":"string","description":"Name of the city"}}}"#, 21),
        ("Die Warteschlange wird von mehreren Arbeitern gleichzeitig bedient.", 13),
        ("Очередь обслуживается несколькими работниками одновременно.", 11),
        ("队列由多个工作进程同时处理。", 10),
        ("キューは複数のワーカーによって同時に処理されます。", 19),
        ("1234567890 3.14159 2026-11-30T20:00:00Z", 23),
    ];

    #[test]
    fn short_texts_are_close() {
        for (text, counted) in COUNTED {
            let estimated = tokens(text);
            assert!(
                estimated * 10 >= counted * 6 && estimated * 10 <= counted * 16,
                "{estimated} for {counted}: {text}"
            );
        }
    }

    #[test]
    fn nothing_is_nothing_and_a_letter_is_a_token() {
        assert_eq!((tokens(""), tokens("a"), tokens(" a"), tokens("🦀")), (0, 1, 1, 2));
    }

    #[test]
    fn random_letters_are_dear() {
        assert!(tokens("kJ8sPq2LmZx9TtRw4YbVnC7hGfD3aEu6") > 20);
    }

    proptest! {
        #[test]
        fn any_text_is_counted_within_its_bounds(text in "\\PC{0,200}") {
            let counted = tokens(&text);
            prop_assert!(counted <= 3 * u64::try_from(text.len()).unwrap());
            prop_assert!(counted * 12 + 1 >= u64::try_from(text.split_whitespace().count()).unwrap());
        }
    }
}
