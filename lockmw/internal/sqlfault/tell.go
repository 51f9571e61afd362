package sqlfault

// Tell is an error in other words: text takes the place of its own. It unwraps
// to err.
func Tell(err error, text string) error { return told{err, text} }

type told struct {
	error

	text string
}

func (e told) Error() string { return e.text }

func (e told) Unwrap() error { return e.error }
