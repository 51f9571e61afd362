package httpmw

import (
	"context"
	"errors"
	"io"

	"github.com/lockbeat/lockbeat/renewer"
)

// body is a response's body that holds a lock until it is closed.
type body struct {
	io.ReadCloser

	ctx  context.Context // of the lock
	exit func(error) error
}

// duplexBody is the body of a connection that has changed over to another protocol (status 101).
type duplexBody struct {
	*body
	io.Writer
}

// halfCloser is an optional method of such a connection.
type halfCloser interface{ CloseWrite() error }

// newBody returns a body that calls exit when it is closed. It has the optional methods that b has.
func newBody(ctx context.Context, b io.ReadCloser, exit func(error) error) io.ReadCloser {
	held := &body{ReadCloser: b, ctx: ctx, exit: exit}
	w, ok := b.(io.Writer)
	if !ok {
		return held
	}
	// A net/http connection that has changed over does not look at the call's context any more.
	context.AfterFunc(ctx, func() {
		if held.lost() != nil {
			_ = b.Close()
		}
	})
	duplex := duplexBody{held, w}
	if c, ok := b.(halfCloser); ok {
		return struct {
			duplexBody
			halfCloser
		}{duplex, c}
	}
	return duplex
}

// Read reads from the response. After the loss of the lock an error of the body is also that loss.
func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err == nil || err == io.EOF { //nolint:errorlint // a reader returns io.EOF itself
		return n, err
	}
	if lost := b.lost(); lost != nil && !errors.Is(err, lost) {
		err = errors.Join(err, lost)
	}
	return n, err
}

// Close closes the response and frees the lock. A second call frees nothing more.
func (b *body) Close() (err error) {
	defer func() { err = b.exit(err) }()
	return b.ReadCloser.Close()
}

// lost returns the loss of the lock, nil if there was none.
func (b *body) lost() error {
	if cause := context.Cause(b.ctx); errors.Is(cause, renewer.ErrLost) {
		return cause
	}
	return nil
}
