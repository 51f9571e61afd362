package worker

import (
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/lockbeat/lockbeat/nemesis/internal/history"
)

// teller writes events, each by one write, so that what was told has left the process.
type teller struct {
	mu  sync.Mutex
	out io.Writer
}

// tell returns when the parent has the event, or no reader listens any
// more: then the worker is about to end too.
func (t *teller) tell(e history.Event) {
	line, err := json.Marshal(e)
	if err != nil {
		// it holds numbers and strings only
		panic(fmt.Sprintf("worker: an event that is no JSON: %v", err))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = t.out.Write(append(line, '\n'))
}
