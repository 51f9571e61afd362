package httpmw_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
	"github.com/lockbeat/lockbeat/lockmw/internal/httpguard"
)

// unsized hides how long a body is, so that it is sent in chunks.
type unsized struct{ io.Reader }

// echo answers with what it has read.
func echo(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }

// Whatever the size, and however it is sent, the handler reads what the client
// has sent, trailers included. net/http, which goes by the type of the body
// that it has made, finds it in its request.
func TestBodiesOfEverySize(t *testing.T) {
	t.Parallel()
	for proto, edit := range protocols {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			k, _ := scripted(t)
			for _, opts := range [][]httpmw.Option{nil, {httpmw.StreamBody()}} {
				h := httpmw.Middleware(k, byName("a"), opts...)(
					http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						text, err := io.ReadAll(r.Body)
						assert.NoError(t, err)
						assert.NoError(t, r.Body.Close())
						_, _ = io.WriteString(w, string(text)+r.Trailer.Get("Sum"))
					}))
				s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body := r.Body
					h.ServeHTTP(w, r)
					assert.Equal(t, body, r.Body)
				}), edit, uncomplaining(t))
				for _, size := range []int{0, 1, 8 << 10, httpguard.DefaultMaxBody} {
					text := strings.Repeat("0123456789abcdef", size/16+1)[:size]
					a := send(t, s, http.MethodPost, "/", strings.NewReader(text))
					assert.Equal(t, text, a.Text, "%d bytes", size)
					r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL,
						unsized{strings.NewReader(text)})
					require.NoError(t, err)
					r.Trailer = http.Header{"Sum": {"7"}}
					res, err := s.Client().Do(r)
					require.NoError(t, err)
					assert.Equal(t, text+"7", read(res).Text, "%d bytes in chunks", size)
					require.NoError(t, res.Body.Close())
				}
			}
		})
	}
}

// A body above MaxBody is refused, whether the client says so itself or not,
// and no lock is asked for. Nor is it for one that is broken, or that the
// server's ReadTimeout has ended.
func TestUnusableBodiesOfMiddleware(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	h := httpmw.Middleware(k, byName("a"), httpmw.MaxBody(10))(never(t))
	for proto, edit := range protocols {
		s := serve(t, h, edit)
		for _, body := range []io.Reader{
			strings.NewReader(repeat("x", 11)), unsized{strings.NewReader(repeat("x", 11))},
		} {
			requireProblem(t, send(t, s, http.MethodPost, "/", body),
				http.StatusRequestEntityTooLarge, httpguard.TypeBadRequest)
		}
		if proto == "HTTP/1.1" {
			_, in := raw(t, s,
				"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n")
			requireProblem(t, readAnswer(t, in), http.StatusBadRequest, httpguard.TypeBadRequest)
		}
	}
	r := post(t, "")
	r.Body, r.ContentLength = io.NopCloser(late{}), -1
	requireProblem(t, do(h, r), http.StatusRequestTimeout, httpguard.TypeTimeout)
	assert.False(t, asked(store))
}

// late is a body whose time is over.
type late struct{}

func (late) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

// A client that asks first is asked for its body once, and not at all if that
// is of no use.
func TestAClientThatAsksBeforeItSends(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		header string
		asked  bool
		status int
	}{
		"usable":    {"Key: a\r\nContent-Length: 3\r\n\r\n", true, 200},
		"no key":    {"Content-Length: 3\r\n\r\n", false, 400},
		"too large": {"Key: a\r\nContent-Length: 2000000\r\n\r\n", false, 413},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, _ := scripted(t)
			conn, in := raw(t, serve(t, httpmw.Middleware(k, byHeader)(http.HandlerFunc(echo))),
				"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"+c.header)
			if c.asked {
				line, err := textproto.NewReader(in).ReadLine()
				require.NoError(t, err)
				assert.Equal(t, "HTTP/1.1 100 Continue", line)
				_, err = in.ReadString('\n')
				require.NoError(t, err)
				_, err = io.WriteString(conn, "pen")
				require.NoError(t, err)
			}
			a := readAnswer(t, in)
			assert.Equal(t, c.status, a.StatusCode)
			if c.asked {
				assert.Equal(t, "pen", a.Text)
			}
		})
	}
}

// byHeader names the lock by a header.
func byHeader(r *http.Request) lockmw.Set {
	if key := r.Header.Get("Key"); key != "" {
		return lockmw.All(key)
	}
	return lockmw.Invalid(httpmw.ErrKey)
}

// A connection can be taken over when the body has been read, and by a request
// that has none.
func TestAConnectionIsTakenOver(t *testing.T) {
	t.Parallel()
	const upgrade = "Host: x\r\nConnection: Upgrade\r\nUpgrade: talk\r\n"
	for name, request := range map[string]string{
		"with a body":    "POST / HTTP/1.1\r\n" + upgrade + "Content-Length: 3\r\n\r\npen",
		"without a body": "GET / HTTP/1.1\r\n" + upgrade + "\r\n",
		"CONNECT":        "CONNECT x HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, _ := scripted(t)
			h := func(w http.ResponseWriter, _ *http.Request) {
				conn, talk, err := http.NewResponseController(w).Hijack()
				if !assert.NoError(t, err) {
					return
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 101 \r\nUpgrade: talk\r\n\r\n")
				word, err := talk.ReadString('\n')
				assert.NoError(t, err)
				_, _ = io.WriteString(conn, "you said "+word)
				assert.NoError(t, conn.Close())
			}
			conn, in := raw(t, serve(t, httpmw.Middleware(k, byName("a"))(http.HandlerFunc(h))),
				request)
			//nolint:bodyclose // it has none: what follows is read from the connection
			_, err := http.ReadResponse(in, nil)
			require.NoError(t, err)
			_, err = io.WriteString(conn, "pen\n")
			require.NoError(t, err)
			said, err := io.ReadAll(in)
			require.NoError(t, err)
			assert.Equal(t, "you said pen\n", string(said))
		})
	}
}

// A client that sends its header and then no more kept all others from the
// name.
func TestAClientThatIsSlowToSendHeldTheLock(t *testing.T) {
	t.Parallel()
	for name, header := range map[string]string{
		"of known length": "Content-Length: 100000\r\n\r\n",
		"in chunks":       "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, _ := scripted(t)
			asked := make(chan struct{}, 1000)
			key := func(*http.Request) string {
				asked <- struct{}{}
				return "a"
			}
			s := serve(t, httpmw.Middleware(k, key, lockmw.Wait(soon))(http.HandlerFunc(echo)))
			for range 3 {
				raw(t, s, "POST / HTTP/1.1\r\nHost: x\r\n"+header)
				within(t, asked)
			}
			for range 3 {
				assert.Equal(t, "pen",
					send(t, s, http.MethodPost, "/", strings.NewReader("pen")).Text)
			}
		})
	}
}

// readAnswer reads an answer from a connection.
func readAnswer(t *testing.T, in *bufio.Reader) answer {
	t.Helper()
	res, err := http.ReadResponse(in, nil)
	require.NoError(t, err)
	defer func() { _ = res.Body.Close() }()
	return read(res)
}

// raw sends bytes over a connection of its own.
func raw(t *testing.T, s *httptest.Server, request string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", s.Listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	_, err = io.WriteString(conn, request)
	require.NoError(t, err)
	return conn, bufio.NewReader(conn)
}
