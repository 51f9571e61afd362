package httpmw_test

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw"
	"github.com/lockbeat/lockbeat/lockmw/httpmw"
)

// unsized hides how long a body is, so that it is sent in chunks.
type unsized struct{ io.Reader }

// Whatever the size, and however it is sent, the handler reads what the client has sent.
func TestBodiesOfEverySize(t *testing.T) {
	t.Parallel()
	for proto, edit := range protocols {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			k, _ := scripted(t)
			var lengths []int64
			h := func(w http.ResponseWriter, r *http.Request) {
				lengths = append(lengths, r.ContentLength)
				text, err := io.ReadAll(r.Body)
				assert.NoError(t, err)
				assert.NoError(t, r.Body.Close())
				_, _ = w.Write(text)
			}
			for _, opts := range [][]httpmw.Option{
				nil,
				{httpmw.MaxBody(1 << 20)},
				{httpmw.StreamBody()},
			} {
				s := serve(t, httpmw.Exclusive(k, byName("a"), opts...)(http.HandlerFunc(h)), edit,
					uncomplaining(t))
				for _, size := range []int{
					0, 1, httpmw.BodyBefore - 1,
					httpmw.BodyBefore, httpmw.BodyBefore + 1, 1 << 20,
				} {
					text := strings.Repeat("0123456789abcdef", size/16+1)[:size]
					a := send(t, s, http.MethodPost, "/", strings.NewReader(text))
					assert.Equal(t, text, a.body, "%d bytes", size)
					a = send(t, s, http.MethodPost, "/", unsized{strings.NewReader(text)})
					assert.Equal(t, text, a.body, "%d bytes in chunks", size)
					assert.Equal(t, []int64{int64(size), -1}, lengths)
					lengths = nil
				}
			}
		})
	}
}

// A connection serves the next request, but for one whose large body was read under the lock, by
// HTTP/1.
func TestConnectionsServeTheNextRequest(t *testing.T) {
	t.Parallel()
	sizes := []int{10, httpmw.BodyBefore, httpmw.BodyBefore + 1}
	t.Run("HTTP/1.1", func(t *testing.T) {
		t.Parallel()
		k, _ := scripted(t)
		// not by net/http's client: a busy one closes connections itself
		conn, in := raw(t, serve(t, httpmw.Exclusive(k, byName("a"))(http.HandlerFunc(echo))), "")
		for _, size := range sizes {
			_, err := fmt.Fprintf(conn,
				"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", size, repeat("x", size))
			require.NoError(t, err)
			assert.Len(t, readAnswer(t, in).body, size)
		}
		require.NoError(t, conn.SetReadDeadline(time.Now().Add(soon)))
		_, err := in.ReadByte()
		assert.Equal(t, io.EOF, err)
	})
	t.Run("HTTP/2", func(t *testing.T) {
		t.Parallel()
		k, _ := scripted(t)
		s := serve(t, httpmw.Exclusive(k, byName("a"))(http.HandlerFunc(echo)), http2)
		for i, size := range append(sizes, 10) {
			trace := httptrace.WithClientTrace(t.Context(),
				&httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
					assert.Equal(t, i > 0, c.Reused, "%d bytes", size)
				}})
			r, err := http.NewRequestWithContext(trace, http.MethodPost, s.URL,
				strings.NewReader(repeat("x", size)))
			require.NoError(t, err)
			res, err := s.Client().Do(r)
			require.NoError(t, err)
			assert.Len(t, read(res).body, size)
			require.NoError(t, res.Body.Close())
		}
	})
}

func TestMultipartUpload(t *testing.T) {
	t.Parallel()
	for proto, edit := range protocols {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			k, _ := scripted(t)
			s := serve(t, httpmw.Exclusive(k,
				byName("a"))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				f, _, err := r.FormFile("f")
				if assert.NoError(t, err) {
					_, _ = io.Copy(w, f)
					assert.NoError(t, f.Close())
				}
			})), edit)
			content := repeat("0123456789", 1<<20/10)
			var body bytes.Buffer
			form := multipart.NewWriter(&body)
			part, err := form.CreateFormFile("f", "f")
			require.NoError(t, err)
			_, err = io.WriteString(part, content)
			require.NoError(t, err)
			require.NoError(t, form.Close())
			a := send(t, s, http.MethodPost, "/", &body, "Content-Type", form.FormDataContentType())
			assert.Equal(t, content, a.body)
		})
	}
}

func TestTrailersOfARequest(t *testing.T) {
	t.Parallel()
	for proto, edit := range protocols {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			k, _ := scripted(t)
			s := serve(t, httpmw.Exclusive(k,
				byName("a"))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := io.Copy(io.Discard, r.Body)
				assert.NoError(t, err)
				_, _ = io.WriteString(w, r.Trailer.Get("Sum"))
			})), edit)
			for _, size := range []int{1, httpmw.BodyBefore + 1} {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL,
					unsized{strings.NewReader(repeat("x", size))})
				require.NoError(t, err)
				r.Trailer = http.Header{"Sum": {"7"}}
				res, err := s.Client().Do(r)
				require.NoError(t, err)
				assert.Equal(t, "7", read(res).body)
				require.NoError(t, res.Body.Close())
			}
		})
	}
}

// http.MaxBytesReader inside the handler bounds what it reads, of what is in memory and of the
// rest.
func TestMaxBytesReaderInsideTheHandler(t *testing.T) {
	t.Parallel()
	k, _ := scripted(t)
	const bound = httpmw.BodyBefore + 10
	s := serve(t, httpmw.Exclusive(k,
		byName("a"))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := io.Copy(io.Discard, http.MaxBytesReader(w, r.Body, bound))
		if err != nil {
			assert.EqualValues(t, bound, n)
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		}
	})))
	assert.Equal(t, http.StatusOK,
		send(t, s, http.MethodPost, "/", strings.NewReader(repeat("x", bound))).StatusCode)
	assert.Equal(t, http.StatusRequestEntityTooLarge,
		send(t, s, http.MethodPost, "/", strings.NewReader(repeat("x", bound+1))).StatusCode)
}

// A client that asks first is asked for its body once, and not at all if that is of no use.
func TestAClientThatAsksBeforeItSends(t *testing.T) {
	t.Parallel()
	const head = "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
	for name, c := range map[string]struct {
		opts   []httpmw.Option
		header string
		body   string
		asked  bool
		status int
	}{
		"small": {nil, "Key: a\r\nContent-Length: 3\r\n\r\n", "pen", true, 200},
		"large": {
			nil, "Key: a\r\nContent-Length: 300000\r\n\r\n", repeat("x", 300000), true,
			200,
		},
		"no key":       {nil, "Content-Length: 3\r\n\r\n", "", false, 400},
		"an empty key": {nil, "Key: empty\r\nContent-Length: 3\r\n\r\n", "", false, 400},
		"a long key": {
			nil, "Key: " + repeat("x", 513) + "\r\nContent-Length: 3\r\n\r\n", "", false, 400,
		},
		"an empty key of several": {
			nil, "Key: a,,b\r\nContent-Length: 3\r\n\r\n", "", false, 400,
		},
		"several keys": {nil, "Key: a,b\r\nContent-Length: 3\r\n\r\n", "pen", true, 200},
		"too many keys": {
			nil, "Key: " + manyKeys() + "\r\nContent-Length: 3\r\n\r\n", "", false, 400,
		},
		"too large": {
			[]httpmw.Option{httpmw.MaxBody(2)},
			"Key: a\r\nContent-Length: 3\r\n\r\n", "",
			false, 413,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, _ := scripted(t)
			conn, in := raw(t,
				serve(t, httpmw.Exclusive(k, namedByKey, c.opts...)(http.HandlerFunc(echo))),
				head+c.header)
			if c.asked {
				line, err := textproto.NewReader(in).ReadLine()
				require.NoError(t, err)
				assert.Equal(t, "HTTP/1.1 100 Continue", line)
				_, err = in.ReadString('\n')
				require.NoError(t, err)
				_, err = io.WriteString(conn, c.body)
				require.NoError(t, err)
			}
			a := readAnswer(t, in)
			assert.Equal(t, c.status, a.StatusCode)
			if c.asked {
				assert.Equal(t, c.body, a.body)
			}
		})
	}
}

// namedByKey names locks by a header, several with commas in between.
func namedByKey(r *http.Request) (string, error) {
	switch key := r.Header.Get("Key"); key {
	case "":
		return "", httpmw.ErrKey
	case "empty":
		return "", nil
	default:
		return lockmw.Keys(strings.Split(key, ",")...), nil
	}
}

// manyKeys are more than one operation may have.
func manyKeys() string {
	var keys []string
	for i := range lockmw.MaxKeys + 1 {
		keys = append(keys, strconv.Itoa(i))
	}
	return strings.Join(keys, ",")
}

// A connection can be taken over when the body has been read, and by a request that has none.
func TestAConnectionIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{
		"with a body": "POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: " +
			"talk\r\nContent-Length: 3\r\n\r\npen",
		"a large one": "POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: " +
			"talk\r\nContent-Length: 300000\r\n\r\n" + repeat("x", 300000),
		"without a body": "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: " +
			"talk\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k, _ := scripted(t)
			conn, in := raw(t,
				serve(t, httpmw.Exclusive(k,
					byName("a"))(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, err := io.Copy(io.Discard, r.Body)
					assert.NoError(t, err)
					conn, talk, err := http.NewResponseController(w).Hijack()
					if !assert.NoError(t, err) {
						return
					}
					_, _ = io.WriteString(conn,
						"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+
							"talk\r\n\r\n")
					word, err := talk.ReadString('\n')
					assert.NoError(t, err)
					_, _ = io.WriteString(conn, "you said "+word)
					assert.NoError(t, conn.Close())
				}))), request)
			//nolint:bodyclose // it has none: what follows is read from the connection
			res, err := http.ReadResponse(in, nil)
			require.NoError(t, err)
			assert.Equal(t, http.StatusSwitchingProtocols, res.StatusCode)
			_, err = io.WriteString(conn, "pen\n")
			require.NoError(t, err)
			said, err := io.ReadAll(in)
			require.NoError(t, err)
			assert.Equal(t, "you said pen\n", string(said))
		})
	}
}

// net/http goes by the type of the body that it has made, and must find it in its request.
func TestTheServersBodyIsGivenBack(t *testing.T) {
	t.Parallel()
	for proto, edit := range protocols {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			k, _ := scripted(t)
			h := httpmw.Exclusive(k, byName("a"))(http.HandlerFunc(echo))
			s := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body := r.Body
				h.ServeHTTP(w, r)
				assert.Equal(t, body, r.Body)
			}), edit)
			for _, size := range []int{1, httpmw.BodyBefore + 1} {
				assert.Len(t, send(t, s, http.MethodPost, "/",
					strings.NewReader(repeat("x", size))).body, size)
			}
		})
	}
}

// A body above MaxBody is refused, whether the client says so itself or not, and no lock is asked
// for.
func TestABodyAboveItsBound(t *testing.T) {
	t.Parallel()
	for proto, edit := range protocols {
		t.Run(proto, func(t *testing.T) {
			t.Parallel()
			const bound = httpmw.BodyBefore * 2
			k, store := scripted(t)
			s := serve(t, httpmw.Exclusive(k, byName("a"), httpmw.MaxBody(bound))(never(t)), edit)
			for _, body := range []io.Reader{
				strings.NewReader(repeat("x", bound+1)),
				unsized{strings.NewReader(repeat("x", bound+1))},
			} {
				requireProblem(t, send(t, s, http.MethodPost, "/", body),
					http.StatusRequestEntityTooLarge, httpmw.TypeBadRequest)
			}
			assert.False(t, asked(store))
		})
	}
}

func TestABodyThatIsBroken(t *testing.T) {
	t.Parallel()
	k, store := scripted(t)
	_, in := raw(t, serve(t, httpmw.Exclusive(k, byName("a"))(never(t))),
		"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n")
	p := requireProblem(t, readAnswer(t, in), http.StatusBadRequest, httpmw.TypeBadRequest)
	assert.Contains(t, p.Detail, "can't be decoded")
	assert.False(t, asked(store))
}
