package httpmw_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// loser is a handler whose lock is lost while it runs, before or after what it
// writes.
func loser(s *script.Store, before, after func(w http.ResponseWriter)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		before(w)
		s.Default(script.Renew, script.Gone())
		<-r.Context().Done()
		after(w)
	})
}

func nothing(http.ResponseWriter) {}

func whole(w http.ResponseWriter) {
	w.Header().Set("Content-Length", "4")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, "done")
}

func half(w http.ResponseWriter) {
	_, _ = io.WriteString(w, "do")
	_ = http.NewResponseController(w).Flush()
}

// quick has a loss found soon, and by a heartbeat on a busy machine too.
func quick(cfg *renewer.Config) { cfg.Heartbeat = 20 * time.Millisecond }

// A lock lost while the handler runs, as clients of real servers see it.
func TestLostLock(t *testing.T) {
	t.Parallel()
	abort := []httpmw.Option{lockmw.Strict()}
	custom := []httpmw.Option{
		lockmw.Strict(),
		httpmw.OnRefused(func(w http.ResponseWriter, _ *http.Request, err error) {
			e, _ := errors.AsType[*renewer.LostError](err)
			http.Error(w, "sorry: "+e.Reason.String(), http.StatusBadGateway)
		}),
	}
	unsent := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "4")
		w.Header().Set("Content-Type", "text/csv")
	}
	early := func(w http.ResponseWriter) { w.WriteHeader(http.StatusEarlyHints) }
	for name, c := range map[string]struct {
		before, after func(http.ResponseWriter)
		opts          []httpmw.Option
		status        int // 0: the connection ends before the header
		body          string
		broken        bool // the answer breaks off
	}{
		"nothing written":         {nothing, nothing, nil, 503, "", false},
		"not even by a length":    {unsent, nothing, nil, 503, "", false},
		"hints only":              {early, nothing, nil, 503, "", false},
		"written before":          {whole, nothing, nil, 201, "done", false},
		"written after":           {nothing, whole, nil, 201, "done", false},
		"written in part":         {half, nothing, nil, 200, "do", false},
		"abort, nothing written":  {nothing, nothing, abort, 503, "problem", false},
		"abort, not by a length":  {unsent, nothing, abort, 503, "problem", false},
		"abort, hints only":       {early, nothing, abort, 503, "problem", false},
		"abort, written in part":  {half, nothing, abort, 200, "do", true},
		"abort, written whole":    {nothing, whole, abort, 0, "", false},
		"abort, by ReadFrom":      {nothing, copied, abort, 0, "", false},
		"abort, by a string":      {nothing, inString, abort, 0, "", false},
		"abort, flushed only":     {flushed, nothing, abort, 200, "", true},
		"abort, flushed as once":  {oldFlushed, nothing, abort, 200, "", true},
		"abort, header only":      {nothing, created, abort, 0, "", false},
		"custom, in part":         {half, nothing, custom, 200, "do", true},
		"custom, nothing written": {nothing, nothing, custom, 502, "sorry: taken\n", false},
	} {
		for proto, edit := range protocols {
			t.Run(name+" by "+proto, func(t *testing.T) {
				t.Parallel()
				k, s := scripted(t, quick)
				server := serve(t,
					httpmw.Middleware(k, byName(secret),
						c.opts...)(loser(s, c.before, c.after)), edit, quiet)
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL,
					http.NoBody)
				require.NoError(t, err)
				res, err := server.Client().Do(req)
				if c.status == 0 {
					if err == nil {
						_ = res.Body.Close()
					}
					require.Error(t, err)
					return
				}
				require.NoError(t, err)
				a := read(res)
				assert.Equal(t, c.broken, a.Err != nil, "%v", a.Err)
				if c.body == "problem" {
					requireProblem(t, a, c.status, httpguard.TypeLost)
				} else {
					assert.Equal(t, c.status, a.StatusCode)
					assert.Equal(t, c.body, a.Text)
				}
				if c.status == http.StatusServiceUnavailable {
					requireRetryAfter(t, a, 1, 2)
					assert.Equal(t, "no-store", a.Header.Get("Cache-Control"))
				}
			})
		}
	}
}

func copied(w http.ResponseWriter) {
	_, _ = io.Copy(w, struct{ io.Reader }{strings.NewReader("done")}) // by ReadFrom, if it has that
}

func inString(w http.ResponseWriter)   { _, _ = io.WriteString(w, "done") }
func flushed(w http.ResponseWriter)    { _ = http.NewResponseController(w).Flush() }
func oldFlushed(w http.ResponseWriter) { w.(http.Flusher).Flush() }
func created(w http.ResponseWriter)    { w.WriteHeader(http.StatusCreated) }

// Of an answer that has begun, only the end can still be kept back. So it is of
// a protocol changed over to, unlike other statuses below 200.
func TestLostWhenOnlyAStatusWasWritten(t *testing.T) {
	t.Parallel()
	for _, status := range []int{
		http.StatusSwitchingProtocols, http.StatusOK, http.StatusNoContent, http.StatusNotFound,
	} {
		k, s := scripted(t)
		s.Script(script.Release, script.Gone())
		h := httpmw.Middleware(k, byName("a"), lockmw.Strict())(http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		assert.PanicsWithValue(t, http.ErrAbortHandler, func() { do(h, get(t, "/")) }, status)
	}
}

func TestMaxHoldOfARequest(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		h := httpmw.Middleware(k, byName("a"), lockmw.MaxHold(5*time.Minute))(http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) {
				begun := time.Now()
				select {
				case <-r.Context().Done():
				case <-time.After(time.Hour):
				}
				assert.Equal(t, 5*time.Minute, time.Since(begun))
				lost, _ := errors.AsType[*renewer.LostError](context.Cause(r.Context()))
				if assert.NotNil(t, lost) {
					assert.Equal(t, renewer.ReasonMaxHold, lost.Reason)
				}
			}))
		assert.Equal(t, http.StatusServiceUnavailable, do(h, get(t, "/")).StatusCode)
	})
}

func TestReleaseThatFailsIsNoLoss(t *testing.T) {
	t.Parallel()
	k, s := scripted(t)
	s.Script(script.Release, script.Fail(errDown))
	a := do(httpmw.Middleware(k, byName("a"),
		lockmw.Strict())(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})), get(
		t, "/",
	))
	assert.Equal(t, http.StatusOK, a.StatusCode)
}

// A loss is no error of a handler that is called under a lock lost before.
func TestRefusedUnderALostLock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		inner := httpmw.Middleware(k, byName("b"))(never(t))
		h := httpmw.Middleware(k,
			byName("a"))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.Script(script.Renew, script.Gone())
			<-r.Context().Done()
			inner.ServeHTTP(w, r)
		}))
		requireProblem(t, do(h, get(t, "/")), http.StatusServiceUnavailable, httpguard.TypeLost)
	})
}

func TestPanicsAndGoexitFreeTheLock(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, end := range map[string]func(){
		"panic": func() {
			panic(boom)
		}, "abort": func() { panic(http.ErrAbortHandler) }, "Goexit": runtime.Goexit,
	} {
		for _, opts := range [][]httpmw.Option{nil, {lockmw.Strict()}} {
			k, s := scripted(t)
			h := httpmw.Middleware(k, byName("a"),
				opts...)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				r.Pattern = "changed"
				end()
			}))
			r := get(t, "/")
			got := make(chan any)
			go func() {
				defer func() { got <- recover() }()
				do(h, r)
			}()
			switch v := <-got; name {
			case "panic":
				assert.Equal(t, boom, v)
			case "abort":
				assert.Equal(t, http.ErrAbortHandler, v)
			default:
				assert.Nil(t, v)
			}
			assert.Empty(t, s.Owner("a"), name)
			assert.Len(t, s.Calls(script.Release), 1, name)
			assert.Equal(t, "changed", r.Pattern, name)
		}
	}
}

// One responder has all of it. What a handler answers by Respond is the
// handler's.
func TestOnRefused(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		mark := httpmw.OnRefused(func(w http.ResponseWriter, r *http.Request, err error) {
			e, ok := errors.AsType[*httpmw.Error](err)
			if assert.True(t, ok) {
				assert.Contains(t, err.Error(), "lockbeat: request answered with ")
				e.Status++
			}
			httpmw.Respond(w, r, err)
		})
		h := httpmw.Middleware(k, byName("a"), lockmw.Wait(time.Second), mark)(never(t))
		skips := httpmw.Middleware(k, byName("a"), lockmw.Skip(), mark)(never(t))
		late, cancel := context.WithTimeout(t.Context(), 0)
		defer cancel()
		status := func(h http.Handler, r *http.Request) int { return do(h, r).StatusCode }

		release := hold(t, k, "a")
		assert.Equal(t, 504, status(h, get(t, "/").WithContext(late)))
		assert.Equal(t, 504, status(h, get(t, "/")))
		assert.Equal(t, 205, status(skips, get(t, "/")))
		release()
		s.Default(script.Acquire, script.Fail(errDown))
		assert.Equal(t, 504, status(h, get(t, "/")))
		s.Default(script.Acquire, script.Pass())
		assert.Equal(t, 401, status(httpmw.Middleware(k, byHeader, mark)(never(t)), get(t, "/")))
		lost := httpmw.Middleware(k, byName("a"), mark, lockmw.Strict())
		assert.Equal(t, 504, status(lost(loser(s, nothing, nothing)), get(t, "/")))
		own := func(w http.ResponseWriter) { httpmw.Respond(w, get(t, "/"), renewer.ErrBusy) }
		guarded := httpmw.Middleware(k, byName("b"), mark)
		assert.Equal(t, 409, status(guarded(loser(s, nothing, own)), get(t, "/")))
		require.NoError(t, k.Shutdown(t.Context()))
		assert.Equal(t, 504, status(h, get(t, "/")))
	})
}

// What Respond writes is what ErrorOf returns, so that a responder can write it
// in another form.
func TestErrorOfIsWhatRespondAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err           error
		status        int
		typ, document string
	}{
		"held": {renewer.ErrBusy, 409, httpguard.TypeBusy, "Another request holds the lock"},
		"full": {
			&renewer.Error{Kind: renewer.ErrBusy, Limit: 1}, 429, httpguard.TypeLimit,
			"limit of 1 at once",
		},
		"replaced, unrun": {
			&renewer.Error{Kind: renewer.ErrBusy, Err: renewer.ErrReplaced}, 409,
			httpguard.TypeReplaced, "has not been carried out",
		},
		"replaced": {
			&renewer.LostError{Reason: renewer.ReasonReplaced}, 409, httpguard.TypeReplaced,
			"may have been done",
		},
		"shut down":  {renewer.ErrShutdown, 503, httpguard.TypeUnavailable, "is shutting down"},
		"a bad key":  {httpmw.ErrKey, 400, httpguard.TypeBadRequest, "does not say what to lock"},
		"any other":  {errors.New(secret), 500, "about:blank", ""},
		"an *Error":  {&httpmw.Error{Status: 423, Err: renewer.ErrBusy}, 423, httpguard.TypeBusy, ""},
		"its detail": {&httpmw.Error{Status: 409, Detail: "Ask."}, 409, "about:blank", "Ask."},
		"its type": {
			&httpmw.Error{Status: 409, Type: "full", Title: "Full", Err: renewer.ErrBusy},
			409, "full", "",
		},
	} {
		w := httptest.NewRecorder()
		httpmw.Respond(w, get(t, "/"), c.err)
		p := requireProblem(t, read(w.Result()), c.status, c.typ)
		assert.Contains(t, p.Detail, c.document, name)
		assert.Equal(t, c.status, httpmw.ErrorOf(c.err).Status)
	}
}
