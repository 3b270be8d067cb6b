//! Arguments of a program, as a text or as a list.

/// A text is split at spaces, so values with spaces need a list. A pair is its first part, then its second part.
pub(crate) trait Arguments {
    fn words(&self) -> Vec<String>;
}

impl Arguments for str {
    fn words(&self) -> Vec<String> {
        self.split_whitespace().map(str::to_owned).collect()
    }
}

impl Arguments for String {
    fn words(&self) -> Vec<String> {
        self.as_str().words()
    }
}

impl<T: AsRef<str>> Arguments for [T] {
    fn words(&self) -> Vec<String> {
        self.iter().map(|word| word.as_ref().to_owned()).collect()
    }
}

impl<T: AsRef<str>, const N: usize> Arguments for [T; N] {
    fn words(&self) -> Vec<String> {
        self.as_slice().words()
    }
}

impl<T: AsRef<str>> Arguments for Vec<T> {
    fn words(&self) -> Vec<String> {
        self.as_slice().words()
    }
}

impl<T: Arguments + ?Sized> Arguments for &T {
    fn words(&self) -> Vec<String> {
        (**self).words()
    }
}

impl<A: Arguments, B: Arguments> Arguments for (A, B) {
    fn words(&self) -> Vec<String> {
        [self.0.words(), self.1.words()].concat()
    }
}
