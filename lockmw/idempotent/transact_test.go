package idempotent_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/internal/testutil/engine"
	"github.com/lockbeat/lockbeat/lockmw/idempotent"
	"github.com/lockbeat/lockbeat/lockmw/internal/records"
	"github.com/lockbeat/lockbeat/lockmw/once"
	"github.com/lockbeat/lockbeat/renewer"
	contract "github.com/lockbeat/lockbeat/renewer/store"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// ledger is a database. Handlers write to it by charge.
type ledger struct {
	records.Records

	store   *script.Store
	begun   int      // transactions
	charges []string // that are committed
	unheard bool     // the answers to commits are lost
	commit  func()   // is called before each commit

	conflict bool // the next commit is in conflict with another transaction
}

var _ once.Transactional = (*ledger)(nil)

type chargesKey struct{}

// charge charges an order in the transaction of ctx.
func charge(ctx context.Context, order string) {
	charges := ctx.Value(chargesKey{}).(*[]string)
	*charges = append(*charges, order)
}

func (l *ledger) Transact(
	ctx context.Context, fn func(context.Context) (contract.Record, error),
) error {
	var charges []string
	l.begun++
	record, err := fn(context.WithValue(ctx, chargesKey{}, &charges))
	if err != nil {
		return err
	}
	l.commit()
	if l.conflict {
		l.conflict = false
		return &renewer.Error{Op: "commit", Kind: once.ErrConflict}
	}
	if err := l.Write(context.WithoutCancel(ctx), record); err != nil {
		return err
	}
	l.charges = append(l.charges, charges...)
	if l.unheard {
		return &renewer.Error{Op: "commit", Kind: renewer.ErrUnavailable}
	}
	return nil
}

// inLedger runs f in a bubble, with a keeper whose store keeps no records, and
// with a database.
func inLedger(
	t *testing.T, f func(t *testing.T, s *script.Store, k *renewer.Keeper, l *ledger),
) {
	t.Helper()
	inBubble(t, func(t *testing.T, s *script.Store, _ *renewer.Keeper) {
		k := newKeeper(t, engine.Of(struct{ contract.Store }{s}))
		l := &ledger{store: script.New(), commit: func() {}}
		l.Records = records.Of(newKeeper(t, l.store))
		f(t, s, k, l)
	})
}

// charging answers each request with 201, when it is charged.
func charging(w http.ResponseWriter, r *http.Request) {
	charge(r.Context(), "pen")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, "charged")
}

// A client that is told "charged" before the commit is lied to if there is
// none.
func TestAnAnswerGoesOutAfterItsCommit(t *testing.T) {
	t.Parallel()
	inLedger(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper, l *ledger) {
		w, commits := &counting{header: make(http.Header)}, 0
		l.commit = func() {
			commits++
			assert.Zero(t, w.status)
			assert.Zero(t, w.bytes)
		}
		h := idempotent.Middleware(k, idempotent.Config{Caller: byUser, Recorder: l})(http.HandlerFunc(charging))
		h.ServeHTTP(w, order(t.Context(), "k", "pen"))
		assert.Equal(t, http.StatusCreated, w.status)
		again := answered(h, order(t.Context(), "k", "pen"))
		assert.Equal(t, http.StatusCreated, again.Code)
		assert.Equal(t, "charged", again.Body.String())
		assert.Equal(t, "true", again.Header().Get("Idempotent-Replayed"))
		assert.Equal(t, 1, commits)
		assert.Equal(t, []string{"pen"}, l.charges)
	})
}

// An answer that is not put on record has no effect, and the next request is as
// the first.
func TestWhatRollsTheTransactionBack(t *testing.T) {
	t.Parallel()
	page := bytes.Repeat([]byte("x"), 2*maxAnswer)
	for name, c := range map[string]struct {
		handle func(w http.ResponseWriter, r *http.Request)
		status int
		sent   int // bytes; -1: a refusal
	}{
		"an error": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusConflict)
		}, http.StatusConflict, 0},
		"a large error": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, err := w.Write(page)
			assert.NoError(t, err)
		}, http.StatusBadGateway, len(page)},
		"a panic": {func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}, 0, 0},
		"too large": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			for _, piece := range [][]byte{page, []byte("a short rest")} {
				_, err := w.Write(piece)
				assert.Error(t, err)
			}
		}, http.StatusInternalServerError, -1},
		"too large, and panics": {func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(page)
			panic(err)
		}, 0, 0},
		"too large with its headers": {func(w http.ResponseWriter, _ *http.Request) {
			_, err := w.Write(page[:maxAnswer/4*3])
			assert.NoError(t, err)
		}, http.StatusInternalServerError, -1},
	} {
		inLedger(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper, l *ledger) {
			first := true
			h := idempotent.Middleware(k, idempotent.Config{Caller: byUser, Recorder: l})(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				charging := charging
				if first {
					charging = func(w http.ResponseWriter, r *http.Request) {
						charge(r.Context(), "pen")
						c.handle(w, r)
					}
				}
				first = false
				charging(w, r)
			}))
			if c.status == 0 {
				assert.Panics(t, func() { answered(h, order(t.Context(), "k", "pen")) }, name)
			} else {
				w := answered(h, order(t.Context(), "k", "pen"))
				assert.Equal(t, c.status, w.Code, name)
				if c.sent < 0 {
					assert.Contains(t, w.Body.String(), "too large to be kept", name)
				} else {
					assert.Equal(t, c.sent, w.Body.Len(), name)
				}
			}
			assert.Empty(t, l.charges, name)
			w := answered(h, order(t.Context(), "k", "pen"))
			assert.Equal(t, http.StatusCreated, w.Code, name)
			assert.Empty(t, w.Header().Get("Idempotent-Replayed"), name)
			assert.Equal(t, []string{"pen"}, l.charges, name)
		})
	}
}

// An answer that is too large is a fault of the program's, of which the
// observer is told.
func TestAnAnswerThatCantBeHeldIsToldOf(t *testing.T) {
	t.Parallel()
	inLedger(t, func(t *testing.T, _ *script.Store, _ *renewer.Keeper, l *ledger) {
		k, o := observed(t)
		h := idempotent.Middleware(k, idempotent.Config{Caller: byUser, MaxAnswer: 1, Recorder: l})(http.HandlerFunc(charging))
		for range 2 {
			w := answered(h, order(t.Context(), "k", "pen"))
			assert.Equal(t, http.StatusInternalServerError, w.Code)
		}
		errs := o.SetUp(t)
		require.Len(t, errs, 1)
		assert.Contains(t, errs[0], "MaxAnswer")
		assert.Empty(t, l.charges)
	})
}

// The recorder must keep records. The keeper's store need not.
func TestARecorderThatKeepsNone(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, engine.Of(struct{ contract.Store }{script.New()}))
	assert.Panics(t, func() { idempotent.Middleware(k, idempotent.Config{Caller: byUser}) })
	other, _ := scripted(t)
	h := idempotent.Middleware(k, idempotent.Config{Caller: byUser, Recorder: records.Of(other)})(http.HandlerFunc(ok))
	for range 2 {
		assert.Equal(t, "done", answered(h, order(t.Context(), "k", "pen")).Body.String())
	}
}
