package httpmw_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/testutil/script"
)

// wired is the writer of a request that comes over a connection.
type wired struct {
	*httptest.ResponseRecorder

	conn      net.Conn
	deadlines *atomic.Int64 // that have been set
}

func (w wired) SetReadDeadline(t time.Time) error {
	w.deadlines.Add(1)
	return w.conn.SetReadDeadline(t)
}

// arriving returns a request with a body of n bytes, and what it is answered by. Its client sends.
func arriving(t *testing.T, n int64, send func(to io.Writer)) (*http.Request, wired) {
	t.Helper()
	near, far := net.Pipe()
	var client sync.WaitGroup
	client.Go(func() { send(far) })
	t.Cleanup(func() {
		_ = near.Close()
		_ = far.Close()
		client.Wait()
	})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", io.LimitReader(near, n))
	return r, wired{httptest.NewRecorder(), near, new(atomic.Int64)}
}

// each has a client send a text again and again, with pauses, until the request is over.
func each(every time.Duration, text string) func(io.Writer) {
	return func(to io.Writer) {
		for {
			if _, err := io.WriteString(to, text); err != nil {
				return
			}
			waitFor(every)
		}
	}
}

const piece = 64 << 10

// A body that does not come in time is refused, and no lock is asked for.
func TestABodyThatTricklesIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text  string
		every time.Duration
		opts  []httpmw.Option
		after time.Duration
	}{
		"nothing comes":   {"", time.Hour, nil, httpmw.DefaultBodyTimeout},
		"a byte a second": {"x", time.Second, nil, httpmw.DefaultBodyTimeout},
		"a little too slow": {
			repeat("x", piece/11-100), time.Second - 1, nil,
			httpmw.DefaultBodyTimeout,
		},
		"by a time of yours": {
			"x", time.Second,
			[]httpmw.Option{httpmw.BodyTimeout(3 * time.Second)},
			3 * time.Second,
		},
		"all of it is read": {
			"x", time.Second,
			[]httpmw.Option{httpmw.MaxBody(piece * 4)},
			httpmw.DefaultBodyTimeout,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
				var got error
				look := httpmw.OnError(func(w http.ResponseWriter, r *http.Request, err error) {
					got = err
					httpmw.Respond(w, r, err)
				})
				exclusive, handle := []httpmw.Option{look}, []httpmw.HandleOption{look}
				for _, o := range c.opts {
					exclusive, handle = append(exclusive, o), append(handle, o)
				}
				for _, h := range []http.Handler{
					httpmw.Exclusive(k, byName("a"), exclusive...)(never(t)),
					httpmw.Handle(k, byAccount, func(http.ResponseWriter, *http.Request, transfer) {
						assert.Fail(t, "it ran")
					}, handle...),
				} {
					r, w := arriving(t, piece*2, each(c.every, c.text))
					begun := time.Now()
					h.ServeHTTP(w, r)
					assert.Equal(t, c.after, time.Since(begun))
					p := requireProblem(t, read(w.Result()), http.StatusRequestTimeout,
						httpmw.TypeTimeout)
					assert.Contains(t, p.Detail, "in time")
					require.ErrorIs(t, got, httpmw.ErrBody)
					require.ErrorIs(t, got, os.ErrDeadlineExceeded)
					assert.False(t, asked(s))
					require.NoError(t, w.conn.Close())
				}
			})
		})
	}
}

// A body that comes at the pace is read, however long that takes altogether.
func TestABodyThatComesAtThePaceIsRead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		const size = 10 * piece
		for name, opts := range map[string][]httpmw.Option{
			"under the lock": nil,
			"before it":      {httpmw.MaxBody(size)},
		} {
			r, w := arriving(t, size,
				each(httpmw.DefaultBodyTimeout-time.Millisecond, repeat("x", piece)))
			httpmw.Exclusive(k, byName("a"),
				opts...)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				n, err := io.Copy(io.Discard, r.Body)
				assert.NoError(t, err, name)
				assert.EqualValues(t, size, n, name)
			})).ServeHTTP(w, r)
			assert.Zero(t, w.deadlines.Load(), "a deadline ahead would replace the server's own")
			require.NoError(t, w.conn.Close())
		}
	})
}

// begun is a body of which what is read before the lock is there.
func begun(client io.Writer) {
	_, _ = io.WriteString(client, repeat("x", httpmw.BodyBefore+1))
}

// What is read under the lock has to come at the pace as well, and single bytes do not extend it.
func TestALargeBodyThatTricklesLosesTheLock(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, s *script.Store, k *renewer.Keeper) {
		r, w := arriving(t, 1<<20, func(to io.Writer) {
			begun(to)
			waitFor(httpmw.DefaultBodyTimeout / 2)
			_, _ = io.WriteString(to, repeat("x", piece))
			each(time.Second, "x")(to)
		})
		httpmw.Exclusive(
			k, byName("a"),
		)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			at := time.Now()
			n, err := io.Copy(io.Discard, r.Body)
			assert.GreaterOrEqual(t, n, int64(httpmw.BodyBefore+piece))
			assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
			assert.ErrorIs(t, err, httpmw.ErrBody)
			assert.ErrorContains(t, err,
				"less than 64 KiB in 10s: if clients are meant to be so slow, raise "+
					"BodyTimeout")
			assert.Equal(t, httpmw.DefaultBodyTimeout*3/2, time.Since(at))
			_, err = r.Body.Read(make([]byte, 1))
			assert.ErrorIs(t, err, os.ErrDeadlineExceeded, "from then on")
			httpmw.Respond(w, r, err)
		})).ServeHTTP(w, r)
		requireProblem(t, read(w.Result()), http.StatusRequestTimeout, httpmw.TypeTimeout)
		assert.Empty(t, s.Owner("a"))
	})
}

// A handler that does something else meanwhile is not taken for a client that is slow.
func TestAHandlerMayTakeItsTimeToRead(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		r, w := arriving(t, 1<<20, each(0, repeat("x", piece)))
		httpmw.Exclusive(
			k, byName("a"),
		)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			for range 1 << 20 / piece {
				waitFor(time.Minute)
				_, err := io.ReadFull(r.Body, make([]byte, piece))
				assert.NoError(t, err)
			}
		})).ServeHTTP(w, r)
		assert.Zero(t, w.deadlines.Load())
	})
}

// A deadline of the handler's own holds beside the pace.
func TestAHandlersOwnReadDeadlineHolds(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		r, w := arriving(t, 1<<20, begun)
		httpmw.Exclusive(
			k, byName("a"),
		)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			at := time.Now()
			assert.NoError(t, http.NewResponseController(w).SetReadDeadline(at.Add(time.Second)))
			_, err := io.Copy(io.Discard, r.Body)
			assert.ErrorIs(t, err, os.ErrDeadlineExceeded)
			assert.NotErrorIs(t, err, httpmw.ErrBody)
			assert.Equal(t, time.Second, time.Since(at))
		})).ServeHTTP(w, r)
	})
}

// A stream is the handler's from its first byte.
func TestAStreamIsNotRead(t *testing.T) {
	t.Parallel()
	connect := func(r *http.Request) { r.Method = http.MethodConnect }
	for name, c := range map[string]struct {
		opts []httpmw.Option
		edit func(*http.Request)
	}{
		"by option": {
			[]httpmw.Option{httpmw.MaxBody(1), httpmw.StreamBody()},
			func(*http.Request) {},
		},
		"CONNECT": {nil, connect},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
				r, w := arriving(t, 1<<20, each(time.Minute, "x"))
				c.edit(r)
				httpmw.Exclusive(k, byName("a"),
					c.opts...)(http.HandlerFunc(func(_ http.ResponseWriter, got *http.Request) {
					assert.Equal(t, r.Body, got.Body)
					_, err := io.ReadFull(got.Body, make([]byte, 2))
					assert.NoError(t, err)
				})).ServeHTTP(w, r)
				assert.Zero(t, w.deadlines.Load())
			})
		})
	}
}

// plainly hides what a writer can do beside writing, as middleware without Unwrap does.
type plainly struct{ http.ResponseWriter }

// By a writer that can't set deadlines a slow client is not stopped. Under the lock that is told
// of.
func TestAWriterWithoutDeadlinesIsToldOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		k, o := observed(t)
		run := func(size int64, opts ...httpmw.Option) {
			h := httpmw.Exclusive(k, byName("a"),
				opts...)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				n, err := io.Copy(io.Discard, r.Body)
				assert.NoError(t, err)
				assert.Equal(t, size, n)
			}))
			for range 2 {
				r, w := arriving(t, size, each(httpmw.DefaultBodyTimeout, repeat("x", 10000)))
				r.Pattern = "POST /reports"
				h.ServeHTTP(plainly{w}, r)
				assert.Zero(t, w.deadlines.Load())
				require.NoError(t, w.conn.Close())
			}
		}
		run(httpmw.BodyBefore)
		run(httpmw.BodyBefore+1, httpmw.MaxBody(1<<20))
		assert.Empty(t, o.errs(t), "no lock is held")
		run(httpmw.BodyBefore + 1)
		errs := o.errs(t)
		require.Len(t, errs, 1, "once")
		for _, want := range []string{`"POST /reports"`, "Unwrap", "httpmw.MaxBody"} {
			assert.Contains(t, errs[0], want)
		}
	})
}

// The writer is not used when the handler has returned, even if it has left a goroutine behind
// that reads.
func TestNoDeadlineIsSetWhenTheHandlerHasReturned(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		r, w := arriving(t, 1<<20, func(to io.Writer) {
			begun(to)
			waitFor(time.Minute)
			_, _ = io.WriteString(to, "x")
		})
		ended := make(chan error, 1)
		httpmw.Exclusive(
			k, byName("a"),
		)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			go func() {
				_, err := io.Copy(io.Discard, r.Body)
				ended <- err
			}()
			synctest.Wait()
		})).ServeHTTP(w, r)
		waitFor(2 * time.Minute)
		assert.Zero(t, w.deadlines.Load())
		require.NoError(t, w.conn.Close())
		assert.ErrorIs(t, <-ended, io.ErrClosedPipe)
	})
}

// A request without a body costs nothing.
func TestNoBodyStaysNoBody(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		for _, opts := range [][]httpmw.Option{nil, {httpmw.MaxBody(1)}, {httpmw.StreamBody()}} {
			r, w := arriving(t, 0, func(io.Writer) {})
			for _, body := range []io.ReadCloser{http.NoBody, nil} {
				r.Body = body
				httpmw.Exclusive(k, byName("a"),
					opts...)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
					assert.Equal(t, body, r.Body)
				})).ServeHTTP(w, r)
			}
			assert.Zero(t, w.deadlines.Load())
			assert.Empty(t, w.Header())
		}
	})
}

// A body that a guard further out has read is not read again.
func TestABodyIsReadOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, _ *script.Store, k *renewer.Keeper) {
		run := func(size int, opts ...httpmw.Option) (outer, inner io.ReadCloser, status int) {
			w := httptest.NewRecorder()
			h := httpmw.Exclusive(k, byName("inner"),
				opts...)(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				inner = r.Body
				text, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				assert.Equal(t, repeat("x", size), string(text))
			}))
			httpmw.Exclusive(k, byName("outer"),
				httpmw.MaxBody(1<<20))(http.HandlerFunc(func(w http.ResponseWriter,
				r *http.Request,
			) {
				outer = r.Body
				h.ServeHTTP(w, r)
				assert.Equal(t, outer, r.Body)
			})).ServeHTTP(w, post(t, repeat("x", size)))
			return outer, inner, w.Code
		}
		for _, size := range []int{1, httpmw.BodyBefore + 1} {
			outer, inner, _ := run(size)
			assert.Equal(t, outer, inner)
		}
		_, _, status := run(10, httpmw.MaxBody(9))
		assert.Equal(t, http.StatusRequestEntityTooLarge, status)
	})
}

// Other middleware's bound counts as ours does.
func TestABodyAboveAnOuterBound(t *testing.T) {
	t.Parallel()
	k, s := scripted(t)
	h := http.MaxBytesHandler(httpmw.Exclusive(k, byName("a"))(never(t)), 10)
	requireProblem(t, do(h, post(t, strings.Repeat("x", 11))), http.StatusRequestEntityTooLarge,
		httpmw.TypeBadRequest)
	assert.False(t, asked(s))
}
