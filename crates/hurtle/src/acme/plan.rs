//! When a certificate is asked for: by its time, by what its authority advises, and by how often it
//! has been tried in vain. All times are seconds since 1970.

/// Waits after the first attempt that failed, the second and so on; the last one for all further.
/// The authorities' own bounds are wider than these: the strictest known is five failures of a name
/// in an hour.
const BACK_OFF_SECS: [u64; 6] = [60, 5 * 60, 20 * 60, 60 * 60, 4 * 60 * 60, 12 * 60 * 60];

/// Of a wait, the part that differs between servers.
const BACK_OFF_JITTER: f64 = 0.1;

/// Of a certificate's time, what is left when it is renewed, at least; and how much more may be, so
/// that not all are renewed at once.
const LEFT: f64 = 1.0 / 3.0;
const LEFT_JITTER: f64 = 1.0 / 20.0;

/// Of a certificate's time, what is left at least, whatever its authority advises.
const LEFT_MIN: f64 = 1.0 / 10.0;

/// How long is waited after so many attempts that failed, in seconds. `lot` is from 0 to 1.
pub(super) fn back_off(failures: u32, lot: f64) -> u64 {
    let Some(step) = (failures as usize).checked_sub(1) else { return 0 };
    let secs = BACK_OFF_SECS[step.min(BACK_OFF_SECS.len() - 1)];
    secs + (secs as f64 * BACK_OFF_JITTER * lot) as u64
}

/// When a certificate that is valid from one time to another is renewed: within the window that its
/// authority advises (RFC 9773 4.2), else when a third of its time is left. `lot` is from 0 to 1,
/// and always the same for one certificate.
pub(super) fn renewal(valid: (u64, u64), advised: Option<(u64, u64)>, lot: f64) -> u64 {
    let (from, until) = valid;
    let life = until.saturating_sub(from) as f64;
    let before_end = |part: f64| until.saturating_sub((life * part) as u64);
    match advised {
        Some((start, end)) if start <= end => {
            let chosen = start + ((end - start) as f64 * lot) as u64;
            chosen.min(before_end(LEFT_MIN))
        }
        _ => before_end(LEFT + LEFT_JITTER * lot),
    }
}

/// A number from 0 to 1 that is always the same for the same bytes.
pub(super) fn lot(bytes: &[u8]) -> f64 {
    xxhash_rust::xxh3::xxh3_64(bytes) as f64 / u64::MAX as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 60 * 60;

    #[test]
    fn renewal_is_ahead_of_time() {
        let valid = (1_000 * DAY, 1_090 * DAY);
        let table = [
            ("without advice, a third is left", None, 0.0, 1_060 * DAY),
            ("or a little more", None, 1.0, 1_060 * DAY - 90 * DAY / 20),
            ("the window's begin", Some((1_010, 1_020)), 0.0, 1_010 * DAY),
            ("its end", Some((1_010, 1_020)), 1.0, 1_020 * DAY),
            ("between", Some((1_010, 1_020)), 0.5, 1_015 * DAY),
            ("a window that is past is now", Some((10, 20)), 0.5, 15 * DAY),
            ("a window beyond the end", Some((1_200, 1_300)), 0.5, 1_081 * DAY),
            ("a window the wrong way round is none", Some((1_020, 1_010)), 0.0, 1_060 * DAY),
        ];
        for (sentence, days, lot, expected) in table {
            let advised = days.map(|(start, end): (u64, u64)| (start * DAY, end * DAY));
            let found = renewal(valid, advised, lot);
            assert!(found.abs_diff(expected) <= 1, "{sentence}: {found} {expected}");
        }
    }

    #[test]
    fn attempts_become_rare() {
        let waits: Vec<u64> = (0..9).map(|failures| back_off(failures, 0.0)).collect();
        assert_eq!(waits, [0, 60, 300, 1_200, 3_600, 14_400, 43_200, 43_200, 43_200]);
        let within_an_hour = waits.iter().scan(0, |sum, wait| {
            *sum += wait;
            (*sum < 3_600).then_some(())
        });
        assert!(within_an_hour.count() < 5, "five failures in an hour are Let's Encrypt's bound");
        assert!((60..=66).contains(&back_off(1, lot(b"a"))));
    }
}
