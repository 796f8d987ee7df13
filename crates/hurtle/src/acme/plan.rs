//! Times of attempts: from a certificate's lifetime, its authority's advice and the number of
//! failed attempts. All times are in seconds since 1970.

use crate::tls::Validity;

/// Delays after the first failed attempt, the second and so on; the last one repeats. The strictest
/// known limit of an authority is five failures for a name in an hour.
const BACK_OFF_SECS: [u64; 6] = [60, 5 * 60, 20 * 60, 60 * 60, 4 * 60 * 60, 12 * 60 * 60];

/// Random fraction added to a delay.
const BACK_OFF_JITTER: f64 = 0.1;

/// Fraction of the lifetime left at renewal, and a random fraction added to it, so that servers do
/// not renew all at once.
const LEFT: f64 = 1.0 / 3.0;
const LEFT_JITTER: f64 = 1.0 / 20.0;

/// Fraction of the lifetime left at the latest renewal that an authority can advise.
const LEFT_MIN: f64 = 1.0 / 10.0;

/// Longest use of a certificate after which a new one resets the number of attempts.
const LASTED_SECS: u64 = 24 * 60 * 60;

/// Delay after this many failed attempts, in seconds. `random` is from 0 to 1.
pub(super) fn back_off(failures: u32, random: f64) -> u64 {
    let Some(step) = (failures as usize).checked_sub(1) else { return 0 };
    let secs = BACK_OFF_SECS[step.min(BACK_OFF_SECS.len() - 1)];
    secs + (secs as f64 * BACK_OFF_JITTER * random) as u64
}

/// Renewal time of a certificate with this validity period: within the window that its authority
/// advises (RFC 9773 section 4.2), otherwise when a third of its lifetime is left. `random` is from
/// 0 to 1 and constant for a certificate.
pub(super) fn renewal(valid: Validity, advised: Option<(u64, u64)>, random: f64) -> u64 {
    let Validity { from, until } = valid;
    let life = until.saturating_sub(from) as f64;
    let before_end = |part: f64| until.saturating_sub((life * part) as u64);
    match advised {
        Some((start, end)) if start <= end => {
            let chosen = start + ((end - start) as f64 * random) as u64;
            chosen.min(before_end(LEFT_MIN))
        }
        _ => before_end(LEFT + LEFT_JITTER * random),
    }
}

/// Returns whether a certificate was in use so long that a new one resets the number of attempts:
/// orders in a loop do not.
pub(super) fn has_lasted(valid: Validity, now: u64) -> bool {
    let life = valid.until.saturating_sub(valid.from);
    valid.from + LASTED_SECS.min(life / 2) < now
}

/// Derives a number from 0 to 1 from bytes.
pub(super) fn fraction_of(bytes: &[u8]) -> f64 {
    xxhash_rust::xxh3::xxh3_64(bytes) as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 60 * 60;

    #[test]
    fn a_certificate_is_renewed_before_its_end() {
        let valid = Validity { from: 1_000 * DAY, until: 1_090 * DAY };
        let table = [
            ("without advice, a third is left", None, 0.0, 1_060 * DAY),
            ("or a little more", None, 1.0, 1_060 * DAY - 90 * DAY / 20),
            ("the window's start", Some((1_010, 1_020)), 0.0, 1_010 * DAY),
            ("its end", Some((1_010, 1_020)), 1.0, 1_020 * DAY),
            ("between", Some((1_010, 1_020)), 0.5, 1_015 * DAY),
            ("a window in the past", Some((10, 20)), 0.5, 15 * DAY),
            ("a window beyond the end", Some((1_200, 1_300)), 0.5, 1_081 * DAY),
            ("a reversed window is ignored", Some((1_020, 1_010)), 0.0, 1_060 * DAY),
        ];
        for (sentence, days, random, expected) in table {
            let advised = days.map(|(start, end): (u64, u64)| (start * DAY, end * DAY));
            let found = renewal(valid, advised, random);
            assert!(found.abs_diff(expected) <= 1, "{sentence}: {found} {expected}");
        }
    }

    /// Regression: each renewal of a certificate for hours was counted as a failure, and the next
    /// one came after its end.
    #[test]
    fn a_renewal_resets_the_attempts_and_a_loop_of_orders_does_not() {
        for hours in [1, 8, 12, 24, 90 * 24] {
            let valid = Validity { from: DAY, until: DAY + hours * 3_600 };
            for advised in [None, Some((valid.until, valid.until))] {
                let renewed = renewal(valid, advised, 1.0);
                assert!(has_lasted(valid, renewed), "{hours} hours");
            }
            assert!(!has_lasted(valid, DAY + 60), "{hours} hours");
        }
    }

    #[test]
    fn delays_between_attempts_grow() {
        let waits: Vec<u64> = (0..9).map(|failures| back_off(failures, 0.0)).collect();
        assert_eq!(waits, [0, 60, 300, 1_200, 3_600, 14_400, 43_200, 43_200, 43_200]);
        let within_an_hour = waits.iter().scan(0, |sum, wait| {
            *sum += wait;
            (*sum < 3_600).then_some(())
        });
        assert!(within_an_hour.count() < 5, "Let's Encrypt allows five failures in an hour");
        assert!((60..=66).contains(&back_off(1, fraction_of(b"a"))));
    }
}
