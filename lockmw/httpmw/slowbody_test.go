package httpmw_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/httpmw"
)

// echo answers with what it has read.
func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

// asking is a key function that says when it has been asked.
func asking(name string) (httpmw.KeyFunc, <-chan struct{}) {
	asked := make(chan struct{}, 1000)
	return func(*http.Request) (string, error) {
		asked <- struct{}{}
		return name, nil
	}, asked
}

// A client that sends its header and then a byte now and then kept all others from the name.
func TestAClientThatIsSlowToSendHeldTheLock(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{
		"of known length":  "Content-Length: 100000\r\n\r\n",
		"in chunks":        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"of one byte more": "Content-Length: 1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, _ := scripted(t)
			key, asked := asking("a")
			s := serve(t, httpmw.Exclusive(k, key,
				httpmw.Wait(time.Second))(http.HandlerFunc(echo)))
			for range 3 {
				raw(t, s, "POST / HTTP/1.1\r\nHost: x\r\n"+header)
				within(t, asked)
			}
			for range 3 {
				assert.Equal(t, "pen",
					send(t, s, http.MethodPost, "/", strings.NewReader("pen")).body)
			}
		})
	}
}

// Clients that had left kept their turns, since their bodies were unread.
func TestClientsThatHaveLeftKeptTheirTurns(t *testing.T) {
	t.Parallel()
	const many = 20
	k, _ := scripted(t)
	release := hold(t, k, "a")
	key, asked := asking("a")
	h := httpmw.Exclusive(k, key, httpmw.Wait(10*time.Second))(never(t))
	left := make(chan any, many)
	s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			left <- v
			panic(v)
		}()
		h.ServeHTTP(w, r)
	}), quiet)
	var conns []net.Conn
	for i := range many {
		body := []string{"", "x"}[i%2] // before the body is there, and after
		conn, _ := raw(t, s, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\n"+body)
		conns = append(conns, conn)
		within(t, asked)
	}
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	for range many {
		assert.Equal(t, http.ErrAbortHandler, within(t, left))
	}
	release()
}

// readAnswer reads an answer from a connection.
func readAnswer(t *testing.T, in *bufio.Reader) answer {
	t.Helper()
	res, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	return read(res)
}

// At the end of its time a slow client is answered, and its connection closed or its stream ended.
func TestASlowBodyIsRefusedByARealServer(t *testing.T) {
	t.Parallel()
	for proto, edit := range protocols {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			k, store := scripted(t)
			timeout := httpmw.BodyTimeout(100 * time.Millisecond)
			for name, h := range map[string]http.Handler{
				"Exclusive": httpmw.Exclusive(k, byName("a"), timeout)(never(t)),
				"all of it": httpmw.Exclusive(k, byName("a"), timeout,
					httpmw.MaxBody(100))(never(t)),
				"Handle": httpmw.Handle(k, byAccount,
					func(http.ResponseWriter, *http.Request, transfer) {
						assert.Fail(t, "it ran")
					}, timeout),
			} {
				s := serve(t, h, edit, uncomplaining(t))
				body, more := io.Pipe()
				go func() { _, _ = more.Write([]byte("x")) }()
				a := send(t, s, http.MethodPost, "/", body)
				requireProblem(t, a, http.StatusRequestTimeout, httpmw.TypeTimeout)
				assert.Equal(t, proto == "HTTP/1.1", a.Close, name)
				require.NoError(t, more.Close())
			}
			assert.False(t, asked(store))
		})
	}
}

// A client that stops in the middle of a large body gave no other client a turn.
func TestALargeBodyThatStopsHeldTheLock(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	read := func(_ http.ResponseWriter, r *http.Request) error {
		_, err := io.Copy(io.Discard, r.Body)
		return err
	}
	for name, do := range map[string]func(w http.ResponseWriter, r *http.Request) error{
		"read": read,
		"closed": func(_ http.ResponseWriter, r *http.Request) error {
			_ = r.Body.Close() // net/http reads on
			return os.ErrDeadlineExceeded
		},
		"unread": func(w http.ResponseWriter, _ *http.Request) error {
			_, _ = io.WriteString(w, repeat("x", 10000)) // net/http reads on
			return os.ErrDeadlineExceeded
		},
	} {
		for proto, edit := range protocols {
			t.Run(name+" by "+proto, func(t *testing.T) {
				t.Parallel()
				k, _ := scripted(t)
				failed := make(chan error, 1)
				h := httpmw.Exclusive(k, byName("a"),
					httpmw.BodyTimeout(timeout))(http.HandlerFunc(func(w http.ResponseWriter,
					r *http.Request,
				) {
					if r.URL.Path == "/honest" {
						echo(w, r)
						return
					}
					failed <- do(w, r)
				}))
				s := serve(t, h, edit)
				body, more := io.Pipe()
				go func() { _, _ = io.WriteString(more, repeat("x", httpmw.BodyBefore+1)) }()
				slow, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/slow",
					body)
				require.NoError(t, err)
				var client sync.WaitGroup
				defer func() {
					s.CloseClientConnections()
					_ = more.Close()
					client.Wait()
				}()
				client.Go(func() {
					if res, err := s.Client().Do(slow); err == nil {
						_ = res.Body.Close()
					}
				})
				require.ErrorIs(t, within(t, failed), os.ErrDeadlineExceeded)
				assert.Equal(t, "pen",
					send(t, s, http.MethodPost, "/honest", strings.NewReader("pen")).body)
			})
		}
	}
}

// http.Server.ReadTimeout bounds the reading, and cuts neither the wait nor the work short. The
// next request on the connection is under it again.
func TestTheServersReadTimeout(t *testing.T) {
	t.Parallel()
	const timeout = time.Second
	for proto, edit := range protocols {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			k, _ := scripted(t)
			release := hold(t, k, "a")
			s := serve(t, httpmw.Exclusive(k,
				byName("a"))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				waitFor(timeout + timeout/4)
				assert.NoError(t, r.Context().Err())
				echo(w, r)
			})), edit, uncomplaining(t), func(s *httptest.Server) {
				s.Config.ReadTimeout, s.Config.IdleTimeout = timeout, time.Minute
			})
			go func() {
				waitFor(timeout + timeout/4)
				release()
			}()
			for _, body := range []string{"pen", "", "ink"} {
				assert.Equal(t, body,
					send(t, s, http.MethodPost, "/", strings.NewReader(body)).body)
			}
			body, more := io.Pipe()
			go func() { _, _ = more.Write([]byte("x")) }()
			requireProblem(t, send(t, s, http.MethodPost, "/", body), http.StatusRequestTimeout,
				httpmw.TypeTimeout)
			require.NoError(t, more.Close())
		})
	}
}
