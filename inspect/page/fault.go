package page

import (
	"errors"
	"net/http"
	"sync"

	"github.com/lockbeat/lockbeat/inspect"
	"github.com/lockbeat/lockbeat/renewer"
)

// fault is what went wrong, for people.
type fault struct {
	Title  string `json:"title"`
	Advice string `json:"advice"`
	Detail string `json:"detail"`

	status int
}

const mostDetail = 400 // bytes

// faultOf is what people read of an error of the store, or of package inspect.
// Its text is without names of locks.
func faultOf(err error) *fault {
	f := &fault{Detail: short(text(renewer.ErrorText(err)), mostDetail)}
	set := func(status int, title, advice string) {
		f.status, f.Title, f.Advice = status, title, advice
	}
	switch {
	case errors.Is(err, renewer.ErrName):
		set(http.StatusBadRequest, "No lock can have this name.", "Go back to the list.")
	case errors.Is(err, inspect.ErrFree):
		set(http.StatusConflict, "This lease has ended already.",
			"Nothing was broken. Look at the lock again.")
	case errors.Is(err, inspect.ErrStale):
		set(http.StatusConflict, "Another lease is current.",
			"Nothing was broken: the one that you saw has ended. Look at the lock again.")
	case errors.Is(err, renewer.ErrRejected):
		set(http.StatusServiceUnavailable, "The store refuses this.",
			"Its user may lack rights: see \u201cRights\u201d in docs/redis.md.")
	case errors.Is(err, renewer.ErrOverloaded):
		set(http.StatusServiceUnavailable, "The store is overloaded.",
			"Look at its memory, and at scripts that run for long.")
	case errors.Is(err, renewer.ErrConfig):
		set(http.StatusBadRequest, "This can't be done.", "Change what is said below.")
	default:
		set(http.StatusServiceUnavailable, "The store does not answer.",
			"Check that it runs, and that this server reaches it. Holders notice by themselves: "+
				"whether locks are still held is not known here.")
	}
	return f
}

// faulty is a reading that has failed.
func faulty(err error) *reading {
	f := faultOf(err)
	whole := sync.OnceValue(func() []byte { return event("fault", f) })
	return &reading{fault: f, change: whole, whole: whole}
}
