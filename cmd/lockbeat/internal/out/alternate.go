package out

import (
	"context"
	"io"
	"os"
	"strings"
	"sync"

	"golang.org/x/term"
)

// Orders to a terminal.
const (
	enter   = "\x1b[?1049h\x1b[?25l" // the other screen, without a cursor
	leave   = "\x1b[?25h\x1b[?1049l"
	home    = "\x1b[H"
	endLine = "\x1b[K" // what is left of the line
	endAll  = "\x1b[J" // and of the screen
)

// Take takes over a terminal: w shows its other screen, and no key that is
// typed at r is shown. The context ends when q or Ctrl-C is. The caller calls
// restore, which gives the terminal back as it was; it may be called more than
// once.
func Take(
	ctx context.Context, r io.Reader, w io.Writer,
) (taken context.Context, restore func()) {
	taken, end := context.WithCancel(ctx)
	reset := func() {}
	if file, ok := r.(*os.File); ok && IsTerminal(r) {
		if before, err := term.MakeRaw(int(file.Fd())); err == nil {
			reset = func() { _ = term.Restore(int(file.Fd()), before) }
			go awaitQuit(r, end)
		}
	}
	_, _ = io.WriteString(w, enter)
	return taken, sync.OnceFunc(func() {
		end()
		_, _ = io.WriteString(w, leave)
		reset()
	})
}

// quitKeys are q, Ctrl-C and Ctrl-D.
const quitKeys = "qQ\x03\x04"

// awaitQuit reads keys until one ends it. In raw mode Ctrl-C is a key, and no
// signal.
func awaitQuit(r io.Reader, end func()) {
	key := make([]byte, 1)
	for {
		n, err := r.Read(key)
		if err != nil || n == 1 && strings.IndexByte(quitKeys, key[0]) >= 0 {
			end()
			return
		}
	}
}

// Paint paints safe lines over the screen, and clears what is left of it. In
// one piece, so that it does not flicker. Lines end in a carriage return too,
// since in raw mode the terminal adds none.
func Paint(w io.Writer, lines string) error {
	text := home + strings.ReplaceAll(lines, "\n", endLine+"\r\n") + endAll
	_, err := io.WriteString(w, text)
	return err
}
