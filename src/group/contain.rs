//! Running user code so that its panic stops here.
#![forbid(unsafe_code)]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `code`; a panic comes back as its message.
pub(crate) fn contain<R>(code: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(code)).map_err(message_of)
}

/// Drops `value`; a panic in a destructor is swallowed.
pub(crate) fn drop_contained<V>(value: V) {
    let _ = contain(move || drop(value));
}

/// The text of a panic payload. The payload is user code's too, so its destructor is contained as well; a payload that
/// panics while a panic of its own kind is being dropped is leaked.
fn message_of(payload: Box<dyn Any + Send>) -> String {
    let text = match (payload.downcast_ref::<&'static str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => (*text).to_owned(),
        (_, Some(text)) => text.clone(),
        _ => "a panic without a message".to_owned(),
    };
    if let Err(again) = catch_unwind(AssertUnwindSafe(move || drop(payload))) {
        std::mem::forget(again);
    }
    text
}

#[cfg(all(test, not(ringlog_loom)))]
mod tests {
    use super::{contain, drop_contained};

    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in a destructor");
        }
    }

    #[test]
    fn a_panic_comes_back_as_its_message() {
        assert_eq!(contain(|| 7), Ok(7));
        assert_eq!(contain(|| -> u8 { panic!("plain") }), Err("plain".to_owned()));
        assert_eq!(contain(|| -> u8 { panic!("number {}", 7) }), Err("number 7".to_owned()));
    }

    #[test]
    fn neither_a_payload_nor_a_destructor_that_panics_gets_out() {
        assert_eq!(contain(|| std::panic::panic_any(Bomb)), Err("a panic without a message".to_owned()));
        drop_contained(Bomb);
    }
}
